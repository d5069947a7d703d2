"""What the fake link promises is what the real one does: the same tests run on both."""

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
from tests.integration.data.fabric import PATH, Fabric, Recorder
from tests.integration.data.raw_engine import RawEngine, RawRequest

from opentela.core.ids import SessionId
from opentela.router.ports import Link, Stream
from opentela.testing.fake_link import JSON, FakeLink, FakeStream
from opentela.testing.mesh import TestMesh, until
from opentela.wire.frames import WINDOW_BYTES, FailKind
from opentela.wire.subjects import SessionPath

NOBODY = SessionPath(PATH.provider, PATH.site, SessionId("nobody"))
BIG = random.Random(1).randbytes(1 << 20)


class World(ABC):
    """A link, and a session whose engine does what the path of a request says.

    `/echo` answers with the body; `/big` with a mebibyte; `/half` breaks after half an answer;
    `/silent` never answers.
    """

    link: Link

    @abstractmethod
    def is_stopped(self) -> bool:
        """Whether the engine has been told to stop what it was asked last."""

    def ask(self, path_and_query: str, body: bytes = b"{}", **given: object) -> Recorder:
        """Send a request; what comes back is taken at once, unless `is_slow`."""
        sink = Recorder(is_slow=bool(given.get("is_slow")))
        path = NOBODY if given.get("nobody") else PATH
        stream: Stream = self.link.open(
            path,
            method="POST",
            path_and_query=path_and_query,
            headers=(("x-a", "1"), ("content-type", "text/plain")),
            body=body,
            deadline_s=30.0,
            trace="",
            sink=sink,
        )
        assert sink.told == [], "the link told something before it returned"
        sink.stream = stream  # type: ignore[assignment]
        return sink


class FakeWorld(World):
    """The fake link, with a script for an engine."""

    def __init__(self) -> None:
        self.fake = FakeLink(self._script)
        self.link = self.fake

    def is_stopped(self) -> bool:
        """Whether the last stream was cancelled."""
        return self.fake.streams[-1].cancelled is not None

    def _script(self, stream: FakeStream) -> None:
        if stream.path == NOBODY:
            stream.fail(FailKind.NO_RESPONDERS, begun=False)
        elif stream.path_and_query == "/echo?q=1":
            stream.answer(stream.body, headers=(*JSON, ("x-seen", dict(stream.headers)["x-a"])))
        elif stream.path_and_query == "/big":
            stream.answer(BIG)
        elif stream.path_and_query == "/half":
            stream.head().data(b"half").fail(FailKind.ENGINE_LOST)
        else:
            stream.ack()


class MeshWorld(World):
    """The real link over a hub and a leaf, with an engine made of bytes."""

    def __init__(self, engine: RawEngine) -> None:
        self.engine = engine

    def is_stopped(self) -> bool:
        """Whether the engine's last connection was closed."""
        return bool(self.engine.connections) and self.engine.connections[-1].closed.is_set()

    @staticmethod
    async def script(request: RawRequest) -> None:
        """Be the engine."""
        if request.path == "/echo?q=1":
            seen = request.headers["x-a"]
            request.answer(
                request.body, fields=f"content-type: application/json\r\nx-seen: {seen}\r\n"
            )
        elif request.path == "/big":
            request.answer(BIG)
        elif request.path == "/half":
            request.send(b"HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\nhalf")
            await request.drain()
            request.reset()


@pytest.fixture(params=["fake", pytest.param("mesh", marks=pytest.mark.nats)])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """Both."""
    if request.param == "fake":
        yield FakeWorld()
        return
    async with AsyncExitStack() as stack:
        mesh = await stack.enter_async_context(TestMesh(leaves=("a",)))
        engine = await stack.enter_async_context(RawEngine(MeshWorld.script))
        fabric = await Fabric.open(mesh, engine.address, stack)
        real = MeshWorld(engine)
        real.link = fabric.link
        yield real


async def test_a_short_answer_is_told_at_once(world: World) -> None:
    """Which acknowledges it."""
    answer = await world.ask("/echo?q=1", b"body").wait()
    assert answer.told[-1:] == ["answer"]
    assert answer.told[:-1] in ([], ["ack"])  # the answer is one, unless it took its time
    assert (answer.status, answer.body) == (200, b"body")
    assert ("x-seen", "1") in answer.headers


async def test_a_large_body_arrives_whole(world: World) -> None:
    """In parts that nobody sees."""
    answer = await world.ask("/echo?q=1", BIG).wait()
    assert answer.body == BIG
    assert answer.told[-1] == "end"


async def test_data_waits_for_credit(world: World) -> None:
    """No more than a window is ever on its way."""
    answer = world.ask("/big", is_slow=True)
    taken = 0
    while not answer.done.is_set():
        await until(lambda taken=taken: len(answer.body) > taken or answer.done.is_set())
        assert len(answer.body) - taken <= WINDOW_BYTES
        some = len(answer.body) - taken
        taken += some
        if some and answer.stream is not None:
            answer.stream.consumed(some)
    assert answer.body == BIG


async def test_a_broken_answer_fails_once(world: World) -> None:
    """It may have begun, and another session may do better."""
    answer = await world.ask("/half").wait()
    assert answer.told[-1] == "fail"
    assert answer.told.count("fail") == 1
    assert "end" not in answer.told
    assert answer.failure is not None
    assert (answer.failure.definite, answer.failure.retryable) == (False, True)


async def test_nobody_is_known_at_once_and_surely(world: World) -> None:
    """Nothing was begun."""
    answer = await world.ask("/echo?q=1", nobody=True).wait()
    assert answer.told == ["fail"]
    assert answer.failure is not None
    assert answer.failure.kind is FailKind.NO_RESPONDERS
    assert (answer.failure.definite, answer.failure.retryable) == (True, True)


async def test_a_cancelled_request_is_stopped_and_silent(world: World) -> None:
    """Twice is as good as once; credit that comes late does no harm."""
    answer = world.ask("/silent")
    await until(lambda: answer.told == ["ack"])
    assert answer.stream is not None
    answer.stream.cancel("enough")
    answer.stream.cancel("enough")
    answer.stream.consumed(1)
    await until(world.is_stopped)
    await asyncio.sleep(0)
    assert answer.told == ["ack"]
