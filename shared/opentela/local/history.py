"""Events: which are asked for, which were told already, and what records tell of the past."""

import re
from collections import OrderedDict
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final, get_args

import msgspec

from opentela.core.errors import ConfigError
from opentela.core.record import Lifecycle, SessionRecord, claim_of, ended_at_ms, lifecycle_of
from opentela.wire.events import Kind, LifecycleEvent

REMEMBERED_MAX: Final = 4096
"""Ids of events kept to drop repetitions; each registry tells each change, within seconds."""

KINDS: Final = get_args(Kind)
_LENGTH: Final = re.compile(r"(\d+)([smhd])")
_UNIT_S: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which events are asked for; empty means any."""

    kinds: tuple[str, ...] = ()
    model: str = ""

    def takes(self, event: LifecycleEvent) -> bool:
        """Return whether *event* is asked for."""
        return (not self.kinds or event.kind in self.kinds) and (
            not self.model or self.model in event.models
        )


class Repetitions:
    """Drops what another registry has told already; remembers the last `REMEMBERED_MAX`."""

    def __init__(self) -> None:
        self._seen: OrderedDict[str, None] = OrderedDict()

    def is_new(self, event: LifecycleEvent) -> bool:
        """Return whether *event* was not seen before, and remember it."""
        if event.id in self._seen:
            return False
        self._seen[event.id] = None
        if len(self._seen) > REMEMBERED_MAX:
            self._seen.popitem(last=False)
        return True


def past(records: Iterable[SessionRecord], *, since_ms: int) -> list[LifecycleEvent]:
    """Return the births and ends that *records* hold, from *since_ms* on, oldest first.

    The mesh keeps no log of events; a record keeps when its session was born and when it ended,
    until it is compacted.
    """
    found: list[tuple[int, LifecycleEvent]] = []
    for record in records:
        claim = claim_of(record)
        moments = [(claim.born_at_ms, Lifecycle.JOINING)]
        if ended := ended_at_ms(record):
            moments.append((ended, lifecycle_of(record)))
        found += [
            (at_ms, _event(record, at_ms, lifecycle))
            for at_ms, lifecycle in moments
            if at_ms >= since_ms
        ]
    return [event for _, event in sorted(found, key=lambda one: (one[0], one[1].id))]


def _event(record: SessionRecord, at_ms: int, lifecycle: Lifecycle) -> LifecycleEvent:
    claim = claim_of(record)
    incarnation = 1 if lifecycle is Lifecycle.JOINING else claim.incarnation
    kind: Kind = lifecycle.name  # type: ignore[assignment]  # every lifecycle is a kind
    at = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return LifecycleEvent(
        id=f"{claim.session}.{incarnation}.{kind}",
        kind=kind,
        at=at.replace("+00:00", "Z"),
        registry="",
        provider=claim.provider,
        site=claim.site,
        session=claim.session,
        node=claim.node,
        incarnation=incarnation,
        models=tuple(model.name for model in claim.offer.models),
        reason=claim.reason if ended_at_ms(record) and lifecycle > Lifecycle.DRAINING else "",
    )


def length_ms(text: str) -> int:
    """Return how long `90s`, `10m`, `2h` or `1d` is, in milliseconds.

    Raises:
        ConfigError: *text* is no such length.
    """
    match = _LENGTH.fullmatch(text)
    if match is None:
        raise ConfigError(
            f"--since {text!r} is not a length of time", remedy="write it as 90s, 10m, 2h or 1d"
        )
    return int(match[1]) * _UNIT_S[match[2]] * 1000
