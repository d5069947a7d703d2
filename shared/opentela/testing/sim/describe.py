"""Messages of a trace in words."""

from collections.abc import Callable
from typing import Final

import msgspec

from opentela.core.errors import OtelaError
from opentela.core.record import CLAIM_DECODER, SessionRecord, SignedClaim, Statement
from opentela.wire import control, frames

_TAIL: Final = 6


def describe(subject: str, payload: bytes) -> str:
    """Return what a message says, short enough for one line."""
    if not subject.startswith("otela."):
        return subject
    tokens = subject.split(".")
    kind = tokens[2] if len(tokens) > 2 else ""  # noqa: PLR2004 (root is two tokens)
    if not payload:
        return subject
    reader = _READERS.get(kind, _anything)
    try:
        text = reader(payload)
    except (OtelaError, msgspec.DecodeError, ValueError) as error:
        text = f"{len(payload)} B, unreadable: {error}"
    target = ".".join([*tokens[3:-1], tokens[-1][-_TAIL:]])
    return f"{kind} {target}: {text}"


def _claim(signed: SignedClaim) -> str:
    claim = CLAIM_DECODER.decode(signed.body)
    return f"{claim.session[-_TAIL:]}#{claim.incarnation} {claim.lifecycle.name}"


def _record(record: SessionRecord) -> str:
    text = _claim(record.signed)
    return text + _statements(record.witnesses, record.ending)


def _verdict(message: control.Verdict) -> str:
    return f"{message.registry}:{_statements(message.witnesses, message.ending)}"


def _statements(witnesses: tuple[Statement, ...], ending: tuple[Statement, ...]) -> str:
    text = "".join(f" {one.registry}#{one.incarnation}/{one.quorum}" for one in witnesses)
    ended = "".join(f" {one.registry}#{one.incarnation}" for one in ending)
    return (f" witnesses{text}" if text else "") + (f" LEFT by{ended}" if ended else "")


def _repair(message: control.Repair) -> str:
    records = "; ".join(map(_record, message.records))
    wanted = ",".join(session[-_TAIL:] for session in message.wanted)
    return f"Repair [{records}] descend {len(message.descend)} wanted [{wanted}]"


def _records(message: control.Page | control.Records) -> str:
    return f"{type(message).__name__} [{'; '.join(map(_record, message.records))}]"


_CONTROL: Final[dict[type, Callable[..., str]]] = {
    control.Delta: lambda m: f"claim {_claim(m.signed)}",
    control.ProbeReply: lambda m: f"alive {m.sequence} {_claim(m.signed)}",
    control.Verdict: _verdict,
    control.Page: _records,
    control.Records: _records,
    control.Repair: _repair,
    control.DigestAsk: lambda m: f"DigestAsk {m.asker} /{m.prefix.hex()}",
    control.Leaves: lambda m: f"Leaves {m.asker} /{m.prefix.hex()} {len(m.hashes)}",
}


def _control(message: object) -> str:
    return _CONTROL.get(type(message), str)(message)


def _frame(payload: bytes) -> str:
    frame = frames.decode(payload)
    match frame:
        case frames.Open():
            text = f"Open {frame.method} {frame.path} {len(frame.body)} B"
        case frames.Data():
            text = f"Data {frame.seq} {len(frame.data)} B"
        case frames.Fail():
            text = f"Fail {frame.kind} definite={frame.definite} {frame.message}"
        case _:
            fields = {f: getattr(frame, f) for f in frame.__struct_fields__ if f != "stream"}
            text = f"{type(frame).__name__} {fields}"
    return f"{frame.stream:x} {text}"


def _anything(payload: bytes) -> str:
    return f"{len(payload)} B"


def _reply(payload: bytes) -> str:
    try:
        return _control(control.read_probe_reply(payload))
    except OtelaError:
        return _frame(payload)


def _inbox(payload: bytes) -> str:
    for reader in (control.read_page, control.read_repair):
        try:
            return _control(reader(payload))
        except OtelaError:
            continue
    return _anything(payload)


_READERS: Final[dict[str, Callable[[bytes], str]]] = {
    "delta": lambda payload: _control(control.read_delta(payload)),
    "beat": lambda payload: f"beat #{control.read_beat(payload).incarnation}",
    "probe": lambda payload: f"probe {control.read_probe(payload).sequence}",
    "verdict": lambda payload: _control(control.read_verdict(payload)),
    "gossip": lambda payload: _control(control.read_gossip(payload)),
    "snapshot": lambda payload: _control(control.read_snapshot_ask(payload)),
    "inbox": _inbox,
    "reply": _reply,
    "data": _frame,
    "events": lambda payload: payload.decode(),
}
