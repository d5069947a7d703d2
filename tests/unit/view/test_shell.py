"""The view's shell on a mesh in memory, in virtual time."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest
from structlog.testing import capture_logs

from opentela.core.errors import CredentialError
from opentela.core.record import SessionRecord
from opentela.core.session_map import SessionMap
from opentela.mesh.bus import Handler, Message, Subscription
from opentela.testing.memory_bus import MemoryBus, MemoryMesh
from opentela.testing.owner import BORN_AT_MS, Owner
from opentela.testing.sim.keys import FakeIdentity, said, vouch
from opentela.testing.virtual_loop import elapse, virtual_time
from opentela.view import exchange
from opentela.view.shell import View
from opentela.wire import control, subjects
from opentela.wire.control import Delta, PageAsk, Verdict

WALL = BORN_AT_MS / 1000


class LoopClock:
    """The clocks of the running loop."""

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def wall(self) -> float:
        return WALL + self.now()


class FakeRegistry:
    """Answers on the snapshot subject from the map that it was given."""

    def __init__(self, bus: MemoryBus, *owners: Owner) -> None:
        self._bus = bus
        self._answers: set[asyncio.Task[None]] = set()
        self.held = SessionMap(vouch())
        self.held.apply([owner.record for owner in owners], wall=WALL, source="test")
        self.asked = 0
        self.told: list[SessionRecord] = []
        self.answer: Callable[[bytes], bytes] = self._answer

    async def start(self) -> None:
        await self._bus.subscribe(subjects.SNAPSHOT, self._on_ask, queue=subjects.SNAPSHOT_QUEUE)
        await self._bus.subscribe(subjects.RELAY, self._on_relay, queue=subjects.SNAPSHOT_QUEUE)

    def _on_relay(self, message: Message) -> None:
        self.told += control.read_relay(message.payload).records

    def _on_ask(self, message: Message) -> None:
        self.asked += 1
        work = self._bus.publish(message.reply, self.answer(message.payload))
        task = asyncio.ensure_future(work)
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)

    def _answer(self, payload: bytes) -> bytes:
        ask = control.read_snapshot_ask(payload)
        if isinstance(ask, PageAsk):
            return control.encode(exchange.page(self.held, "r", ask))
        return control.encode(exchange.answer(self.held, "r", ask))


def run(test: Callable[[MemoryMesh], Awaitable[None]]) -> None:
    """Run *test* in virtual time; no handler may fail meanwhile."""

    async def main() -> None:
        mesh = MemoryMesh(latency_s=0.002)
        await test(mesh)
        assert mesh.handler_failures == 0

    with virtual_time() as runner:
        runner.run(main())


def open_view(mesh: MemoryMesh):  # type: ignore[no-untyped-def]
    return View.open(mesh.bus("router1"), verify=vouch(), name="router1", clock=LoopClock())


def owner(number: int = 0) -> Owner:
    return Owner(FakeIdentity(random.Random(number)))


def test_a_view_boots_from_a_registry_and_follows_owners_and_registries() -> None:
    """Listeners are told of each change until they no longer want it."""

    async def test(mesh: MemoryMesh) -> None:
        known, later = owner(0), owner(1)
        registry = FakeRegistry(mesh.bus("r"), known)
        await registry.start()
        bus = mesh.bus("p")
        async with open_view(mesh) as view:
            heard: list[SessionRecord] = []
            end = view.subscribe(heard.extend)
            await view.wait_caught_up()
            assert (heard, list(view.records)) == ([known.record], [known.claim.session])
            await bus.publish(
                subjects.delta(later.path), control.encode(Delta(signed=later.signed))
            )
            verdict = Verdict(
                registry="r",
                session=known.claim.session,
                ending=said(known.claim, "r", ended_at_ms=1),
            )
            await bus.publish(subjects.verdict(known.path), control.encode(verdict))
            await elapse(0.01)
            assert list(view.records) == [later.claim.session]
            assert len(heard) == 3
            assert [line.source for line in view.story(known.claim.session)] == [
                "registry r",
                "verdict of r",
            ]
            end()
            later.say()
            await bus.publish(
                subjects.delta(later.path), control.encode(Delta(signed=later.signed))
            )
            await elapse(0.01)
            assert len(heard) == 3

    run(test)


def test_without_a_registry_a_view_serves_what_it_hears() -> None:
    """It has not caught up, and says since when nobody answers; then one is there."""

    async def test(mesh: MemoryMesh) -> None:
        async with open_view(mesh) as view:
            here = owner(0)
            await mesh.bus("p").publish(
                subjects.delta(here.path), control.encode(Delta(signed=here.signed))
            )
            await elapse(60.0)
            assert list(view.records) == [here.claim.session]
            assert not view.caught_up
            assert view.stale_since is not None
            assert view.stale_since < 1.0
            registry = FakeRegistry(mesh.bus("r"), owner(1))
            await registry.start()
            await view.wait_caught_up()
            assert (len(view.records), view.stale_since) == (2, None)
            await elapse(3.0)
            assert registry.told == [here.record]

    run(test)


def test_a_view_that_is_told_of_a_new_connection_compares_at_once() -> None:
    """Deltas were missed meanwhile."""

    async def test(mesh: MemoryMesh) -> None:
        registry = FakeRegistry(mesh.bus("r"))
        await registry.start()
        async with open_view(mesh) as view:
            await view.wait_caught_up()
            registry.held.apply([owner().record], wall=WALL, source="test")
            view.mesh_back()
            await elapse(0.1)
            assert len(view.records) == 1

    run(test)


def test_an_unreadable_answer_or_message_is_logged_and_survived() -> None:
    """The view asks again."""

    async def test(mesh: MemoryMesh) -> None:
        registry = FakeRegistry(mesh.bus("r"), owner())
        await registry.start()
        right, registry.answer = registry.answer, lambda _payload: b"\xc1"
        with capture_logs() as logs:
            async with open_view(mesh) as view:
                await mesh.bus("p").publish(subjects.delta(owner().path), b"\xc1")
                await elapse(0.1)
                registry.answer = right
                await view.wait_caught_up()
                assert len(view.records) == 1
        assert [line["event"] for line in logs] == ["message_rejected"] * 2
        assert {line["subject"] for line in logs} == {
            subjects.SNAPSHOT,
            subjects.delta(owner().path),
        }

    run(test)


def test_a_closed_view_asks_and_hears_nothing_more() -> None:
    """Also when it is closed in the middle of a question."""

    async def test(mesh: MemoryMesh) -> None:
        registry = FakeRegistry(mesh.bus("r"), owner())
        await registry.start()
        async with open_view(mesh) as view:
            pass
        await elapse(60.0)
        assert registry.asked <= 1
        assert view.records == {}
        view.mesh_back()
        await elapse(60.0)
        assert registry.asked <= 1

    run(test)


class Fenced:
    """A bus whose access allows no subscription to one subject."""

    def __init__(self, bus: MemoryBus, denied: str) -> None:
        self._bus = bus
        self._denied = denied
        self.publish, self.request, self.close = bus.publish, bus.request, bus.close

    async def subscribe(self, subject: str, handler: Handler, *, queue: str = "") -> Subscription:
        if subject == self._denied:
            raise CredentialError("may not subscribe")
        return await self._bus.subscribe(subject, handler, queue=queue)


def test_a_view_with_an_access_of_before_believes_each_registry() -> None:
    """It may not hear who they are, and says so; anything else it must be allowed."""

    async def test(mesh: MemoryMesh) -> None:
        known = owner()
        await FakeRegistry(mesh.bus("r"), known).start()

        def opened(denied: str):  # type: ignore[no-untyped-def]
            bus = Fenced(mesh.bus("router1"), denied)
            return View.open(bus, verify=vouch(), name="router1", clock=LoopClock())

        with capture_logs() as logs:
            async with opened(subjects.REGISTRIES) as view:
                await view.wait_caught_up()
                assert list(view.records) == [known.claim.session]
        assert [line["event"] for line in logs] == ["registries_unheard"]
        with pytest.raises(CredentialError):
            async with opened(subjects.ALL_VERDICTS):
                pass

    run(test)
