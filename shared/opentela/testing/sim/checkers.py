"""What must hold in every run, whatever befalls it; each checker knows one invariant.

Some look at each step of each process, or at each change of each map; judges look once, when the
workload is over, faults are healed and the mesh has settled. Both read what machines hold and what
the history says, and change nothing.
"""

from collections.abc import Callable
from typing import Protocol

from opentela.core.ids import SessionId
from opentela.core.record import (
    Lifecycle,
    SessionRecord,
    claim_of,
    held_against,
    is_final,
    is_suspected,
    lifecycle_of,
)
from opentela.core.refusal import Reason
from opentela.core.session_map import SessionMap
from opentela.testing.sim.cluster import Cluster
from opentela.testing.sim.history import Outcome, Request
from opentela.testing.sim.maps import follow
from opentela.testing.sim.registry_shell import RegistryShell
from opentela.testing.sim.router_shell import RouterShell
from opentela.testing.world_node import Node


class Violation(AssertionError):  # noqa: N818 (the word of the field)
    """An invariant does not hold; the message begins with its name."""


class Judge(Protocol):
    """An invariant of the whole run."""

    def finish(self) -> None:
        """Look back."""


class Mapped(Protocol):
    """Processes with maps that tell when one of them begins."""

    on_map: list[Callable[[Node, SessionMap], None]]


class LatticeClimbs:
    """In no view does a session go down the lattice, or an incarnation back, or the dead rise."""

    def __init__(self, mesh: Mapped) -> None:
        mesh.on_map.append(self._follow)

    def _follow(self, node: Node, held: SessionMap) -> None:
        name, forgotten = node.name, set[SessionId]()

        def stored(session: SessionId, before: SessionRecord | None, after: SessionRecord) -> None:
            if before is None:
                is_new = session not in forgotten
                _require(is_new, "resurrection", name, session, "is back")
            else:
                _compare(name, session, before, after)

        def forgot(session: SessionId, record: SessionRecord) -> None:
            has_left = lifecycle_of(record) is Lifecycle.LEFT
            _require(has_left, "lattice", name, session, "was forgotten alive")
            forgotten.add(session)

        follow(held, stored, forgot)


def _compare(name: str, session: SessionId, before: SessionRecord, after: SessionRecord) -> None:
    was, is_ = lifecycle_of(before), lifecycle_of(after)
    is_back = bool(before.ending) and not is_final(before.ending)
    _require(is_ >= was or is_back, "lattice", name, session, f"went from {was.name} to {is_.name}")
    old, new = claim_of(before).incarnation, claim_of(after).incarnation
    _require(new >= old, "incarnation", name, session, f"went from #{old} to #{new}")
    # Who speaks of a later claim knows that the owner has refuted, though it is not held here yet.
    refuted = max(new, held_against(after)) > held_against(before)
    is_settled = is_ is Lifecycle.LEFT or refuted
    kept = is_suspected(after) or not is_suspected(before) or is_settled
    _require(kept, "suspicion", name, session, "was forgotten unrefuted")


def _require(holds: bool, what: str, name: str, session: SessionId, how: str) -> None:  # noqa: FBT001
    if not holds:
        raise Violation(f"{what}: {session} {how} at {name}")


class NeverRouteToTheEnded:
    """No router sends a request to a session that its own view holds for ended."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._seen: dict[str, int] = {}

    def observe(self, node: Node) -> None:
        """Look at the attempts that this router began since."""
        router = self._cluster.routers.get(node.name)
        if router is None:
            return
        for name, exchange in router.exchanges.items():
            attempts = exchange.request.attempts
            for attempt in attempts[self._seen.get(name, 0) :]:
                if attempt.lifecycle != Lifecycle.SERVING.name or attempt.suspected:
                    detail = f"{attempt.lifecycle}{' suspected' if attempt.suspected else ''}"
                    raise Violation(
                        f"routing: {node.name} sends {name} to {attempt.session}, {detail}"
                    )
            self._seen[name] = len(attempts)


class NeverTwiceOnOneSession:
    """No request is tried twice on one session, unless that may be slow and there is no other."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def finish(self) -> None:
        """Look at all attempts."""
        for request in self._cluster.history.requests.values():
            sessions = [attempt.session for attempt in request.attempts]
            over: set[SessionId] = set()
            tried: set[SessionId] = set()
            for attempt in request.attempts:
                if attempt.session in over or (attempt.session in tried and attempt.others):
                    raise Violation(
                        f"attempts: {request.name} was tried again on one of {sessions}"
                    )
                tried.add(attempt.session)
                if not attempt.may_be_slow:
                    over.add(attempt.session)


class EndsOnce:
    """Every request ends exactly once: ok, error or cancelled."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def finish(self) -> None:
        """Count the ends."""
        for request in self._cluster.history.requests.values():
            if len(request.ends) != 1:
                raise Violation(f"ends: {request.name} ended {len(request.ends)} times")


class NoFalseSuccess:
    """What a client takes for a whole answer is what one engine sent, every byte and no more."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def finish(self) -> None:
        """Compare every success with what the engine of its last attempt sent."""
        for request in self._cluster.history.requests.values():
            if request.outcome is Outcome.OK and not self._is_true(request):
                raise Violation(
                    f"false success: {request.name} got {len(request.received)} bytes that"
                    f" {request.attempts[-1].session if request.attempts else 'nobody'} never sent"
                )

    def _is_true(self, request: Request) -> bool:
        if not request.attempts or request.status != 200:  # noqa: PLR2004 (the engine's only one)
            return False
        sent = self._cluster.history.sent.get((request.name, request.attempts[-1].session))
        return sent == bytes(request.received)


class InFlightBalances:
    """When nobody asks any more, nothing is counted as under way anywhere."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def finish(self) -> None:
        """Look at every count."""
        for name, router in self._cluster.routers.items():
            counts = {
                "exchanges": len(router.exchanges),
                "streams": len(router.legs),
                "policy": len(router.policy._in_flight),  # noqa: SLF001 (its invariant)
            }
            if any(counts.values()):
                raise Violation(f"in flight: {name} still counts {counts}")
        for name, supervisor in self._cluster.supervisors.items():
            if supervisor.in_flight or supervisor.engine.running:
                raise Violation(
                    f"in flight: {name} still has {supervisor.in_flight} streams and"
                    f" {supervisor.engine.running} requests at its engine"
                )


class ViewsAreSound:
    """Every map's derived parts are what its records say, and all maps are equal at the end."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def finish(self) -> None:
        """Compare all maps with each other."""
        first: tuple[str, SessionMap] | None = None
        for name, held in self._cluster.views():
            held.validate()
            first = first or (name, held)
            if dict(held.records) != dict(first[1].records):
                raise Violation(f"convergence: {name} and {first[0]} hold different records")


class NoModelIsDenied:
    """No client is told that a model does not exist which was offered all the time."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def finish(self) -> None:
        """Look at every answer."""
        for request in self._cluster.history.requests.values():
            if request.status == 404:  # noqa: PLR2004 (the status of the field)
                raise Violation(f"denied: {request.name} at {request.router}: {request.ends}")


class NoGhosts:
    """At the end nobody holds a session for living that is gone, and everybody knows who lives."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def finish(self) -> None:
        """Compare all maps with the truth."""
        cluster = self._cluster
        for name, session in cluster.ghosts():
            raise Violation(f"ghost: {name} holds {session}, whose owner is gone")
        for supervisor in cluster.serving():
            serving = supervisor.session
            assert serving is not None
            for name, held in cluster.views():
                record = held.living.get(serving)
                if record is None or is_suspected(record):
                    raise Violation(f"lost: {name} does not know {serving}, which serves")


_HONEST = (Reason.FORGOTTEN, Reason.UNSUPPORTED)
"""What befalls the honest, too: who was cut off says what it did not know to be out of date."""


class HonestAreBelieved:
    """No record of an honest process is refused, and every message can be read."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def finish(self) -> None:
        """Look at what was refused."""
        cluster = self._cluster
        shells: dict[str, RegistryShell | RouterShell] = {**cluster.registries, **cluster.routers}
        for name, shell in shells.items():
            refused = {r.value: n for r, n in shell.held.rejections.items() if r not in _HONEST}
            if refused or shell.unreadable:
                raise Violation(f"refused: {name} refused {refused}, unread {shell.unreadable}")
