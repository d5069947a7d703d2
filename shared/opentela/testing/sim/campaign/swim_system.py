"""A SWIM group as a system of a trial: each member is watched by all others; no registries."""

from collections.abc import Mapping
from typing import Final

from opentela.mesh.bus import Message
from opentela.testing.sim.campaign.ground import Ground, members
from opentela.testing.sim.campaign.sightings import Tell
from opentela.testing.sim.campaign.swim import (
    TICK,
    Action,
    Believes,
    Event,
    Send,
    Stream,
    SwimMachine,
)
from opentela.testing.sim.campaign.swim_parts import (
    DECODER,
    ENCODER,
    Packet,
    Rumour,
    SwimConfig,
)
from opentela.testing.sim.campaign.trial import Setting
from opentela.testing.sim.driver import Driver
from opentela.testing.world import World
from opentela.testing.world_node import ClockForm, Node

_SYN_AGAIN_S: Final = 1.0
"""TCP's first retransmission of what opens a connection (RFC 6298)."""
_DATA_AGAIN_S: Final = 0.2
"""... and of data, on Linux, over a link this short."""
_STREAM_MAX_S: Final = 10.0
"""Beyond it a connection is given up: memberlist's `TCPTimeout`."""
_TAIL_ROUNDS: Final = 10
"""Probe rounds from the longest wait for a suspicion until a death is known everywhere."""


class SwimShell:
    """One life of one member."""

    def __init__(
        self, node: Node, machine: SwimMachine, tell: Tell, shells: Mapping[str, "SwimShell"]
    ) -> None:
        self._shells = shells
        self.node = node
        self.machine = machine
        self._tell = tell
        self._driver = Driver[Event, Action](
            node,
            "swim",
            step=machine.step,
            perform=self._perform,
            next_deadline=machine.next_deadline,
            tick=TICK,
        )
        node.subscribe(_subject(node.name), self._on_message)

    def begin(self) -> None:
        """Start its clocks."""
        self._driver.feed(TICK)

    def say(self, rumour: Rumour) -> None:
        """Spread a rumour of its own."""
        self.machine.tell(rumour)
        self._driver.feed(TICK)

    def take(self, packet: Packet) -> None:
        """Take what came over a stream."""
        self._driver.feed(packet)

    def _on_message(self, message: Message) -> None:
        self._driver.feed(DECODER.decode(message.payload))

    def _perform(self, action: Action) -> None:
        match action:
            case Send(to=to, packet=packet):
                self.node.publish(_subject(to), ENCODER.encode(packet))
            case Stream(to=to, packet=packet):
                self._stream(to, packet)
            case Believes(member=member, standing=standing):
                if standing == "dead":
                    self._tell(self.node.name, member, "out")
                elif standing == "alive":
                    self._tell(self.node.name, member, "back")

    def _stream(self, to: str, packet: Packet) -> None:
        """Open a connection and send; what is lost is sent again, as by TCP, and comes late."""
        node, network = self.node, self.node.world.network
        target = node.world.nodes[to]
        if not (network.passes(node, target) and network.passes(target, node)):
            return
        loss = max(network.loss(node, target), network.loss(target, node))
        delay_s = sum(network.trip_s(node, target) for _ in range(3))
        for again_s in (_SYN_AGAIN_S, _SYN_AGAIN_S, _DATA_AGAIN_S):
            while loss and node.rng.random() < loss:
                delay_s += again_s
                again_s *= 2  # noqa: PLW2901 (the back-off of this segment)
        if delay_s < _STREAM_MAX_S:
            node.world.after(delay_s, self._arrive, target, packet)

    def _arrive(self, target: Node, packet: Packet) -> None:
        network = self.node.world.network
        is_open = network.passes(self.node, target) and network.passes(target, self.node)
        if is_open and target.name in self._shells:
            target.handle(self._shells[target.name].take, packet)


class Swim:
    """Members that watch each other; `out` is whom memberlist calls dead."""

    def __init__(self, world: World, tell: Tell, config: SwimConfig) -> None:
        self._tell = tell
        self._config = config
        self.shells: dict[str, SwimShell] = {}
        self.ground = Ground(world=world, members=members())
        self.viewers = tuple(self.ground.members)
        shortest_s, _ = config.suspicion_s(len(self.viewers))
        self.tail_s = 2 * shortest_s + _TAIL_ROUNDS * config.probe_interval_s
        self.grace_s = 0.0
        world.network.is_datagrams = True
        for name, site in self.ground.members.items():
            world.add_node(name, site=site, clock=ClockForm())

    def begin(self) -> None:
        """Start everybody at once; all know each other."""
        names = list(self.ground.members)
        for name in names:
            node = self.ground.node(name)
            node.start()
            machine = SwimMachine(name, names, self._config, node.rng, node.now())
            shell = self.shells[name] = SwimShell(node, machine, self._tell, self.shells)
            node.handle(shell.begin)

    def is_ready(self) -> bool:
        """Return whether some rounds have gone by, so that members are out of step."""
        return self.ground.world.now >= 3 * self._config.probe_interval_s

    def crash(self, name: str) -> None:
        """Kill a process."""
        self.ground.node(name).crash()
        del self.shells[name]

    def knows(self, viewer: str, member: str) -> bool:
        """Return whether a member holds another one for alive."""
        shell = self.shells.get(viewer)
        return shell is None or shell.machine.peers[member].standing != "dead"

    def called(self, member: str) -> str:
        """Return the member's own name."""
        return member


def swim(config: SwimConfig) -> Setting:
    """Return a setting of SWIM."""
    return lambda world, tell: Swim(world, tell, config)


def _subject(name: str) -> str:
    return f"swim.{name}"
