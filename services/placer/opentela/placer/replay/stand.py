"""Agents of a replay: they take the commands of a placer; loading and draining take their time."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from opentela.core import ids
from opentela.core.ids import NodeId, ProviderId, SiteId
from opentela.core.record import (
    CLAIM_ENCODER,
    Claim,
    Lifecycle,
    ModelOffer,
    Offer,
    SessionRecord,
    SignedClaim,
    claim_of,
)
from opentela.placer.problem import Group, Pool
from opentela.placer.replay.fleet import Change
from opentela.wire import command
from opentela.wire.command import Command, Holding, Look, Replica, Start, Stop

TEMPLATE: Final = "replay"
WALL_S: Final = 1_800_000_000.0
"""Unix time of the trace's beginning; it may be any."""
_DAY_S: Final = 86400.0
_KEY: Final = "U" + "A" * 55
_LOADING, _READY, _DRAINING, _STOPPED = "loading", "ready", "draining", "stopped"


class Stay(msgspec.Struct, kw_only=True):
    """One replica at an agent.

    Attributes:
        ready_s: From when it serves, if it is not stopped before.
        free_s: From when its GPUs are free; infinite until it is stopped.
        number: Of its engine's session, once it serves.
    """

    start: Start
    group: Group
    ready_s: float
    free_s: float = float("inf")
    state: str = _LOADING
    number: int = 0


class Times(NamedTuple):
    """How long things take: loading by model, pool and shape, and draining."""

    load_s: Mapping[Group, float]
    drain_s: float


class Stand:
    """One agent, which is one node.

    Attributes:
        record: Of its session.
        changes: Everything that it did.
    """

    def __init__(self, number: int, pool: Pool, times: Times) -> None:
        self._pool = pool
        self._times = times
        self._term = 0
        self._answers: dict[str, tuple[bool, str]] = {}
        self._stays: dict[str, Stay] = {}
        offer = Offer(engine=command.ENGINE, hardware=pool.gpu)
        self.record = _record(number, pool.name, offer, Lifecycle.SERVING)
        self.session = claim_of(self.record).session
        self.changes: list[Change] = []

    def found(self, group: Group, number: int) -> None:
        """Run one replica since long before the trace."""
        born_at_ms = int((WALL_S - _DAY_S) * 1000) + number
        name = ids.ulid(born_at_ms, number.to_bytes(ids.NOISE_BYTES, "big"))
        start = Start(
            command=name, term=0, template=TEMPLATE, model=group.model, tp=group.tp, pp=group.pp
        )
        self._stays[name] = Stay(start=start, group=group, ready_s=-_DAY_S)

    def take(self, now: float, asked: Command) -> Holding:
        """Return the answer to a command."""
        accepted, reason, name = True, "", ""
        self._term = max(self._term, asked.term)
        if not isinstance(asked, Look):
            name = asked.command
            if name not in self._answers:
                self._answers[name] = (
                    self._start(now, asked) if isinstance(asked, Start) else self._stop(now, asked)
                )
            accepted, reason = self._answers[name]
        return Holding(
            command=name,
            accepted=accepted,
            reason=reason,
            term=self._term,
            hardware=self._pool.gpu,
            gpus=tuple(map(str, range(self._pool.gpus_per_node))),
            templates=(TEMPLATE,),
            replicas=tuple(_told(one) for one in self._stays.values()),
        )

    def turn(self, now: float, number: Callable[[], int]) -> Iterator[SessionRecord]:
        """Yield what engines have become by *now*; *number* gives each new one its own."""
        for name, stay in list(self._stays.items()):
            if stay.state == _LOADING and stay.ready_s <= now:
                stay.state, stay.number = _READY, number()
                yield self._engine(stay, Lifecycle.SERVING)
            elif stay.state == _STOPPED:
                # It has been told; nobody asks for it again.
                del self._stays[name]
            elif stay.state == _DRAINING:
                if stay.number:
                    yield self._engine(stay, Lifecycle.LEFT)
                    stay.number = 0
                if stay.free_s <= now:
                    stay.state = _STOPPED

    def serving(self, now: float) -> Iterator[Group]:
        """Yield the group of each replica that requests reach."""
        for stay in self._stays.values():
            if stay.ready_s <= now and stay.state in {_LOADING, _READY}:
                yield stay.group

    def has_room(self, group: Group, now: float = -math.inf) -> bool:
        """Return whether one more replica of *group* may be started."""
        held = sum(one.group.gpus for one in self._stays.values() if one.free_s > now)
        return group.pool == self._pool.name and held + group.gpus <= self._pool.gpus_per_node

    def _start(self, now: float, start: Start) -> tuple[bool, str]:
        group = Group(start.model, self._pool.name, start.tp, start.pp)
        if group not in self._times.load_s:
            return False, "nobody knows how long it loads"
        if not self.has_room(group, now):
            return False, "no room"
        ready = now + self._times.load_s[group]
        self._stays[start.command] = Stay(start=start, group=group, ready_s=ready)
        self.changes.append(Change(group, ready, now, 1))
        return True, ""

    def _stop(self, now: float, stop: Stop) -> tuple[bool, str]:
        stay = self._stays.get(stop.start)
        if stay is not None and stay.state in {_LOADING, _READY}:
            stay.state, stay.free_s = _DRAINING, now + self._times.drain_s
            # One that never came to serve ceases the moment it would have begun.
            self.changes.append(Change(stay.group, max(now, stay.ready_s), stay.free_s, -1))
        return True, ""

    def _engine(self, stay: Stay, lifecycle: Lifecycle) -> SessionRecord:
        offer = Offer(
            models=(ModelOffer(name=stay.group.model),),
            engine="vllm",
            hardware=self._pool.gpu,
            gpus=stay.group.gpus,
            labels={command.COMMAND: stay.start.command},
        )
        return _record(stay.number, self._pool.name, offer, lifecycle)


def _told(stay: Stay) -> Replica:
    return Replica(
        start=stay.start.command,
        template=TEMPLATE,
        model=stay.group.model,
        tp=stay.group.tp,
        pp=stay.group.pp,
        gpus=(),
        state=stay.state,
    )


def _record(number: int, site: str, offer: Offer, lifecycle: Lifecycle) -> SessionRecord:
    nonce = number.to_bytes(8, "big")
    born_at_ms = int(WALL_S * 1000) + number
    claim = Claim(
        session=ids.session_id(born_at_ms, _KEY, nonce),
        provider=ProviderId("replay"),
        site=SiteId(site),
        node=NodeId("node"),
        key=_KEY,
        nonce=nonce,
        born_at_ms=born_at_ms,
        incarnation=int(lifecycle),
        lifecycle=lifecycle,
        offer=offer,
    )
    return SessionRecord(signed=SignedClaim(body=CLAIM_ENCODER.encode(claim), signature=b""))
