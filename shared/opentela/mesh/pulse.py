"""Heartbeats that take the pings of both connections along."""

from opentela.mesh.data_client import DataClient
from opentela.mesh.nats_bus import NatsBus


class Pulse:
    """Publishes small regular messages, by the data connection when that idles and is due a ping.

    A process must ask for signs of life on both of its connections. A message that leaves in one
    piece with the question costs neither a packet nor an acknowledgement of its own. What is said
    over the data connection is said for the control connection, too: it goes there only while the
    latter answers, so that registries miss the beats of whoever they can no longer reach.
    """

    def __init__(self, bus: NatsBus, data: DataClient) -> None:
        self._bus = bus
        self._data = data

    async def publish(self, subject: str, payload: bytes) -> None:
        """Hand a message to the mesh; it is dropped and counted while nobody takes it.

        Raises:
            MeshUnavailableError: The bus is closed.
            WireError: The payload is larger than the mesh carries.
        """
        if not (self._bus.is_answering and self._data.carry(subject, payload)):
            await self._bus.publish(subject, payload)
