"""Rules that the audit events of placers keep, whatever happens to them."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from opentela.wire.audit import AuditEvent

DECISIONS: Final = ("PLANNED", "HELD")
COMMANDS: Final = ("START", "STOP")
OUTCOMES: Final = ("SERVES", "FREED", "FAILED")


def faults(events: Sequence[AuditEvent], *, is_settled: bool = True) -> list[str]:
    """Return which rules *events*, each placer's in its order, break; none if all is well.

    Args:
        events: Of all placers.
        is_settled: Whether everything that was begun has come to its end.
    """
    found = [f"start {one} was told twice" for one in _twice(events)]
    for placer in dict.fromkeys(one.placer for one in events):
        found += _of_one([one for one in events if one.placer == placer])
    return found + (_unfinished(events) if is_settled else [])


def _twice(events: Iterable[AuditEvent]) -> list[str]:
    told = Counter(one.command for one in events if one.kind == "START")
    return [command for command, times in told.items() if times > 1]


def _of_one(events: Iterable[AuditEvent]) -> list[str]:
    found: list[str] = []
    decisions: set[str] = set()
    failed: set[str] = set()
    term: int | None = None
    for one in events:
        if one.kind == "LED":
            term, decisions = one.term, set()
        elif term is None:
            found.append(f"{one.kind} of {one.placer}, which did not lead")
        elif one.term < term:
            found.append(f"{one.kind} under term {one.term}, after {term}")
        if one.kind in DECISIONS:
            decisions.add(one.id)
        elif one.kind == "FAILED":
            failed.add(one.command)
        elif one.kind == "DEPOSED":
            term = None
        elif one.kind in COMMANDS:
            found += _of_command(one, decisions, failed)
        if not one.reason and one.kind not in {"START", "SERVES"}:
            found.append(f"{one.kind} of {one.command} without a reason")
    return found


def _of_command(one: AuditEvent, decisions: set[str], failed: set[str]) -> list[str]:
    if one.dry_run:
        return [f"{one.kind} in a dry run"]
    if one.decision in decisions or (one.kind == "STOP" and one.command in failed):
        return []
    return [f"{one.kind} of {one.command} without a decision"]


def _unfinished(events: Iterable[AuditEvent]) -> list[str]:
    begun: dict[str, str] = {}
    for one in events:
        if one.kind in COMMANDS:
            begun[one.command] = one.kind
        elif one.kind in OUTCOMES and not (
            one.kind == "SERVES" and begun.get(one.command) == "STOP"
        ):
            begun.pop(one.command, None)
    return [f"nobody told what came of the {kind} of {command}" for command, kind in begun.items()]
