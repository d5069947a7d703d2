"""A control: the bare round trip through the same hub and leaf, without router and supervisor.

What this costs, no product on these servers can save; it tells the machine from the product.
`python -m tests.bench.bare ACCESS` answers, in a process of its own, whatever is sent to it.
"""

import asyncio
import sys
import time
from collections import deque
from pathlib import Path
from typing import Final

import uvloop
from tests.bench.load import RESPONSE_WITHIN_S, Sample

from opentela.core.ids import ProviderId, SessionId, SiteId
from opentela.mesh import access as accesses
from opentela.mesh import data_client
from opentela.mesh.data_client import DataClient
from opentela.mesh.nats_wire import Message
from opentela.wire import subjects
from opentela.wire.subjects import SessionPath

NAME: Final = "bare"
PAYLOAD: Final = b"x" * 400
_SESSION: Final = SessionId("0" * 26)


def session(provider: str, site: str) -> SessionPath:
    """Return the session that never was; the answering process listens in its place."""
    return SessionPath(ProviderId(provider), SiteId(site), _SESSION)


class BareRoundTrip:
    """One message there and one back, as a target among others.

    Attributes:
        samples: What was measured.
    """

    def __init__(self, client: DataClient, path: SessionPath) -> None:
        self.name = NAME
        self.samples: list[Sample] = []
        self._client = client
        self._subject = subjects.data(path)
        self._reply = subjects.reply(NAME, path.provider, NAME, "0" * 16)
        self._answered: deque[asyncio.Future[float]] = deque()

    @classmethod
    async def open(cls, client: DataClient, path: SessionPath) -> "BareRoundTrip":
        """Return the control once answers can arrive."""
        made = cls(client, path)
        client.subscribe(subjects.replies(NAME, NAME), made._on_answer)
        await client.round_trip()
        return made

    async def once(self) -> Sample:
        """Go there and back."""
        answered: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._answered.append(answered)  # answers keep the order of what was asked
        sent_at = time.perf_counter()
        self._client.publish(self._subject, PAYLOAD, self._reply)
        async with asyncio.timeout(RESPONSE_WITHIN_S):
            done_at = await answered
        return Sample(sent_at, done_at, done_at, 0)

    async def measure(self) -> None:
        """Go there and back, and keep the time."""
        self.samples.append(await self.once())

    def _on_answer(self, _message: Message) -> None:
        answered = self._answered.popleft()
        if not answered.done():
            answered.set_result(time.perf_counter())


async def answer(access: Path) -> None:
    """Answer until the process ends."""
    admitted = accesses.read(access)
    path = session(admitted.provider, admitted.site)
    async with await data_client.connect(admitted, name=NAME) as client:

        def echo(message: Message) -> None:
            client.publish(subjects.answer(message.reply, path), message.payload)

        client.subscribe(subjects.data(path), echo)
        await client.round_trip()
        sys.stdout.write("answering\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(answer(Path(sys.argv[1])))
