"""What processes say and hear, in bytes by kind: NATS' own lines, and what TCP and IP add."""

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from opentela.mesh.bus import Message
from opentela.testing.world_network import Interest
from opentela.testing.world_node import Node

PING_S: Final = 2.0
"""Client and server each ping the other so often, and answer."""
_PING_BYTES: Final = 12
"""PING and PONG, six bytes each."""
SEGMENT_BYTES: Final = 66
"""Ethernet, IPv4 and TCP with timestamps, once a segment. Each message counts as one of its own and
as one acknowledgement: an upper bound, true of whoever says little."""


class Flow(NamedTuple):
    """Bytes and messages of one kind, at one process or at several."""

    messages: float
    nats_bytes: float

    @property
    def wire_bytes(self) -> float:
        """What that is on the wire at most."""
        return self.nats_bytes + self.messages * 2 * SEGMENT_BYTES


class Traffic:
    """Counts what goes over each process' connection to its server, in both directions."""

    def __init__(self) -> None:
        self._messages: Counter[tuple[str, str]] = Counter()
        self._bytes: Counter[tuple[str, str]] = Counter()

    def __call__(self, source: Node, receivers: Sequence[Interest], message: Message) -> None:
        """Count one message at its sender and at each receiver."""
        kind = message.subject.split(".", 3)[2]
        line = len(message.subject) + len(message.payload) + len(str(len(message.payload)))
        if message.reply:
            line += len(message.reply) + 1
        self._count(source.name, kind, line + len("PUB  \r\n\r\n"))
        for interest in receivers:
            self._count(interest.node.name, kind, line + len("MSG  1 \r\n\r\n"))

    def _count(self, name: str, kind: str, size: int) -> None:
        self._messages[name, kind] += 1
        self._bytes[name, kind] += size

    def clear(self) -> None:
        """Begin anew."""
        self._messages.clear()
        self._bytes.clear()

    def rates(self, names: Sequence[str], seconds: float) -> dict[str, Flow]:
        """Return by kind what each of *names* has said and heard a second, in the mean."""
        kinds = sorted({kind for _, kind in self._messages})
        share = 1 / (seconds * len(names))
        rates = {
            kind: Flow(
                sum(self._messages[name, kind] for name in names) * share,
                sum(self._bytes[name, kind] for name in names) * share,
            )
            for kind in kinds
        }
        # Two exchanges every so often, one begun by either end.
        rates["ping"] = Flow(4 / PING_S / 2, 2 * _PING_BYTES / PING_S)
        return {kind: flow for kind, flow in rates.items() if flow.messages}
