"""A whole simulated mesh: registries, routers and supervisors at sites, in one world."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from opentela.core.ids import SessionId
from opentela.core.record import Lifecycle, SessionRecord, claim_of, lifecycle_of
from opentela.core.session_map import SessionMap
from opentela.registry.config import LAN, RegistryConfig
from opentela.testing.sim.engine import Condition
from opentela.testing.sim.history import History
from opentela.testing.sim.registry_shell import RegistryShell
from opentela.testing.sim.router_shell import RouterForm, RouterShell, lane_of
from opentela.testing.sim.supervisor_shell import SupervisorForm, SupervisorShell
from opentela.testing.world import World
from opentela.testing.world_node import ClockForm, Node

_SYNC_S = 0.25


class ClusterForm(msgspec.Struct, frozen=True, kw_only=True):
    """What a mesh consists of.

    Attributes:
        registries: Name to site.
        routers: Name to site.
        supervisors: Name to site and what it runs.
        clock_offset_s: Wall clocks of nodes are wrong by up to this, either way.
        clock_drift: ... and gain or lose up to this share.
        restart_s: Until a supervisor that ended is started again, as a scheduler resubmits a job;
            0 for never.
        state_every_s: Registries write their maps so often, and read them when they start again;
            0 for never.
    """

    registries: dict[str, str]
    routers: dict[str, str]
    supervisors: dict[str, tuple[str, SupervisorForm]]
    registry: RegistryConfig = LAN
    router: RouterForm = RouterForm()
    clock_offset_s: float = 600.0
    clock_drift: float = 1e-4
    restart_s: float = 5.0
    state_every_s: float = 0.0


class SavedState(NamedTuple):
    """What a registry wrote to its file."""

    records: tuple[SessionRecord, ...]
    cut_ms: int
    horizon_ms: int


class Cluster:
    """The processes of a mesh as they are now.

    Attributes:
        registries: Shells by node name; a process that is down has none.
        routers: The same.
        supervisors: The same.
        on_map: Told of every map when its process starts.
        registries_forgot: A registry was started again, without its map.
        marks: Virtual times of what a scenario did, for its own expectation.
        owners: Every session that ever was, with the name of its node and the epoch of its process.
    """

    def __init__(self, world: World, form: ClusterForm) -> None:
        self.world = world
        self.form = form
        self.history = History()
        self.registries: dict[str, RegistryShell] = {}
        self.routers: dict[str, RouterShell] = {}
        self.supervisors: dict[str, SupervisorShell] = {}
        self.owners: dict[SessionId, tuple[str, int]] = {}
        self.on_map: list[Callable[[Node, SessionMap], None]] = []
        self.registries_forgot = False
        self.marks: dict[str, float] = {}
        self._states: dict[str, SavedState] = {}
        rng = world.fork("clocks")
        world.network.lane_of = lane_of
        places = [*form.registries.items(), *form.routers.items()]
        places += [(name, site) for name, (site, _) in form.supervisors.items()]
        for name, site in places:
            clock = ClockForm(
                wall_offset_s=rng.uniform(-form.clock_offset_s, form.clock_offset_s),
                drift=rng.uniform(-form.clock_drift, form.clock_drift),
            )
            world.add_node(name, site=site, clock=clock)

    @property
    def sites(self) -> list[str]:
        """Every site, in order of name."""
        return sorted({node.site for node in self.world.nodes.values()})

    def begin(self) -> None:
        """Start everything, in a random order within a second."""
        rng = self.world.fork("begin")
        for name in self.world.nodes:
            self.world.after(rng.random(), self.start, name)
        if self.form.state_every_s:
            self.world.after(self.form.state_every_s, self._write_states)

    def _write_states(self) -> None:
        for name, registry in self.registries.items():
            held = registry.held
            records = tuple(held.records.values())
            self._states[name] = SavedState(records, held.cut_ms, held.horizon_ms)
        self.world.after(self.form.state_every_s, self._write_states)

    def start(self, name: str) -> None:
        """Start the process of a node, if it is not running."""
        node = self.world.nodes[name]
        if node.alive:
            return
        node.start()
        if name in self.form.registries:
            registry = self.registries[name] = RegistryShell(node, self.form.registry)
            self._show(node, registry.held)
            state = self._states.get(name)
            if state is not None:
                node.handle(registry.restore, *state)
            node.handle(registry.begin)
        elif name in self.form.routers:
            router = self.routers[name] = RouterShell(node, self.form.router, self.history)
            self._show(node, router.held)
            node.handle(router.begin)
        elif name in self.form.supervisors:
            self._start_supervisor(node)

    def _show(self, node: Node, held: SessionMap) -> None:
        for look in self.on_map:
            look(node, held)

    def _start_supervisor(self, node: Node) -> None:
        _, form = self.form.supervisors[node.name]
        supervisor = self.supervisors[node.name] = SupervisorShell(
            node,
            form,
            self.history.sent,
            on_session=lambda session: self._born(node, session),
            on_exit=lambda: self._gone(node.name),
        )
        node.handle(supervisor.begin)

    def _born(self, node: Node, session: SessionId) -> None:
        self.owners[session] = (node.name, node.epoch)

    def _gone(self, name: str) -> None:
        for shells in (self.registries, self.routers, self.supervisors):
            shells.pop(name, None)
        if name in self.form.supervisors and self.form.restart_s:
            self.world.after(self.form.restart_s, self.start, name)

    def crash(self, name: str) -> None:
        """Kill the process of a node, if it is running."""
        node = self.world.nodes[name]
        if node.alive:
            node.crash()
            self.history.router_died(self.world.now, name)
            self.registries_forgot |= name in self.form.registries
            self._gone(name)

    def leave(self, name: str) -> None:
        """Let a registry stop in order, if it is running: it says farewell first."""
        registry = self.registries.get(name)
        if registry is not None:
            self.world.nodes[name].handle(registry.leave)
            self.crash(name)

    def mark(self, name: str) -> None:
        """Note the time of something that a scenario does."""
        self.marks[name] = self.world.now

    # What is so --------------------------------------------------------------

    def views(self) -> Iterator[tuple[str, SessionMap]]:
        """Yield the map of every registry and router that runs."""
        for name, registry in self.registries.items():
            yield name, registry.held
        for name, router in self.routers.items():
            yield name, router.held

    def agree(self) -> bool:
        """Return whether everybody is attached, booted, and holds the same.

        Of the dead, views hold verdicts that registries which forgot them must come to again.
        """
        if not all(node.attached for node in self.world.nodes.values() if node.alive):
            return False
        if not all(router.view.caught_up for router in self.routers.values()):
            return False
        if self.registries_forgot:
            return len({self._living(held) for _, held in self.views()}) <= 1
        return len({held.trie.children(b"") for _, held in self.views()}) <= 1

    def _living(self, held: SessionMap) -> frozenset[SessionRecord]:
        return frozenset(record for session, record in held.living.items() if self.lives(session))

    @property
    def in_flight(self) -> int:
        """Streams that sessions still carry; a lost `Cancel` leaves one until it times out."""
        return sum(one.in_flight for one in self.supervisors.values())

    def serving(self) -> list[SupervisorShell]:
        """Return the supervisors that claim to serve."""
        return [one for one in self.supervisors.values() if one.is_serving]

    def is_ready(self) -> bool:
        """Return whether everybody runs, every view agrees, and every supervisor is routable."""
        return (
            all(node.alive for node in self.world.nodes.values())
            and self.agree()
            and all(self.is_routable(one) for one in self.supervisors.values())
        )

    def is_routable(self, supervisor: SupervisorShell) -> bool:
        """Return whether it can serve and every router would send requests to it."""
        session = supervisor.session
        return (
            session is not None
            and supervisor.is_serving
            and supervisor.engine.condition is Condition.SERVING
            and all(
                session
                in {one.session for one in router.directory.pool(supervisor.model).candidates}
                for router in self.routers.values()
            )
        )

    def lives(self, session: SessionId) -> bool:
        """Return whether the owner of a session runs and has not given it up."""
        name, epoch = self.owners[session]
        shell = self.supervisors.get(name)
        if shell is None or self.world.nodes[name].epoch != epoch or shell.session != session:
            return False
        claim = shell.sessions[session]
        return claim.lifecycle < Lifecycle.DOWN

    def ghosts(self) -> list[tuple[str, SessionId]]:
        """Return what views hold for living although nobody owns it any more."""
        return [
            (name, session)
            for name, held in self.views()
            for session, record in held.living.items()
            if lifecycle_of(record) < Lifecycle.DOWN and not self.lives(claim_of(record).session)
        ]
