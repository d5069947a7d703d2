"""A router without a mesh: real sockets before it, scripted sessions behind it."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest
import uvloop
from tests.integration.router.raw import Raw
from tests.unit.router.parts import record

from opentela.router.config import (
    AttemptConfig,
    EjectionConfig,
    ListenConfig,
    RouterConfig,
    WaitConfig,
)
from opentela.router.front import Front
from opentela.service import SystemClock
from opentela.testing.fake_link import FakeLink, FakeStream
from opentela.testing.waiting import until


@pytest.hookimpl(optionalhook=True)
def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Both loops: the product runs on the first, and transports differ between them."""
    return {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}


class Bench:
    """A front, its link, and clients for it."""

    def __init__(self, front: Front, link: FakeLink, stack: AsyncExitStack) -> None:
        self.front = front
        self.link = link
        self._stack = stack

    async def client(self) -> Raw:
        """Return a new connection."""
        host, port = self.front.url.removeprefix("http://").rsplit(":", 1)
        reader, writer = await asyncio.open_connection(host, int(port))
        raw = Raw(reader, writer)
        self._stack.push_async_callback(raw.close)
        return raw

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return once *condition* holds."""
        await until(condition, "what the test waits for")

    async def opened(self, count: int = 1) -> FakeStream:
        """Return the last stream, once *count* of them were opened."""
        await self.until(lambda: len(self.link.streams) == count)
        return self.link.streams[-1]


MakeBench = Callable[..., Awaitable[Bench]]


@pytest.fixture
async def make_bench() -> AsyncIterator[MakeBench]:
    """Make routers with *sessions* sessions of the model `m`; all are stopped afterwards."""
    async with AsyncExitStack() as stack:

        async def make(
            *,
            sessions: int = 3,
            policy: str = "round_robin",
            listen: ListenConfig | None = None,
            attempts: AttemptConfig | None = None,
            ejection: EjectionConfig | None = None,
            wait: WaitConfig | None = None,
            drain_s: float = 5.0,
            drain_idle_s: float = 0.05,
            drain_notice_s: float = 0.0,
            server_timing: bool = False,
            metrics_token: bytes | None = None,
        ) -> Bench:
            listen = listen or ListenConfig(address="127.0.0.1:0")
            config = RouterConfig(
                access="",
                policy=policy,
                listen=listen,
                attempts=attempts or AttemptConfig(backoff_s=0.001),
                ejection=ejection or EjectionConfig(),
                wait=wait or WaitConfig(),
                drain_s=drain_s,
                drain_idle_s=drain_idle_s,
                drain_notice_s=drain_notice_s,
                server_timing=server_timing,
            )
            link = FakeLink()
            front = Front(
                config,
                name="r1",
                link=link,
                clock=SystemClock(),
                rng=random.Random(1),
                metrics_token=metrics_token,
            )
            front.directory.apply(record(number) for number in range(sessions))
            front.directory.is_complete = True
            await front.start()
            stack.push_async_callback(front.stop)
            bench = Bench(front, link, stack)
            stack.callback(check_balance, bench)
            return bench

        yield make


def check_balance(bench: Bench) -> None:
    """Assert that whatever was counted in was counted out."""
    for stream in bench.link.streams:
        assert stream.ended, f"a stream of {stream.path_and_query} was left behind"
    assert bench.front.desk.in_flight == 0
    assert bench.front.gate.held_bytes == 0


@pytest.fixture
async def bench(make_bench: MakeBench) -> Bench:
    """A router with three sessions."""
    return await make_bench()
