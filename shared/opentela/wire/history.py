"""The stream that keeps lifecycle events: how registries make it, how anybody reads it.

It is JetStream's, at the hub. It is read by "direct get", which asks for stored messages in batches
and leaves nothing behind at the server:

    ask {"seq": 7, "batch": 256}   →
                                   ← message 7, message 8, …
                                   ← 204, how many more there are
                                   ← or 404: there is none

Reference: https://docs.nats.io/nats-concepts/jetstream and ADR-31 of NATS.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

import msgspec

from opentela.core.errors import WireError
from opentela.wire import subjects

DAYS: Final = 30
BYTES_MAX: Final = 1024 * 1024 * 1024
"""Of events; some two million. Then the oldest go before their time."""
DUPLICATES_S: Final = 600.0
"""Every registry tells each change, if only once it hears of it: a repetition within this is not
stored. Readers drop later ones by their ids."""
BATCH: Final = 256
"""Events an answer, 400 B each: 0.1 MB, and one round trip for so many."""

_ALREADY_THERE: Final = 10058
"""JetStream's code for a stream of that name with other settings."""
_STATUS: Final = "Status"
_END, _NOT_FOUND, _NO_RESPONDERS = "204", "404", "503"


class Stored(NamedTuple):
    """One event, as the stream has it."""

    sequence: int
    payload: bytes


class BatchEnd(NamedTuple):
    """What was asked for has been sent; *pending* more are there."""

    pending: int


class Nothing(NamedTuple):
    """There is no such event yet: the reader is up to date."""


class NoHistory(NamedTuple):
    """Nobody keeps events, or nobody who does can be reached; *why* for people."""

    why: str


Answer: TypeAlias = Stored | BatchEnd | Nothing | NoHistory


def settings(*, days: float = DAYS, bytes_max: int = BYTES_MAX, replicas: int = 1) -> bytes:
    """Return what the stream shall be like, to make or to alter it."""
    return msgspec.json.encode(
        {
            "name": subjects.HISTORY,
            "subjects": [subjects.ALL_EVENTS],
            "description": "lifecycle events of sessions",
            "retention": "limits",
            "discard": "old",
            "storage": "file",
            "compression": "s2",
            "num_replicas": replicas,
            "max_age": _nanoseconds(days * 86_400),
            "max_bytes": bytes_max,
            "max_msgs": -1,
            "max_msg_size": -1,
            "max_consumers": -1,
            "duplicate_window": _nanoseconds(min(DUPLICATES_S, days * 86_400)),
            "allow_direct": True,
        }
    )


class _Fault(msgspec.Struct, frozen=True, kw_only=True):
    err_code: int = 0
    description: str = "unknown error"


class _Reply(msgspec.Struct, frozen=True, kw_only=True):
    error: _Fault | None = None


_REPLY: Final = msgspec.json.Decoder(_Reply)


def is_other(reply: bytes) -> bool:
    """Return whether *reply* says that the stream is there with other settings."""
    error = _reply(reply).error
    return error is not None and error.err_code == _ALREADY_THERE


def fault(reply: bytes) -> str:
    """Return why the stream could not be made or altered; nothing if it could."""
    error = _reply(reply).error
    return "" if error is None else error.description


def _reply(reply: bytes) -> _Reply:
    try:
        return _REPLY.decode(reply)
    except msgspec.DecodeError as error:
        raise WireError(f"not an answer of JetStream: {error}") from error


def ask_last() -> bytes:
    """Return the question for the latest event."""
    return msgspec.json.encode({"last_by_subj": subjects.ALL_EVENTS})


def ask_since(at: str) -> bytes:
    """Return the question for events from *at* on, an RFC 3339 time."""
    return _ask({"start_time": at})


def ask_from(sequence: int) -> bytes:
    """Return the question for events from number *sequence* on."""
    return _ask({"seq": sequence})


def _ask(start: dict[str, str | int]) -> bytes:
    return msgspec.json.encode({**start, "next_by_subj": subjects.ALL_EVENTS, "batch": BATCH})


def read(headers: Mapping[str, str], payload: bytes) -> Answer:
    """Return what one message of an answer means.

    Raises:
        WireError: It means nothing that was asked for.
    """
    status = headers.get(_STATUS, "")
    if status == _NOT_FOUND:
        return Nothing()
    if status == _NO_RESPONDERS:
        return NoHistory("no hub that keeps events can be reached")
    if status not in ("", _END):
        raise WireError(f"the stream of events answers {status} {headers.get('Description', '')}")
    try:
        if status == _END:
            return BatchEnd(int(headers["Nats-Num-Pending"]))
        return Stored(int(headers["Nats-Sequence"]), payload)
    except (KeyError, ValueError) as error:
        raise WireError(f"not an answer of a stream: {dict(headers)}") from error


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1_000_000_000)
