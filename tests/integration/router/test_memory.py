"""Nothing of a request outlives it, on the whole path: router, mesh, gateway, engine client."""

import asyncio
import contextlib
import gc
from collections import Counter
from collections.abc import AsyncIterator

import pytest
from tests.integration.data.raw_engine import RawRequest
from tests.integration.router.raw import post
from tests.integration.router.test_forwarding import ANSWER, DELTA, DONE, STOP
from tests.integration.router.test_whole_path import STREAM, Desk

from opentela.testing.waiting import until

pytestmark = pytest.mark.nats

REQUESTS = 2000
CLIENTS = 8
SPARE = 24
"""Objects of one kind that may be more: of connections that stay, timers, caches."""
UNARY = post(b'{"model":"m"}')
LEFT = post(b'{"model":"m","stream":true,"leave":true}')
WHOLE = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"


async def engine(request: RawRequest) -> None:
    """Answer whole or in a stream, as asked."""
    if b'"stream":true' not in request.body:
        request.send(WHOLE % (len(ANSWER), ANSWER))
        return
    request.stream()
    if b'"leave":true' in request.body:
        request.chunk(DELTA)
        await request.gone()
        return
    for event in (DELTA, STOP, DONE):
        request.chunk(event)
    request.chunk(b"")


def ours() -> Counter[str]:
    """Return how many objects of each of our types live, those in cycles not among them."""
    gc.collect()
    return Counter(
        type(one).__qualname__
        for one in gc.get_objects()
        if str(type(one).__module__).startswith("opentela.")
    )


async def ask(desk: Desk, count: int) -> None:
    """Ask so often from several clients, half of it for streams; each tenth client leaves early."""

    async def client(share: int) -> None:
        staying = await desk.client()
        for number in range(share):
            if number % 10 == 9:
                leaving = await desk.client()
                await leaving.send(LEFT).head()
                await leaving.chunk()
                await leaving.close()
                continue
            await staying.ask(STREAM if number % 2 else UNARY)
        await staying.close()

    async with asyncio.TaskGroup() as group:
        for _ in range(CLIENTS):
            group.create_task(client(count // CLIENTS))


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    """A mesh, a registry, a router, and its books."""
    async with Desk.open() as desk:
        assert isinstance(desk, Desk)
        await desk.start()
        yield desk


@pytest.mark.slow
async def test_no_object_of_a_request_survives_it(desk: Desk) -> None:
    """After thousands there are as many objects as after a few."""
    (session,) = await desk.serve(engine)
    await ask(desk, 200)
    await until(lambda: not session.gateway.in_flight, "the gateway is idle")
    desk.records.clear()
    before = ours()
    await ask(desk, REQUESTS)
    await until(lambda: not session.gateway.in_flight, "the gateway is idle")

    def more() -> dict[str, int]:
        desk.records.clear()  # which are still coming
        return {name: n - before[name] for name, n in ours().items() if n - before[name] > SPARE}

    with contextlib.suppress(AssertionError):
        await until(lambda: not more(), "nothing is left")
    assert more() == {}
