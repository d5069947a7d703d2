"""Several processes under one name: each gets what it asked for, whoever else is called so."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from urllib.parse import urlsplit

import pytest
from tests.integration.data.raw_engine import RawRequest
from tests.integration.router.raw import WAIT_S, Raw, post
from tests.integration.router.test_forwarding import DONE, STOP
from tests.integration.router.test_whole_path import Desk

from opentela.mesh.access import Access
from opentela.router.config import DirectConfig, HomeConfig, ListenConfig, RouterConfig
from opentela.router.shell import RouterShell
from opentela.service import Lifecycle as Process
from opentela.testing.waiting import until

pytestmark = pytest.mark.nats

EVENT = b'data: {"choices":[{"index":0,"delta":{"content":"%b"},"finish_reason":null}]}\n\n'
MARK = re.compile(rb'"mark":"(\w+)"')


class Engine:
    """Streams back the mark of each request, and ends a stream when it is told to."""

    def __init__(self) -> None:
        self.may_end: dict[bytes, asyncio.Event] = {}

    async def answer(self, request: RawRequest) -> None:
        """Answer one request."""
        found = MARK.search(request.body)
        assert found is not None
        mark = found[1]
        request.stream()
        request.chunk(EVENT % mark)
        async with asyncio.timeout(WAIT_S):
            await self.may_end.setdefault(mark, asyncio.Event()).wait()
        for event in (EVENT % mark, STOP, DONE, b""):
            request.chunk(event)

    def end(self, mark: bytes) -> None:
        """Let the stream of this mark end."""
        self.may_end.setdefault(mark, asyncio.Event()).set()


async def open_router(
    desk: Desk, access: Access, home: str, stack: AsyncExitStack | None = None
) -> RouterShell:
    """Start one more process of a router, which knows one session; it ends with *stack*."""
    config = RouterConfig(
        access="",
        listen=ListenConfig(address="127.0.0.1:0"),
        home=HomeConfig(address=home),
        direct=DirectConfig(same_host=False),
    )
    opened = RouterShell.open(Process("router"), config, access)
    router = await (stack or desk.stack).enter_async_context(opened)
    await until(lambda: router.status()["models"] == {"m": 1}, "a session to route to")
    return router


async def ask(desk: Desk, router: RouterShell, mark: str) -> Raw:
    """Ask for a stream; return the client once it has begun."""
    where = urlsplit(router.url)
    raw = Raw(*await asyncio.open_connection(where.hostname, where.port))
    desk.stack.push_async_callback(raw.close)
    raw.send(post(b'{"model":"m","stream":true,"mark":"%b"}' % mark.encode()))
    status, headers = await raw.head()
    assert (status, headers["x-otela-attempts"]) == (200, "1")
    assert await raw.chunk() == EVENT % mark.encode()
    return raw


async def rest(client: Raw) -> bytes:
    """Return what still comes of a stream."""
    parts = []
    while part := await client.chunk():
        parts.append(part)
    return b"".join(parts)


def whole(mark: bytes) -> bytes:
    """Return how a stream of this mark ends."""
    return EVENT % mark + STOP + DONE


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    """A mesh, a registry, a router, and its books."""
    async with Desk.open() as desk:
        assert isinstance(desk, Desk)
        await desk.start()
        yield desk


@pytest.mark.parametrize("home", ["", "127.0.0.1:0"])
async def test_answers_go_to_the_process_that_asked(desk: Desk, home: str) -> None:
    """Also to one that was there before another started under its name, and will be gone first."""
    engine = Engine()
    await desk.serve(engine.answer)
    access = desk.field.mesh.access(role="router", name="router2")
    old = await open_router(desk, access, home)
    clients = {"old1": await ask(desk, old, "old1"), "old2": await ask(desk, old, "old2")}
    new = await open_router(desk, access, home)
    for mark in ("new1", "new2"):
        clients[mark] = await ask(desk, new, mark)
    clients["old3"] = await ask(desk, old, "old3")
    for mark in ("old2", "new2", "old3", "old1", "new1"):
        engine.end(mark.encode())
        assert await rest(clients[mark]) == whole(mark.encode())
    await until(lambda: len(desk.records) == len(clients), "a record of each")
    assert {one.router for one in desk.records} == {"router2"}
    assert {one.outcome for one in desk.records} == {"ok"}
    assert len({one.id for one in desk.records}) == len({one.request for one in desk.records}) == 5


async def test_who_ends_takes_only_its_own_streams_along(desk: Desk) -> None:
    """Those of another process of its name go on, and each request is booked by who had it."""
    engine = Engine()
    (session,) = await desk.serve(engine.answer)
    access = desk.field.mesh.access(role="router", name="router2")
    stays = await open_router(desk, access, "")
    staying = await ask(desk, stays, "staying")
    async with AsyncExitStack() as stack:
        ends = await open_router(desk, access, "", stack)
        leaving = await ask(desk, ends, "leaving")
        assert session.gateway.in_flight == 2
    with pytest.raises(ConnectionResetError):
        await leaving.ended()
    await until(lambda: session.gateway.in_flight == 1, "the end of what nobody waits for")
    again = await ask(desk, stays, "again")
    for mark, client in (("again", again), ("staying", staying)):
        engine.end(mark.encode())
        assert await rest(client) == whole(mark.encode())
    await until(lambda: len(desk.records) >= 2, "a record of each that was finished")
    assert len({one.id for one in desk.records}) == len(desk.records)
    assert [one.outcome for one in desk.records].count("ok") == 2
    engine.end(b"leaving")
