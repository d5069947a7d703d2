"""The registry's shell on a mesh in memory, in virtual time."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from structlog.testing import capture_logs

from opentela.core.record import Lifecycle, SignedClaim, is_suspected
from opentela.registry.config import LAN, PeersConfig, RegistryConfig
from opentela.registry.shell import RegistryShell
from opentela.telemetry import metrics
from opentela.testing.fake_session import FakeSession
from opentela.testing.memory_bus import MemoryMesh
from opentela.testing.owner import BORN_AT_MS, Owner
from opentela.testing.sim.keys import FakeIdentity, seal, vouch
from opentela.testing.virtual_loop import elapse, virtual_time
from opentela.view.shell import View
from opentela.wire import control, events, subjects
from opentela.wire.control import Delta, DigestAsk


class LoopClock:
    """The clocks of the running loop."""

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def wall(self) -> float:
        return BORN_AT_MS / 1000 + self.now()


class Mesh:
    """A mesh in memory with what a test needs around registries."""

    def __init__(self) -> None:
        self.memory = MemoryMesh(latency_s=0.002)
        self.events: list[events.LifecycleEvent] = []
        self.ready: list[tuple[bool, str]] = []

    @asynccontextmanager
    async def registry(
        self, name: str = "registry1", config: RegistryConfig = LAN
    ) -> AsyncIterator[RegistryShell]:
        async with RegistryShell.open(
            self.memory.bus(name),
            seal=seal(name),
            verify=vouch(),
            config=config,
            on_ready=lambda flag, reason: self.ready.append((flag, reason)),
            clock=LoopClock(),
        ) as shell:
            yield shell

    @asynccontextmanager
    async def view(self) -> AsyncIterator[View]:
        bus = self.memory.bus("router1")
        async with View.open(bus, verify=vouch(), name="router1", clock=LoopClock()) as view:
            yield view

    async def listen(self) -> None:
        def on_event(message: object) -> None:
            self.events.append(events.DECODER.decode(message.payload))  # type: ignore[attr-defined]

        await self.memory.bus("tool").subscribe(subjects.ALL_EVENTS, on_event)


def run(test: Callable[[Mesh], Awaitable[None]]) -> None:
    """Run *test* in virtual time; no handler may fail meanwhile."""

    async def main() -> None:
        mesh = Mesh()
        await test(mesh)
        assert mesh.memory.handler_failures == 0

    with virtual_time() as runner:
        runner.run(main())


def owner(number: int = 0) -> Owner:
    return Owner(FakeIdentity(random.Random(number)))


def count(name: str, **labels: str) -> float:
    return metrics.REGISTRY.get_sample_value(name, labels) or 0.0


def test_a_session_joins_serves_drains_and_leaves() -> None:
    """Each step reaches views and tools, in order."""

    async def test(mesh: Mesh) -> None:
        await mesh.listen()
        async with (
            mesh.registry(),
            mesh.view() as view,
            FakeSession.open(mesh.memory.bus("p"), owner(), announce=False) as session,
        ):
            for lifecycle in Lifecycle:
                await session.say(lifecycle)
                await elapse(0.1)
            assert view.records == {}
            assert [event.kind for event in mesh.events] == [step.name for step in Lifecycle]

    run(test)


def test_a_killed_session_is_out_of_every_view_within_two_seconds() -> None:
    """And has left after grace."""

    async def test(mesh: Mesh) -> None:
        async with (
            mesh.registry(),
            mesh.view() as view,
            FakeSession.open(mesh.memory.bus("p"), owner(), every_s=1.0) as session,
        ):
            await elapse(10.0)
            await session.die()
            await elapse(2.0)
            (record,) = view.records.values()
            assert is_suspected(record)
            await elapse(LAN.detector.grace_s + 2 * LAN.peers.gossip_s)
            assert view.records == {}
            assert session.probes == 0

    run(test)


def test_a_frozen_session_is_suspected_and_trusted_when_it_goes_on() -> None:
    """Half a minute of silence is no end."""

    async def test(mesh: Mesh) -> None:
        await mesh.listen()
        async with (
            mesh.registry(),
            mesh.view() as view,
            FakeSession.open(mesh.memory.bus("p"), owner(), every_s=1.0) as session,
        ):
            await elapse(5.0)
            session.freeze()
            await elapse(32.0)
            assert [is_suspected(record) for record in view.records.values()] == [True]
            session.thaw()
            await elapse(2.5)
            assert [is_suspected(record) for record in view.records.values()] == [False]
            assert [event.kind for event in mesh.events[1:]] == ["SUSPECTED", "TRUSTED"]

    run(test)


def test_a_registry_without_memory_learns_from_beats() -> None:
    """A session that joined before it was there is asked for its claim, and is no news."""

    async def test(mesh: Mesh) -> None:
        await mesh.listen()
        async with FakeSession.open(mesh.memory.bus("p"), owner(), every_s=1.0):
            await elapse(1.0)
            async with mesh.registry() as registry, mesh.view() as view:
                await view.wait_caught_up()
                assert len(registry.held) == len(view.records) == 1
                assert mesh.events == []
        assert mesh.ready[-1] == (True, "")

    run(test)


def test_a_second_registry_takes_over_the_first_ones_map() -> None:
    """And both answer views from then on."""

    async def test(mesh: Mesh) -> None:
        async with mesh.registry("registry1") as first:
            await elapse(5.0)
            async with (
                FakeSession.open(mesh.memory.bus("p"), owner(), every_s=1.0),
                mesh.registry("registry2") as second,
            ):
                await elapse(0.1)
                assert second.held.records == first.held.records != {}
                await elapse(2.0)
                assert first.status()["peers"] == ["registry2"]
                assert second.status()["peers"] == ["registry1"]

    run(test)


def test_a_session_that_one_registry_cannot_reach_is_kept_by_the_other() -> None:
    """Two must agree."""

    async def test(mesh: Mesh) -> None:
        config = RegistryConfig(access="", peers=PeersConfig(learn_s=0.5))
        async with (
            mesh.registry("registry1", config) as first,
            mesh.registry("registry2", config),
            mesh.view() as view,
            FakeSession.open(mesh.memory.bus("p"), owner(), every_s=1.0) as session,
        ):
            await elapse(5.0)
            # To the first registry only, the mesh stays silent about this session.
            deaf = subjects.ALL_BEATS, subjects.replies("registry1", first._instance)
            for subscription in list(mesh.memory._subscriptions):
                if subscription.bus is first._bus and subscription.subject in deaf:
                    await subscription.unsubscribe()
            await elapse(60.0)
            (record,) = view.records.values()
            assert not is_suspected(record)
            assert session.owner.claim.incarnation > 1

    run(test)


def test_a_forged_or_foreign_claim_is_rejected_counted_and_logged() -> None:
    """Nothing of it reaches a view."""

    async def test(mesh: Mesh) -> None:
        mine, other = owner(0), owner(1)
        forged = SignedClaim(body=mine.signed.body, signature=b"x" * 16)
        before = {r: count("otela_records_rejected_total", reason=r) for r in ("forged", "foreign")}
        bus = mesh.memory.bus("p")
        async with mesh.registry() as registry, mesh.view() as view:
            with capture_logs() as logs:
                for path, signed in ((mine.path, forged), (other.path, mine.signed)):
                    payload = control.encode(Delta(signed=signed))
                    await bus.publish(subjects.delta(path), payload)
                await elapse(0.1)
            assert registry.held.records == view.held.records == {}
        rejected = [line for line in logs if line["event"] == "record_rejected"]
        assert sorted(line["reason"] for line in rejected) == ["foreign"] * 2 + ["forged"] * 2
        assert {line["session"] for line in rejected} == {mine.claim.session}
        for reason, number in before.items():
            assert count("otela_records_rejected_total", reason=reason) == number + 2

    run(test)


def test_rubbish_is_counted_logged_and_survived() -> None:
    """On any subject, and questions that cannot be meant."""

    async def test(mesh: Mesh) -> None:
        bus = mesh.memory.bus("p")
        kinds = ("delta", "gossip", "snapshot")
        before = {kind: count("otela_messages_rejected_total", kind=kind) for kind in kinds}
        async with mesh.registry() as registry:
            await elapse(5.0)
            impossible = control.encode(DigestAsk(asker="registry2", hashes=(1,)))
            with capture_logs() as logs:
                await bus.publish(subjects.delta(owner().path), b"\xc1")
                await bus.publish(subjects.gossip("registry1"), impossible)
                await bus.publish(subjects.SNAPSHOT, impossible, reply="nowhere")
                await elapse(0.1)
            assert [line["event"] for line in logs] == ["message_rejected"] * 3
            for kind, number in before.items():
                assert count("otela_messages_rejected_total", kind=kind) == number + 1
            async with FakeSession.open(bus, owner()):
                await elapse(0.1)
                assert len(registry.held) == 1

    run(test)


def test_without_a_connection_nobody_is_suspected() -> None:
    """The registry is red until it is back."""

    async def test(mesh: Mesh) -> None:
        bus = mesh.memory.bus("p")
        async with mesh.registry() as registry, FakeSession.open(bus, owner()) as session:
            await elapse(5.0)
            registry.mesh_changed(connected=False)
            session.freeze()
            await elapse(100.0)
            session.thaw()
            registry.mesh_changed(connected=True)
            await elapse(1.0)
            assert mesh.ready[-2:] == [(False, "the mesh does not answer"), (True, "")]
            assert registry.held.records[session.owner.claim.session].witnesses == ()

    run(test)


def test_metrics_tell_what_is_held() -> None:
    """Computed when they are read."""

    async def test(mesh: Mesh) -> None:
        bus = mesh.memory.bus("p")
        async with mesh.registry(), FakeSession.open(bus, owner(), every_s=1.0) as session:
            await elapse(5.0)
            await session.die()
            await elapse(3.0)
            assert count("otela_registry_sessions", lifecycle="SERVING") == 1
            assert count("otela_registry_sessions_suspected") == 1
            assert count("otela_registry_models_unroutable") == 1
            assert count("otela_registry_events_total", kind="SUSPECTED") >= 1
            assert count("otela_registry_messages_published_total", kind="probe") >= 1
            assert count("otela_registry_published_bytes_total", kind="registries") > 0

    run(test)


def test_each_event_is_one_line_in_the_log() -> None:
    """Under a name that an operator can look up."""

    async def test(mesh: Mesh) -> None:
        bus = mesh.memory.bus("p")
        with capture_logs() as logs:
            async with (
                mesh.registry(),
                FakeSession.open(bus, owner(), every_s=1.0, announce=False) as session,
            ):
                await session.say(Lifecycle.JOINING)
                await session.say(Lifecycle.SERVING)
                await elapse(5.0)
                session.freeze()
                await elapse(6.0)
                session.thaw()
                await elapse(2.0)
                await session.say(offer=owner().claim.offer.__class__())
                for lifecycle in (Lifecycle.DRAINING, Lifecycle.DOWN, Lifecycle.LEFT):
                    await session.say(lifecycle)
                await elapse(0.1)
        told = [line["event"] for line in logs if "session" in line]
        assert told == [
            "session_joined",
            "session_served",
            "suspicion_raised",
            "suspicion_refuted",
            "offer_changed",
            "session_drained",
            "session_went_down",
            "session_left",
        ]

    run(test)
