"""The lease by which one of several placers leads: what is said to JetStream, and its answers.

It is one key of a key-value bucket at the hub. Each write names the revision that it replaces, and
the server takes only one of two such writes:

    request "$JS.hub.API.$KV.otela_placers.leader", Nats-Expected-Last-Subject-Sequence: 17   →
                                                                  ← {"stream": …, "seq": 18}
                                                                  ← or error 10071: it is not 17

Revisions only grow, also if the bucket is lost and made again: it then begins at the time of day.
Reference: https://docs.nats.io/nats-concepts/jetstream/key-value-store and ADR-8 of NATS.
"""

import base64
from typing import Final

import msgspec

from opentela.core.errors import WireError
from opentela.wire import subjects

EXPECTED: Final = "Nats-Expected-Last-Subject-Sequence"
"""Header of a write: the revision that it replaces; 0 for none."""

_ALREADY_THERE: Final = 10058
_NO_STREAM, _NO_MESSAGE = 10059, 10037
_WRONG_REVISION: Final = frozenset({10071, 10164})


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """Who leads, as stored.

    Attributes:
        placer: Its name; empty when it has given the lease back.
        instance: Of its process, for one name may be used twice by mistake.
        lease_s: Others may take over when the entry has not changed for so long.
        ahead: By how much terms are ahead of revisions, since agents once knew of later terms than
            the bucket had revisions. Whoever takes over keeps it.
        settings: Fingerprint of what it is told to do, by which others see whether theirs differ.
    """

    placer: str = ""
    instance: str = ""
    lease_s: float = 0.0
    ahead: int = 0
    settings: str = ""


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """The lease as it was read; revision 0 when nobody ever held it."""

    revision: int = 0
    entry: Entry = Entry()


class _Fault(msgspec.Struct, frozen=True, kw_only=True):
    err_code: int = 0
    description: str = "unknown error"


class _Stored(msgspec.Struct, frozen=True, kw_only=True):
    seq: int
    data: str = ""


class _Reply(msgspec.Struct, frozen=True, kw_only=True):
    error: _Fault | None = None
    message: _Stored | None = None
    seq: int = 0


_REPLY: Final = msgspec.json.Decoder(_Reply)
_ENTRY: Final = msgspec.json.Decoder(Entry)


def settings(*, now_ms: int, replicas: int = 1) -> bytes:
    """Return what the bucket shall be like, to make it; *now_ms* is where revisions begin."""
    return msgspec.json.encode(
        {
            "name": subjects.LEASES,
            "subjects": [subjects.ALL_LEASES],
            "description": "which placer leads",
            "retention": "limits",
            "discard": "new",
            "storage": "file",
            "num_replicas": replicas,
            "max_msgs_per_subject": 1,
            "max_msgs": -1,
            "max_bytes": 1024 * 1024,
            "max_msg_size": 4096,
            "max_consumers": -1,
            "allow_rollup_hdrs": True,
            "deny_delete": True,
            "allow_direct": True,
            "first_seq": now_ms,
        }
    )


def made_fault(reply: bytes) -> str:
    """Return why the bucket could not be made; nothing if it could, or is there already."""
    error = _reply(reply).error
    return "" if error is None or error.err_code == _ALREADY_THERE else error.description


def ask() -> bytes:
    """Return the question for the lease."""
    return msgspec.json.encode({"last_by_subj": subjects.LEASE})


def read(reply: bytes) -> Held | None:
    """Return who holds the lease; None when there is no bucket.

    Raises:
        WireError: That is no answer to the question.
    """
    told = _reply(reply)
    if told.error is not None:
        if told.error.err_code == _NO_MESSAGE:
            return Held()
        if told.error.err_code == _NO_STREAM:
            return None
        raise WireError(f"the bucket of leases answers: {told.error.description}")
    if told.message is None:
        raise WireError("the bucket of leases answers with no message")
    try:
        entry = _ENTRY.decode(base64.b64decode(told.message.data))
    except (ValueError, msgspec.DecodeError) as error:
        raise WireError(f"not a lease: {error}") from error
    return Held(revision=told.message.seq, entry=entry)


def written(entry: Entry) -> bytes:
    """Return the bytes that stand for *entry*."""
    return msgspec.json.encode(entry)


def revision(reply: bytes) -> int:
    """Return the revision that a write got; 0 when somebody else had written meanwhile.

    Raises:
        WireError: It failed for another reason.
    """
    told = _reply(reply)
    if told.error is None:
        return told.seq
    if told.error.err_code in _WRONG_REVISION:
        return 0
    raise WireError(f"the bucket of leases answers: {told.error.description}")


def _reply(reply: bytes) -> _Reply:
    try:
        return _REPLY.decode(reply)
    except msgspec.DecodeError as error:
        raise WireError(f"not an answer of JetStream: {error}") from error
