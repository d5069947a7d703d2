"""One member of a SWIM group as memberlist has it: a machine like the product's own.

`step(now, event)` takes a packet or `TICK` and returns packets to send and standings that changed.
Left out: joining and leaving, user messages, encryption. All members know each other from the
start.
"""

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from opentela.core.rng import Rng
from opentela.testing.sim.campaign.swim_parts import (
    Awareness,
    Packet,
    Rumour,
    Rumours,
    Standing,
    Suspicion,
    SwimConfig,
)

_NEVER: Final = float("inf")


class Tick(NamedTuple):
    """`next_deadline` is reached."""


TICK: Final = Tick()


class Send(NamedTuple):
    """Send a datagram."""

    to: str
    packet: Packet


class Stream(NamedTuple):
    """Send over a connection that is opened for it."""

    to: str
    packet: Packet


class Believes(NamedTuple):
    """This member now holds another one for so."""

    member: str
    standing: Standing


Event: TypeAlias = Packet | Tick
Action: TypeAlias = Send | Stream | Believes


class _Peer:
    __slots__ = ("changed_at", "incarnation", "standing", "suspicion")

    def __init__(self) -> None:
        self.standing: Standing = "alive"
        self.incarnation = 1
        self.changed_at = 0.0
        self.suspicion: Suspicion | None = None


class _Probe(NamedTuple):
    target: str
    sequence: int
    ends_at: float


class SwimMachine:
    """One member.

    Attributes:
        peers: What it holds of everybody, itself included.
    """

    def __init__(
        self, name: str, members: list[str], config: SwimConfig, rng: Rng, now: float
    ) -> None:
        self._name = name
        self._config = config
        self._rng = rng
        self._count = len(members)
        self.peers = {member: _Peer() for member in members}
        self._ring = list(members)
        self._place = len(members)
        self._rumours = Rumours(config)
        self._awareness = Awareness(config)
        self._sequence = 0
        self._probe: _Probe | None = None
        self._indirect_at = self._gossip_at = _NEVER
        self._nacks = self._helpers = 0
        self._was_reached = False
        self._helping: dict[int, tuple[str, int, float]] = {}
        self._suspected: dict[str, Suspicion] = {}
        self._probe_at = now + rng.random() * config.probe_interval_s
        self._gossip_base = now + (0.0 if config.in_step else rng.random() * config.gossip_s)
        self._push_pull_at = now + rng.random() * config.push_pull_scaled_s(self._count)
        self._actions: list[Action] = []

    def next_deadline(self) -> float:
        """Return when `TICK` is due."""
        deadlines = [self._probe_at, self._indirect_at, self._gossip_at, self._push_pull_at]
        if self._probe is not None:
            deadlines[0] = self._probe.ends_at
        deadlines += [suspicion.ends_at for suspicion in self._suspected.values()]
        deadlines += [ends_at for _, _, ends_at in self._helping.values()]
        return min(deadlines)

    def step(self, now: float, event: Event) -> list[Action]:
        """Take a packet, or that time has passed; return what is to be done."""
        self._actions = []
        if isinstance(event, Packet):
            for rumour in event.rumours:
                self._hear(now, rumour)
            self._HANDLERS[event.kind](self, now, event)
        self._on_time(now)
        if self._rumours and self._gossip_at == _NEVER:
            every_s = self._config.gossip_s
            rounds = max(0, int((now - self._gossip_base) / every_s) + 1)
            self._gossip_at = self._gossip_base + rounds * every_s
        return self._actions

    def tell(self, rumour: Rumour) -> None:
        """Begin to pass a rumour on with the next packets."""
        self._rumours.add(rumour)

    # Packets -----------------------------------------------------------------

    def _on_ping(self, _now: float, packet: Packet) -> None:
        # Over a stream too: its sequence tells the two apart.
        is_stream = packet.target == "stream"
        kind: Callable[[str, Packet], Send | Stream] = Stream if is_stream else Send
        drawn = () if is_stream else self._rumours.draw(self._count)
        answer = Packet("ack", self._name, packet.sequence, packet.target, drawn)
        self._actions.append(kind(packet.sender, answer))

    def _on_ask(self, now: float, packet: Packet) -> None:
        self._sequence += 1
        ends_at = now + self._config.probe_timeout_s
        self._helping[self._sequence] = (packet.sender, packet.sequence, ends_at)
        self._send("ping", packet.target, self._sequence)

    def _on_ack(self, now: float, packet: Packet) -> None:
        helped = self._helping.pop(packet.sequence, None)
        if helped is not None:
            asker, sequence, _ = helped
            self._send("ack", asker, sequence)
            return
        probe = self._probe
        if probe is None or probe.sequence != packet.sequence:
            return
        if packet.target == "stream":
            self._was_reached = True  # looked at when the probe ends
        else:
            self._end_probe(now, -1)

    def _on_nack(self, _now: float, packet: Packet) -> None:
        if self._probe is not None and self._probe.sequence == packet.sequence:
            self._nacks += 1

    def _on_gossip(self, _now: float, _packet: Packet) -> None:
        """Nothing more than its rumours."""

    def _on_sync(self, _now: float, packet: Packet) -> None:
        self._actions.append(Stream(packet.sender, self._everything("synced")))

    _HANDLERS: Final = {
        "ping": _on_ping,
        "ask": _on_ask,
        "ack": _on_ack,
        "nack": _on_nack,
        "gossip": _on_gossip,
        "sync": _on_sync,
        "synced": _on_gossip,
    }

    def _everything(self, kind: str) -> Packet:
        rumours = tuple(
            # Who is dead to the sender is only suspected by whoever hears of it like this.
            Rumour(
                "alive" if peer.standing == "alive" else "suspect",
                member,
                peer.incarnation,
                self._name,
            )
            for member, peer in self.peers.items()
        )
        return Packet("sync" if kind == "sync" else "synced", self._name, rumours=rumours)

    def _send(self, kind: str, to: str, sequence: int, target: str = "") -> None:
        drawn = self._rumours.draw(self._count, used=60)
        packet = Packet(kind, self._name, sequence, target, drawn)  # type: ignore[arg-type]
        self._actions.append(Send(to, packet))

    # Time --------------------------------------------------------------------

    def _on_time(self, now: float) -> None:
        self._give_up_helping(now)
        for member, suspicion in list(self._suspected.items()):
            if now >= suspicion.ends_at:
                incarnation = self.peers[member].incarnation
                self._hear(now, Rumour("dead", member, incarnation, self._name))
        if now >= self._indirect_at:
            self._probe_indirectly()
        if self._probe is not None and now >= self._probe.ends_at:
            self._on_probe_timeout(now)
        if self._probe is None and now >= self._probe_at:
            self._begin_probe(now)
        if now >= self._gossip_at:
            self._gossip_at = _NEVER
            self._gossip(now)
        if now >= self._push_pull_at:
            self._push_pull_at = now + self._config.push_pull_scaled_s(self._count)
            for peer in self._some(1, now, {"alive"}, ()):
                self._actions.append(Stream(peer, self._everything("sync")))

    def _give_up_helping(self, now: float) -> None:
        for sequence, (asker, theirs, ends_at) in list(self._helping.items()):
            if now >= ends_at:
                del self._helping[sequence]
                if self._config.lifeguard:
                    self._send("nack", asker, theirs)

    def _begin_probe(self, now: float) -> None:
        interval_s = self._config.probe_interval_s
        # A ticker holds one tick that could not be taken, and drops the others.
        self._probe_at += interval_s * max(1, int((now - self._probe_at) / interval_s))
        target = self._next_target()
        if target is None:
            return
        self._sequence += 1
        self._probe = _Probe(target, self._sequence, now + self._awareness.scaled(interval_s))
        self._indirect_at = now + self._config.probe_timeout_s
        self._nacks = self._helpers = 0
        self._was_reached = False
        peer = self.peers[target]
        if peer.standing == "alive":
            self._send("ping", target, self._sequence)
            return
        # It is told first of all what it has to refute.
        told = Rumour("suspect", target, peer.incarnation, self._name)
        packet = Packet("ping", self._name, self._sequence, rumours=(told,))
        self._actions.append(Send(target, packet))

    def _next_target(self) -> str | None:
        for _ in range(2 * self._count):
            if self._place >= len(self._ring):
                self._place = 0
                for at in range(len(self._ring) - 1, 0, -1):
                    other = self._rng.randrange(at + 1)
                    self._ring[at], self._ring[other] = self._ring[other], self._ring[at]
            name = self._ring[self._place]
            self._place += 1
            if name != self._name and self.peers[name].standing != "dead":
                return name
        return None

    def _probe_indirectly(self) -> None:
        self._indirect_at = _NEVER
        probe = self._probe
        assert probe is not None
        config = self._config
        helpers = self._some(config.indirect, 0.0, {"alive"}, (probe.target,))
        self._helpers = len(helpers)
        for helper in helpers:
            self._send("ask", helper, probe.sequence, probe.target)
        if config.is_tcp:
            packet = Packet("ping", self._name, probe.sequence, "stream")
            self._actions.append(Stream(probe.target, packet))

    def _on_probe_timeout(self, now: float) -> None:
        probe = self._probe
        assert probe is not None
        if self._was_reached:
            self._end_probe(now, -1)
            return
        missing = self._helpers - self._nacks if self._helpers else 1
        self._end_probe(now, max(0, missing))
        incarnation = self.peers[probe.target].incarnation
        self._hear(now, Rumour("suspect", probe.target, incarnation, self._name))

    def _end_probe(self, _now: float, health: int) -> None:
        self._probe = None
        self._indirect_at = _NEVER
        self._awareness.change(health)

    def _gossip(self, now: float) -> None:
        for peer in self._some(self._config.gossip_nodes, now, {"alive", "suspect", "dead"}, ()):
            drawn = self._rumours.draw(self._count)
            if not drawn:
                return
            self._actions.append(Send(peer, Packet("gossip", self._name, rumours=drawn)))

    def _some(
        self, count: int, now: float, standings: set[Standing], but: tuple[str, ...]
    ) -> list[str]:
        """Return up to *count* random others; of the dead only those who died lately."""
        chosen: list[str] = []
        for _ in range(3 * self._count):
            if len(chosen) == count:
                break
            name = self._ring[self._rng.randrange(len(self._ring))]
            peer = self.peers[name]
            is_long_dead = (
                peer.standing == "dead" and now > peer.changed_at + self._config.gossip_to_dead_s
            )
            if name == self._name or name in but or name in chosen or is_long_dead:
                continue
            if peer.standing in standings:
                chosen.append(name)
        return chosen

    # Rumours -----------------------------------------------------------------

    def _hear(self, now: float, rumour: Rumour) -> None:
        peer = self.peers[rumour.member]
        match rumour.standing:
            case "alive":
                if rumour.incarnation > peer.incarnation and rumour.member != self._name:
                    self._set(now, peer, rumour)
            case "suspect":
                self._on_suspect(now, peer, rumour)
            case "dead":
                if rumour.incarnation < peer.incarnation or peer.standing == "dead":
                    return
                if rumour.member == self._name:
                    self._refute(peer, rumour.incarnation)
                else:
                    self._set(now, peer, rumour)

    def _on_suspect(self, now: float, peer: _Peer, rumour: Rumour) -> None:
        if rumour.incarnation < peer.incarnation:
            return
        if peer.suspicion is not None:
            if peer.suspicion.confirm(rumour.source):
                self._rumours.add(rumour)
        elif peer.standing == "alive":
            if rumour.member == self._name:
                self._refute(peer, rumour.incarnation)
            else:
                self._set(now, peer, rumour)

    def _refute(self, peer: _Peer, accused: int) -> None:
        peer.incarnation = max(peer.incarnation, accused) + 1
        self._awareness.change(1)
        self._rumours.add(Rumour("alive", self._name, peer.incarnation, self._name))

    def _set(self, now: float, peer: _Peer, rumour: Rumour) -> None:
        """Believe a rumour, pass it on, and tell if that changes anything."""
        self._rumours.add(rumour)
        peer.incarnation = rumour.incarnation
        if peer.standing == rumour.standing:
            return
        peer.standing, peer.changed_at = rumour.standing, now
        self._suspected.pop(rumour.member, None)
        peer.suspicion = None
        if rumour.standing == "suspect":
            peer.suspicion = Suspicion(self._config, now, self._count, rumour.source)
            self._suspected[rumour.member] = peer.suspicion
        self._actions.append(Believes(rumour.member, rumour.standing))
