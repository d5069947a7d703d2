"""Many members, some registries and routers: a mesh of which only membership is simulated.

Registries are what they are, and so are routers, which nobody asks anything; members speak for
sessions without engines (see `member`). A `Cluster` has whole supervisors and requests instead.
"""

from collections.abc import Callable, Iterator

import msgspec

from opentela.core.ids import SessionId
from opentela.core.record import Lifecycle, claim_of, is_routable, lifecycle_of
from opentela.core.session_map import SessionMap
from opentela.registry.config import LAN, RegistryConfig
from opentela.testing.sim.history import History
from opentela.testing.sim.member import Member
from opentela.testing.sim.registry_shell import RegistryShell
from opentela.testing.sim.router_shell import RouterForm, RouterShell
from opentela.testing.world import World
from opentela.testing.world_node import ClockForm, Node


class PopulationForm(msgspec.Struct, frozen=True, kw_only=True):
    """Where everybody is, name to site.

    Attributes:
        begin_s: Everybody starts within so many seconds.
        providers: Members are of so many providers in turn.
        clock_offset_s: Wall clocks are wrong by up to this, either way.
        clock_drift: ... and all clocks gain or lose up to this share.
    """

    registries: dict[str, str]
    routers: dict[str, str]
    members: dict[str, str]
    registry: RegistryConfig = LAN
    router: RouterForm = RouterForm()
    begin_s: float = 1.0
    providers: int = 8
    models: int = 4
    clock_offset_s: float = 600.0
    clock_drift: float = 1e-4


class Population:
    """The processes of such a mesh as they are now.

    Attributes:
        registries: Shells by node name; a process that is down has none.
        routers: The same.
        members: The same.
        owners: Every session that ever was, with the name of its node and the epoch of its process.
        on_map: Told of every map when its process starts.
    """

    def __init__(self, world: World, form: PopulationForm) -> None:
        self.world = world
        self.form = form
        self.registries: dict[str, RegistryShell] = {}
        self.routers: dict[str, RouterShell] = {}
        self.members: dict[str, Member] = {}
        self.owners: dict[SessionId, tuple[str, int]] = {}
        self.on_map: list[Callable[[Node, SessionMap], None]] = []
        self._history = History()
        self._clocks = world.fork("clocks")
        self._places = {**form.registries, **form.routers, **form.members}
        for name, site in self._places.items():
            self._add(name, site)

    def _add(self, name: str, site: str) -> None:
        form, rng = self.form, self._clocks
        clock = ClockForm(
            wall_offset_s=rng.uniform(-form.clock_offset_s, form.clock_offset_s),
            drift=rng.uniform(-form.clock_drift, form.clock_drift),
        )
        self.world.add_node(name, site=site, clock=clock)

    def begin(self) -> None:
        """Start everybody, in a random order."""
        rng = self.world.fork("begin")
        for name in list(self.world.nodes):
            self.world.after(rng.random() * self.form.begin_s, self.start, name)

    def start(self, name: str) -> None:
        """Start the process of a node, if it is not running."""
        node = self.world.nodes[name]
        if node.alive:
            return
        node.start()
        if name in self.form.registries:
            registry = self.registries[name] = RegistryShell(node, self.form.registry)
            self._show(node, registry.held)
            node.handle(registry.begin)
        elif name in self.form.routers:
            router = self.routers[name] = RouterShell(node, self.form.router, self._history)
            self._show(node, router.held)
            node.handle(router.begin)
        else:
            self._start_member(node)

    def _show(self, node: Node, held: SessionMap) -> None:
        for look in self.on_map:
            look(node, held)

    def _start_member(self, node: Node) -> None:
        number = int(node.name.rpartition("-")[2])
        member = self.members[node.name] = Member(
            node,
            provider=f"p-{number % self.form.providers}",
            model=f"m-{number % self.form.models}",
            on_session=lambda session: self._born(node, session),
        )
        node.handle(member.begin)

    def _born(self, node: Node, session: SessionId) -> None:
        self.owners[session] = (node.name, node.epoch)

    def add(self, name: str, site: str) -> None:
        """Let a member come that was not there at the beginning; its name ends in a number."""
        self._places[name] = site
        self._add(name, site)
        self.start(name)

    def crash(self, name: str) -> None:
        """Kill the process of a node, if it is running."""
        node = self.world.nodes[name]
        if node.alive:
            node.crash()
            for shells in (self.registries, self.routers, self.members):
                shells.pop(name, None)

    def leave(self, name: str) -> None:
        """Let a member say farewell and exit."""
        member = self.members.get(name)
        if member is not None:
            member.leave()
            self.crash(name)

    # What is so --------------------------------------------------------------

    def views(self) -> Iterator[tuple[str, SessionMap]]:
        """Yield the map of every registry and router that runs."""
        for name, registry in self.registries.items():
            yield name, registry.held
        for name, router in self.routers.items():
            yield name, router.held

    def agree(self) -> bool:
        """Return whether everybody holds the same."""
        if not all(router.view.caught_up for router in self.routers.values()):
            return False
        return len({held.trie.children(b"") for _, held in self.views()}) <= 1

    def living(self) -> list[SessionId]:
        """Return the sessions whose members run and have not given them up."""
        return [
            member.session.claim.session
            for member in self.members.values()
            if member.session is not None and not member.session.has_ended
        ]

    def lives(self, session: SessionId) -> bool:
        """Return whether the owner of a session runs and has not given it up."""
        name, epoch = self.owners[session]
        member = self.members.get(name)
        if member is None or member.node.epoch != epoch or member.session is None:
            return False
        claim = member.session.claim
        return claim.session == session and claim.lifecycle < Lifecycle.DOWN

    def is_ready(self) -> bool:
        """Return whether everybody runs, all agree, and every member is routable everywhere."""
        living = self.living()
        return (
            len(living) == sum(name not in self._others for name in self._places)
            and self.agree()
            and all(
                (record := held.get(session)) is not None and is_routable(record)
                for _, held in self.views()
                for session in living
            )
        )

    @property
    def _others(self) -> dict[str, str]:
        return {**self.form.registries, **self.form.routers}

    def ghosts(self) -> list[tuple[str, SessionId]]:
        """Return what views hold for living although nobody owns it any more."""
        return [
            (name, session)
            for name, held in self.views()
            for session, record in held.living.items()
            if lifecycle_of(record) < Lifecycle.DOWN and not self.lives(claim_of(record).session)
        ]
