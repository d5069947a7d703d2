"""One contract, two buses: what a shell may rely on, whether the mesh is real or in memory."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from structlog.testing import capture_logs

from opentela.core.errors import MeshUnavailableError
from opentela.core.ids import ProviderId, SessionId, SiteId
from opentela.mesh.bus import Bus, Message
from opentela.testing.memory_bus import MemoryMesh
from opentela.testing.mesh import TestMesh, until
from opentela.wire import subjects
from opentela.wire.subjects import SessionPath

MakeBus = Callable[[str], Awaitable[Bus]]

VERDICT = subjects.verdict(SessionPath(ProviderId("p"), SiteId("s"), SessionId("n")))
OTHER_VERDICT = subjects.verdict(SessionPath(ProviderId("p"), SiteId("s"), SessionId("m")))
REPLY = subjects.reply("registry1", ProviderId("p"), "i", "t")


@pytest.fixture(params=["memory", pytest.param("nats", marks=pytest.mark.nats)])
async def make_bus(request: pytest.FixtureRequest) -> AsyncIterator[MakeBus]:
    """Give what makes buses of registries, by name."""
    if request.param == "memory":
        memory = MemoryMesh()

        async def in_memory(name: str) -> Bus:
            return memory.bus(name)

        yield in_memory
        return
    async with TestMesh() as mesh:

        async def over_nats(name: str) -> Bus:
            return await mesh.bus(role="registry", name=name)

        yield over_nats


@pytest.fixture
async def mine(make_bus: MakeBus) -> Bus:
    """Give the bus of `registry1`."""
    return await make_bus("registry1")


@pytest.fixture
async def other(make_bus: MakeBus) -> Bus:
    """Give the bus of `registry2`."""
    return await make_bus("registry2")


async def test_a_message_reaches_every_subscription_that_matches(mine: Bus, other: Bus) -> None:
    """Exact, one-token and tail wildcards all match; other subjects do not; we hear ourselves."""
    exact: list[Message] = []
    one: list[Message] = []
    tail: list[Message] = []
    elsewhere: list[Message] = []
    await other.subscribe(VERDICT, exact.append)
    await other.subscribe(VERDICT.replace(".s.", ".*."), one.append)
    await mine.subscribe(subjects.ALL_VERDICTS, tail.append)
    await other.subscribe(OTHER_VERDICT, elsewhere.append)
    await mine.publish(VERDICT, b"hello")
    await until(lambda: len(exact) + len(one) + len(tail) == 3)
    assert exact == one == tail == [Message(VERDICT, b"hello")]
    assert elsewhere == []


async def test_messages_of_one_publisher_arrive_in_order(mine: Bus, other: Bus) -> None:
    """A subscription is a queue, not a bag."""
    got: list[bytes] = []
    await other.subscribe(VERDICT, lambda message: got.append(message.payload))
    expected = [str(number).encode() for number in range(500)]
    for payload in expected:
        await mine.publish(VERDICT, payload)
    await until(lambda: len(got) == len(expected))
    assert got == expected


async def test_one_member_of_a_queue_group_gets_a_message(
    mine: Bus, other: Bus, make_bus: MakeBus
) -> None:
    """Those outside the group get it too."""
    third = await make_bus("registry3")
    group: list[bytes] = []
    alone: list[bytes] = []
    for bus in (mine, other):
        await bus.subscribe(
            subjects.SNAPSHOT, lambda m: group.append(m.payload), queue=subjects.SNAPSHOT_QUEUE
        )
    await third.subscribe(subjects.SNAPSHOT, lambda m: alone.append(m.payload))
    for number in range(20):
        await third.publish(subjects.SNAPSHOT, bytes([number + 1]))
    await until(lambda: len(alone) == 20 and len(group) >= 20)
    assert sorted(group) == sorted(alone)


async def test_a_request_returns_the_answer(mine: Bus, other: Bus) -> None:
    """The asker's inbox lies under its own name, where only it may listen."""
    asked: list[Message] = []
    await other.subscribe(subjects.SNAPSHOT, asked.append, queue=subjects.SNAPSHOT_QUEUE)
    async with asyncio.TaskGroup() as tasks:
        request = tasks.create_task(mine.request(subjects.SNAPSHOT, b"page", timeout_s=30))
        await until(lambda: bool(asked))
        assert asked[0].reply.startswith(subjects.inbox("registry1") + ".")
        await other.publish(asked[0].reply, b"records")
        # A second answer comes too late and harms nobody.
        await other.publish(asked[0].reply, b"again")
    assert request.result() == b"records"
    assert asked[0].payload == b"page"


async def test_a_request_that_nobody_hears_fails_at_once(mine: Bus) -> None:
    """No time-out has to pass."""
    async with asyncio.timeout(30):
        with pytest.raises(MeshUnavailableError, match="nobody listens"):
            await mine.request(subjects.gossip("nobody"), b"?", timeout_s=600)


async def test_a_request_that_nobody_answers_fails_in_time(mine: Bus, other: Bus) -> None:
    """Being heard is not being answered."""
    await other.subscribe(subjects.SNAPSHOT, lambda _: None)
    with pytest.raises(MeshUnavailableError, match="nobody answered"):
        await mine.request(subjects.SNAPSHOT, b"?", timeout_s=0.05)


async def test_a_message_with_a_reply_that_nobody_hears_comes_back_empty(mine: Bus) -> None:
    """That is how a probe learns at once that its session is gone."""
    got: list[Message] = []
    await mine.subscribe(subjects.replies("registry1", "i"), got.append)
    probe = subjects.probe(SessionPath(ProviderId("p"), SiteId("s"), SessionId("gone")))
    await mine.publish(probe, b"are you there", reply=REPLY)
    await until(lambda: bool(got))
    assert [(one.subject, one.payload) for one in got] == [(REPLY, b"")]
    assert got[0].headers["Status"] == "503"


async def test_reply_subject_and_headers_travel_with_the_message(mine: Bus, other: Bus) -> None:
    """Whoever hears it knows where to answer."""
    got: list[Message] = []
    await other.subscribe(VERDICT, got.append)
    await mine.publish(VERDICT, b"x", reply=REPLY, headers={"Trace": "1"})
    await until(lambda: bool(got))
    assert got == [Message(VERDICT, b"x", REPLY, {"Trace": "1"})]


async def test_a_withdrawn_subscription_hears_nothing_more(mine: Bus, other: Bus) -> None:
    """Withdrawing twice does no harm."""
    first: list[Message] = []
    second: list[Message] = []
    subscription = await other.subscribe(VERDICT, first.append)
    await other.subscribe(subjects.ALL_VERDICTS, second.append)
    await subscription.unsubscribe()
    await subscription.unsubscribe()
    await mine.publish(VERDICT, b"x")
    await until(lambda: bool(second))
    assert first == []


async def test_an_exception_of_a_handler_is_logged_and_the_next_message_handled(
    mine: Bus, other: Bus
) -> None:
    """One bad message must not make a service deaf."""
    got: list[bytes] = []

    def handle(message: Message) -> None:
        if message.payload == b"bad":
            raise KeyError("bad")
        got.append(message.payload)

    with capture_logs() as logs:
        await other.subscribe(VERDICT, handle)
        await mine.publish(VERDICT, b"bad")
        await mine.publish(VERDICT, b"good")
        await until(lambda: got == [b"good"])
    failed = [entry for entry in logs if entry["event"] == "mesh_handler_failed"]
    assert [entry["error"] for entry in failed] == ["KeyError('bad')"]


async def test_what_was_published_before_closing_arrives(mine: Bus, other: Bus) -> None:
    """A farewell is the most important message of all."""
    got: list[bytes] = []
    await other.subscribe(VERDICT, lambda message: got.append(message.payload))
    for number in range(50):
        await mine.publish(VERDICT, bytes([number + 1]))
    await mine.close()
    await until(lambda: len(got) == 50)


async def test_a_closed_bus_refuses_everything(mine: Bus) -> None:
    """Closing twice does no harm."""
    await mine.close()
    await mine.close()
    with pytest.raises(MeshUnavailableError, match="closed"):
        await mine.publish(VERDICT, b"x")
    with pytest.raises(MeshUnavailableError, match="closed"):
        await mine.subscribe(VERDICT, lambda _: None)
    with pytest.raises(MeshUnavailableError, match="closed"):
        await mine.request(subjects.SNAPSHOT, b"x", timeout_s=1)
