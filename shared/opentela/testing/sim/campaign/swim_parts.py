"""Parts of SWIM as memberlist has it: knobs, packets, rumours under way, suspicion, local health.

Das, Gupta, Motivala: "SWIM" (DSN 2002); Dadgar, Phillips, Currey: "Lifeguard" (DSN-W 2018);
names and defaults are those of memberlist's `DefaultLANConfig`, which Serf uses.
"""

import math
from typing import Final, Literal

import msgspec


class SwimConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Knobs; the defaults are memberlist's for a LAN.

    Attributes:
        lifeguard: Suspicion that shortens with confirmations, local health and negative
            acknowledgements; without it a suspicion lasts its minimum.
        is_tcp: A probe that failed over datagrams is also tried over a stream.
        in_step: All members gossip at the same instants, as epidemic models have it; real ones
            started at different times.
    """

    probe_interval_s: float = 1.0
    probe_timeout_s: float = 0.5
    indirect: int = 3
    suspicion_mult: float = 4.0
    suspicion_max_mult: float = 6.0
    gossip_s: float = 0.2
    gossip_nodes: int = 3
    gossip_to_dead_s: float = 30.0
    retransmit_mult: int = 4
    awareness_max: int = 8
    push_pull_s: float = 30.0
    packet_bytes: int = 1400
    lifeguard: bool = True
    is_tcp: bool = True
    in_step: bool = False

    def suspicion_s(self, members: int) -> tuple[float, float]:
        """Return the shortest and the longest suspicion among so many members."""
        scale = max(1.0, math.log10(max(1, members)))
        shortest = self.suspicion_mult * scale * self.probe_interval_s
        return shortest, shortest * (self.suspicion_max_mult if self.lifeguard else 1.0)

    def retransmits(self, members: int) -> int:
        """Return how often each member passes a rumour on."""
        return self.retransmit_mult * math.ceil(math.log10(members + 1))

    def push_pull_scaled_s(self, members: int) -> float:
        """Return the seconds between two exchanges of everything; beyond 32 members more."""
        if members <= 32:  # noqa: PLR2004 (memberlist's threshold)
            return self.push_pull_s
        return self.push_pull_s * (math.ceil(math.log2(members) - 5) + 1)


Standing = Literal["alive", "suspect", "dead"]


class Rumour(msgspec.Struct, frozen=True, array_like=True):
    """What is said of a member, and who says so."""

    standing: Standing
    member: str
    incarnation: int
    source: str


class Packet(msgspec.Struct, frozen=True, array_like=True):
    """One datagram, or one message of a stream.

    Attributes:
        kind: `sync` and `synced` carry everything that the sender knows.
        target: Of an `ask`: whom to ping in the sender's stead.
    """

    kind: Literal["ping", "ack", "nack", "ask", "gossip", "sync", "synced"]
    sender: str
    sequence: int = 0
    target: str = ""
    rumours: tuple[Rumour, ...] = ()


ENCODER: Final = msgspec.msgpack.Encoder()
DECODER: Final = msgspec.msgpack.Decoder(Packet)
_RUMOUR_BYTES: Final[dict[Standing, int]] = {"alive": 70, "suspect": 50, "dead": 50}
"""In memberlist's own encoding, with the header of a compound."""


class Rumours:
    """Rumours to pass on, the least told first; a newer one about a member ends the older."""

    def __init__(self, config: SwimConfig) -> None:
        self._config = config
        self._told: dict[str, list[int]] = {}
        self._rumours: dict[str, Rumour] = {}
        self._number = 0

    def __bool__(self) -> bool:
        return bool(self._rumours)

    def add(self, rumour: Rumour) -> None:
        """Begin to tell *rumour*."""
        self._number += 1
        self._rumours[rumour.member] = rumour
        self._told[rumour.member] = [0, -self._number]

    def draw(self, members: int, *, used: int = 0) -> tuple[Rumour, ...]:
        """Return what goes into one packet, and count it as told once more."""
        if not self._rumours:
            return ()
        room = self._config.packet_bytes - used
        limit = self._config.retransmits(members)
        chosen: list[Rumour] = []
        for member in sorted(self._told, key=self._told.__getitem__):
            rumour = self._rumours[member]
            room -= _RUMOUR_BYTES[rumour.standing]
            if room < 0:
                break
            chosen.append(rumour)
            self._told[member][0] += 1
            if self._told[member][0] >= limit:
                del self._told[member], self._rumours[member]
        return tuple(chosen)


class Suspicion:
    """How long one member is suspected before it is declared dead.

    Attributes:
        ends_at: When it is, unless it refutes; sooner with each member that confirms.
    """

    def __init__(self, config: SwimConfig, now: float, members: int, source: str) -> None:
        self._shortest_s, self._longest_s = config.suspicion_s(members)
        self._wanted = max(0, int(config.suspicion_mult) - 2)
        if members - 2 < self._wanted:
            self._wanted = 0
        self._sources = [source]
        self._began_at = now
        self.ends_at = now + (self._longest_s if self._wanted else self._shortest_s)

    def confirm(self, source: str) -> bool:
        """Take one more who suspects; return whether that was news."""
        confirmed = len(self._sources) - 1
        if confirmed >= self._wanted or source in self._sources:
            return False
        self._sources.append(source)
        share = math.log(confirmed + 2) / math.log(self._wanted + 1)
        length_s = self._longest_s - share * (self._longest_s - self._shortest_s)
        self.ends_at = self._began_at + max(self._shortest_s, length_s)
        return True


class Awareness:
    """How unwell this member believes itself to be: Lifeguard's local health multiplier."""

    def __init__(self, config: SwimConfig) -> None:
        self._worst = config.awareness_max - 1 if config.lifeguard else 0
        self._score = 0

    def change(self, by: int) -> None:
        """Take good (negative) or bad signs."""
        self._score = min(max(0, self._score + by), self._worst)

    def scaled(self, seconds: float) -> float:
        """Return how long to wait instead."""
        return seconds * (self._score + 1)
