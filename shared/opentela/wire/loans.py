"""What a session and a router say to each other about a loan: the engine, asked without a hop.

::

    session                                   router
      │  Lendable: I would, to this host  ──▶   │
      │  ◀──  Borrow: I am on it                │
      │  Lend: where, the key, the limits ──▶   │   requests go to the engine
      │  ◀──  Account, Account …                │   every half second while any runs
      │  Recall: begin nothing more       ──▶   │
      │  ◀──  Account, closed                   │   and again at each end until none runs

Who has the engine's key can use it, so neither end believes that the other is on its host: each
shows a token that only processes of the host can make, for this session and this router process.
An `Account` counts from the loan's beginning, so that one that is lost or late does no harm; it
comes over the mesh when the channel is gone.
"""

from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

from opentela.core.errors import WireError
from opentela.wire import frames

Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**53)]
"""What is counted or a limit: nobody means less than nothing, or more than books add up to."""


class Lendable(msgspec.Struct, frozen=True, array_like=True, tag="lendable"):
    """The session would lend its engine to a router of its host.

    Attributes:
        host: Shows that the session is on it.
    """

    host: str


class Borrow(msgspec.Struct, frozen=True, array_like=True, tag="borrow"):
    """The router is on that host, and asks for the loan.

    Attributes:
        host: Shows that the router is on it.
    """

    host: str


class Lend(msgspec.Struct, frozen=True, array_like=True, tag="lend"):
    """The engine is lent; said again under the same number, the terms have changed.

    Attributes:
        number: Of the loan, among those of its session.
        address: Of the engine, on the loopback of host and network that both are on.
        port: There.
        key: What the engine asks for; empty for nothing.
        streams_max: Requests at once.
        body_bytes_max: Of a request.
        leave_at: Unix seconds until when requests may run; 0 for no end.
    """

    number: Count
    address: str
    port: Annotated[int, Meta(ge=1, le=65535)]
    key: str
    streams_max: Count
    body_bytes_max: Count
    leave_at: Annotated[float, Meta(ge=0)] = 0.0


class Recall(msgspec.Struct, frozen=True, array_like=True, tag="recall"):
    """Nothing more is to be begun on the loan.

    Attributes:
        at_once: What runs is to be broken off as well.
    """

    number: Count
    reason: str
    at_once: bool = False


class Account(msgspec.Struct, frozen=True, array_like=True, tag="account"):
    """What was done on a loan, since its beginning.

    Attributes:
        begun: Requests.
        ended: How many of them ended in which way.
        received: Bytes that came from the engine.
        is_closed: Nothing more will be begun.
    """

    number: Count
    begun: Count
    ended: dict[str, Count]
    received: Count
    is_closed: bool = False


Word: TypeAlias = Lendable | Borrow | Lend | Recall | Account

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(Word).decode


def encode(word: Word) -> bytes:
    """Return the frame that says *word*."""
    return frames.encode(frames.Loan(0, _encode(word)))


def decode(frame: frames.Loan) -> Word:
    """Return what *frame* says.

    Raises:
        WireError: It is no word about a loan.
    """
    try:
        return _decode(frame.word)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise WireError(f"no word about a loan: {error}") from error


def token_words(of: str, session: str, instance: str) -> str:
    """Return what the token of a host is made for: *of* is "session" or "router"."""
    return f"engine lent, {of} of {session} and {instance}"
