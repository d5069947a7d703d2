"""A simulated process: its clocks, its timers, its place in the mesh, and what befalls it.

A process may be slow, be paused as by SIGSTOP (it does nothing while messages queue up), crash
and be started again as somebody new. Its monotonic clock starts at a random value and may drift,
and its wall clock may be wrong, so that a machine that compares clocks of two processes is found
out.
"""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from opentela.mesh.bus import Handler, Message

if TYPE_CHECKING:
    from opentela.testing.world import World
    from opentela.testing.world_network import Interest

BACKLOG_MAX: Final = 50_000
"""Messages that wait for a paused or slow process; NATS drops a slow consumer at a like number."""
STALE_S: Final = 6.0
"""Silence after which the server drops a client: pings every 2 s, two misses, then the third."""
RECONNECT_MAX_S: Final = 2.0
"""Seconds until a client that lost its server is back, at most."""

Observer: TypeAlias = Callable[["Node"], None]


class ClockForm(NamedTuple):
    """How a node's clocks deviate.

    Attributes:
        wall_offset_s: Added to the true Unix time.
        drift: Seconds gained for each true second, on both clocks; 1e-4 is a bad crystal.
    """

    wall_offset_s: float = 0.0
    drift: float = 0.0


def _ignore_reply(_reply: str) -> None:
    """Take no notice of an unanswerable request."""


def _ignore() -> None:
    """Take no notice of the mesh coming and going."""


class Node:
    """One process; its name stays when it is started again, its epoch does not.

    Attributes:
        alive: Started and not crashed.
        attached: Connected to its server, as the server sees it.
        epoch: How often it has been started; what belongs to an older one never arrives.
        on_no_responders: Told the reply subject of a message that nobody listens for.
        on_mesh_lost: Told when the process loses its server.
        on_mesh_back: Told when it has found its server again.
    """

    def __init__(self, world: "World", name: str, *, site: str, clock: ClockForm) -> None:
        self.world = world
        self.name = name
        self.site = site
        self.clock = clock
        self.rng = world.fork(f"node/{name}")
        self.alive = False
        self.attached = False
        self.paused = False
        self.epoch = 0
        self.service_s = 0.0
        self.on_no_responders: Callable[[str], None] = _ignore_reply
        self.on_mesh_lost: Callable[[], None] = _ignore
        self.on_mesh_back: Callable[[], None] = _ignore
        self._interests: list[Interest] = []
        self._backlog: deque[tuple[Callable[..., None], tuple[object, ...]]] = deque()
        self._timers: dict[str, int] = {}
        self._timer_version = 0
        self._busy = False
        self._pauses = 0
        self._started_at = 0.0
        self._monotonic_base = 0.0

    # Clocks ------------------------------------------------------------------

    def now(self) -> float:
        """Return this process' monotonic seconds."""
        return self._monotonic_base + (self.world.now - self._started_at) * (1 + self.clock.drift)

    def wall(self) -> float:
        """Return Unix seconds as this node believes them to be."""
        world = self.world
        return world.epoch + world.now * (1 + self.clock.drift) + self.clock.wall_offset_s

    def jump(self, wall_offset_s: float) -> None:
        """Set the wall clock, as an administrator or NTP does."""
        self.clock = self.clock._replace(wall_offset_s=wall_offset_s)
        self.note("!", f"clock set {wall_offset_s:+.1f} s off")

    def arm(self, key: str, deadline: float | None, call: Callable[[float], None]) -> None:
        """Call *call* with the time at *deadline* on this process' clock; one timer a *key*."""
        if deadline is None:
            self._timers.pop(key, None)
            return
        self._timer_version += 1
        version = self._timers[key] = self._timer_version
        ahead_s = (deadline - self.now()) / (1 + self.clock.drift)
        at = self.world.now + max(0.0, ahead_s)
        self.world.at(at, self._ring, key, version, self.epoch, deadline, call)

    def _ring(
        self, key: str, version: int, epoch: int, deadline: float, call: Callable[[float], None]
    ) -> None:
        if epoch == self.epoch and self._timers.get(key) == version:
            self.handle(self._fire, key, version, deadline, call)

    def _fire(self, key: str, version: int, deadline: float, call: Callable[[float], None]) -> None:
        # While it waited in the backlog of a paused process, it may have been armed anew.
        if self._timers.get(key) == version:
            del self._timers[key]
            # Rounding may ring a hair early; a machine must never see time before its deadline.
            call(max(self.now(), deadline))

    # Mesh --------------------------------------------------------------------

    def publish(self, subject: str, payload: bytes, *, reply: str = "") -> bool:
        """Hand a message to the mesh; return False when there is no server to take it."""
        assert self.alive, f"{self.name} publishes after its end"
        return self.world.network.publish(self, subject, payload, reply)

    def subscribe(self, subject: str, handler: Handler, *, queue: str = "") -> "Interest":
        """Call *handler* with each message that matches *subject*."""
        interest = self.world.network.subscribe(self, subject, handler, queue)
        self._interests.append(interest)
        return interest

    def unsubscribe(self, interest: "Interest") -> None:
        """Withdraw an interest."""
        self._interests.remove(interest)
        self.world.network.withdraw(interest)

    def deliver(self, interest: "Interest", message: Message) -> None:
        """Hand a message that has arrived to the process."""
        self.handle(self._receive, interest, message)

    def _receive(self, interest: "Interest", message: Message) -> None:
        if interest.live:
            self.note("<", message.subject, message.payload)
            interest.handler(message)

    # Life --------------------------------------------------------------------

    def start(self) -> None:
        """Begin a new process under this name."""
        assert not self.alive, self.name
        self.epoch += 1
        self.alive = self.attached = True
        self.paused = self._busy = False
        self._started_at = self.world.now
        # Hosts boot at different times: monotonic clocks of two processes never compare.
        self._monotonic_base = self.rng.uniform(1_000.0, 1_000_000.0)
        self.note("!", "process started")

    def crash(self, how: str = "process killed") -> None:
        """End the process at once; its server notices the closed connection."""
        assert self.alive, self.name
        self.note("!", how)
        self.alive = self.attached = self.paused = self._busy = False
        self.on_no_responders = _ignore_reply
        self.on_mesh_lost = self.on_mesh_back = _ignore
        for interest in self._interests:
            self.world.network.withdraw(interest)
        self._interests.clear()
        self._backlog.clear()
        self._timers.clear()

    def pause(self) -> None:
        """Stop the process as SIGSTOP does."""
        if self.alive and not self.paused:
            self.paused = True
            self._pauses += 1
            self.note("!", "process paused")
            if not self.world.network.is_datagrams:
                self.world.after(STALE_S, self._go_stale, self.epoch, self._pauses)

    def resume(self) -> None:
        """Let a paused process go on with all that has queued up."""
        if self.alive and self.paused:
            self.paused = False
            self.note("!", "process resumed")
            self._work_off()
            self._find_out()

    def _find_out(self) -> None:
        if self.alive and not self.attached:
            self.handle(self.on_mesh_lost)
            self.reattach()

    def detach(self) -> None:
        """Let client and server give each other up."""
        if self.alive and self.attached:
            self.attached = False
            self.note("!", "mesh lost")
            self.handle(self.on_mesh_lost)

    def reattach(self) -> None:
        """Bring a detached client back after a while."""
        if self.alive and not self.attached:
            delay_s = self.rng.uniform(0.0, RECONNECT_MAX_S)
            self.world.after(delay_s, self._reattached, self.epoch)

    def _reattached(self, epoch: int) -> None:
        if epoch == self.epoch and self.alive and not self.attached and not self.paused:
            if not self.world.network.can_attach(self):
                return
            self.attached = True
            self.note("!", "mesh back")
            self.handle(self.on_mesh_back)

    def _go_stale(self, epoch: int, pauses: int) -> None:
        # Of one pause: a process that is stopped again and again answers pings in between.
        is_same = epoch == self.epoch and pauses == self._pauses
        if is_same and self.paused and self.attached:
            self.attached = False
            self.note("!", "mesh dropped the silent client")

    # Work --------------------------------------------------------------------

    def handle(self, call: Callable[..., None], *args: object) -> None:
        """Run *call* in this process: now, when it is free, or when it is resumed."""
        if not self.alive:
            return
        if self.paused or self._busy:
            if len(self._backlog) < BACKLOG_MAX:
                self._backlog.append((call, args))
            return
        self._run(call, args)

    def _run(self, call: Callable[..., None], args: tuple[object, ...]) -> None:
        if self.service_s > 0:
            self._busy = True
            took_s = self.rng.expovariate(1 / self.service_s)
            self.world.after(took_s, self._free, self.epoch)
        call(*args)
        for observer in self.world.observers:
            observer(self)

    def _free(self, epoch: int) -> None:
        if epoch == self.epoch and self._busy:
            self._busy = False
            self._work_off()

    def _work_off(self) -> None:
        while self._backlog and self.alive and not self.paused and not self._busy:
            self._run(*self._backlog.popleft())

    def note(self, mark: str, subject: str, payload: bytes = b"") -> None:
        """Write a line into the trace."""
        self.world.trace.add(self.world.now, self.name, mark, subject, payload)
