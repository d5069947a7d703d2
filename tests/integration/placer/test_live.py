"""A placer on a real mesh, with a registry and agents that obey the contract and run nothing."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import msgspec
import pytest
from tests.integration.registry.field import Field, new_owner
from tests.unit.placer.live import parts

from opentela.core.ids import SessionId
from opentela.core.record import ModelOffer, Offer
from opentela.mesh import nats_bus, warrants
from opentela.mesh.bus import Bus, Message
from opentela.placer.live.config import (
    DemandConfig,
    LeaseConfig,
    MoveConfig,
    PlacerConfig,
    PlanConfig,
)
from opentela.placer.live.decide import Planner
from opentela.placer.live.shell import PlacerShell
from opentela.tasks import Tasks
from opentela.testing.mesh import HUB, TestMesh, until
from opentela.wire import audit, command, subjects, usage
from opentela.wire.audit import AuditEvent
from opentela.wire.command import Holding, Look, Replica, Start, Stop

pytestmark = pytest.mark.nats

CONFIG = parts.config(
    "a",
    demand=DemandConfig(window_s=5.0, fast_s=2.0, learn_s=0.0),
    plan=PlanConfig(every_s=1.0, cool_down_s=0.0),
    moves=MoveConfig(look_s=0.5, retry_s=0.2, command_s=2.0),
)


class FakeAgent:
    """An agent of one GPU whose engines are sessions and nothing else.

    Attributes:
        done: What it was told and had not been told before.
    """

    def __init__(self, field: Field, bus: Bus, stack: AsyncExitStack) -> None:
        self.field, self.bus, self.stack = field, bus, stack
        self.owner = new_owner(site="a", models=())
        self.owner.say(offer=Offer(engine=command.ENGINE, hardware="cpu"))
        self.tasks = Tasks()
        self.lock = asyncio.Lock()
        self.done: list[Start | Stop] = []
        self.replicas: dict[str, Replica] = {}

    @classmethod
    @asynccontextmanager
    async def open(cls, field: Field) -> AsyncIterator["FakeAgent"]:
        """Join, and do what is told."""
        async with AsyncExitStack() as stack:
            bus = await field.provider()
            agent = cls(field, bus, stack)
            await stack.enter_async_context(agent.tasks)
            await bus.subscribe(subjects.command(agent.owner.path), agent._on_command)
            await stack.enter_async_context(field.session(agent.owner))
            yield agent

    def _on_command(self, message: Message) -> None:
        self.tasks.spawn(self.take(command.read_command(message.payload), message.reply))

    async def take(self, told: Start | Stop | Look, reply: str) -> None:
        """Do what is told, once, and answer."""
        async with self.lock:
            if not isinstance(told, Look) and told not in self.done:
                self.done.append(told)
                await self._do(told)
        holding = Holding(
            command="" if isinstance(told, Look) else told.command,
            hardware="cpu",
            gpus=("0",),
            templates=(parts.TEMPLATE,),
            replicas=tuple(self.replicas.values()),
        )
        answer = subjects.answer(reply, self.owner.path)
        await self.bus.publish(answer, command.encode(holding))

    async def _do(self, told: Start | Stop) -> None:
        if isinstance(told, Stop):
            old = self.replicas[told.start]
            self.replicas[told.start] = msgspec.structs.replace(old, state="stopped")
            return
        engine = new_owner(site="a")
        engine.say(
            offer=Offer(
                models=(ModelOffer(name=told.model),), labels={command.COMMAND: told.command}
            )
        )
        await self.stack.enter_async_context(self.field.session(engine))
        self.replicas[told.command] = Replica(
            start=told.command,
            template=told.template,
            model=told.model,
            tp=1,
            pp=1,
            gpus=("0",),
            state="ready",
            session=SessionId(engine.claim.session),
        )


@asynccontextmanager
async def placer(
    mesh: TestMesh, config: PlacerConfig, *, name: str = "placer1", at: str = HUB
) -> AsyncIterator[PlacerShell]:
    """Run a placer, wired as the command wires it."""
    access = mesh.access(role="placer", name=name, at=at)
    async with (
        await nats_bus.connect(access, name=name) as bus,
        PlacerShell.open(
            bus,
            name=name,
            verify=warrants.authority(access),
            config=config,
            planner=Planner(config, {}),
            on_ready=lambda flag, reason: READY.update({name: (flag, reason)}),
        ) as shell,
    ):
        yield shell


READY: dict[str, tuple[bool, str]] = {}
"""What each placer last said of its health."""


async def ask(router: Bus, *, status: int = 503) -> None:
    """Have a request for the model end, as a router tells it."""
    await router.publish(subjects.USAGE, usage.encode(parts.used("a", status=status)))


async def heard(mesh: TestMesh) -> list[AuditEvent]:
    """Return what a tool hears of placers from now on."""
    told: list[AuditEvent] = []
    bus = await mesh.bus(role="tool")
    await bus.subscribe(
        subjects.ALL_AUDITS, lambda message: told.append(audit.read_audit(message.payload))
    )
    return told


def models(agent: FakeAgent) -> list[str]:
    """Return what *agent* was told to start."""
    return [told.model for told in agent.done if isinstance(told, Start)]


@pytest.mark.parametrize("at", [HUB, "a"])
async def test_what_is_asked_for_is_started_and_told(at: str) -> None:
    """From the hub or from behind a leaf; a tool at the hub hears each step."""
    async with TestMesh(leaves=("a",), has_jetstream=True) as mesh:
        field = Field(mesh)
        told = await heard(mesh)
        router = await mesh.bus(role="router")
        async with (
            field.registry(),
            FakeAgent.open(field) as agent,
            placer(mesh, CONFIG, at=at) as shell,
        ):
            await until(lambda: READY["placer1"][0], timeout_s=20)

            async def is_started() -> bool:
                await ask(router)
                return models(agent) == ["a"]

            await until(is_started)
            await until(lambda: any(event.kind == "SERVES" for event in told))
            status = shell.status()
            assert status["leads"] is True
        kinds = [event.kind for event in told if event.kind != "HELD"]
        assert [kind for kind in kinds if kind != "PLANNED"] == [
            "LED",
            "START",
            "SERVES",
            "DEPOSED",
        ]
        assert len({event.id for event in told}) == len(told)


async def test_one_acts_and_the_other_follows_when_it_leaves() -> None:
    """The replica that the first started is the second's from then on."""
    async with TestMesh(has_jetstream=True) as mesh:
        field = Field(mesh)
        told = await heard(mesh)
        router = await mesh.bus(role="router")
        async with field.registry(), FakeAgent.open(field) as agent:
            async with placer(mesh, CONFIG) as one:
                await until(lambda: one.status()["leads"] is True)
                async with placer(mesh, CONFIG, name="placer2") as two:
                    await until(lambda: READY["placer2"][0])
                    assert two.status()["leader"] == "placer1"

                    async def is_started() -> bool:
                        await ask(router)
                        return models(agent) == ["a"]

                    await until(is_started)
            async with placer(mesh, CONFIG, name="placer2") as two:
                await until(lambda: any(event.kind == "ADOPTED" for event in told))
                assert two.status()["leads"] is True
            assert models(agent) == ["a"]
        terms = [event.term for event in told if event.kind == "LED"]
        assert terms == sorted(set(terms))


async def test_without_jetstream_nothing_is_moved_unless_that_is_said() -> None:
    """A placer that cannot know whether another leads does not act."""
    async with TestMesh() as mesh:
        field = Field(mesh)
        router = await mesh.bus(role="router")
        async with field.registry(), FakeAgent.open(field) as agent:
            async with placer(mesh, CONFIG):
                why = (False, "no hub with JetStream answers")
                await until(lambda: READY["placer1"] == why, timeout_s=20)
                await ask(router)
            assert agent.done == []
            alone = msgspec.structs.replace(CONFIG, lease=LeaseConfig(kind="none"))
            async with placer(mesh, alone):

                async def is_started() -> bool:
                    await ask(router)
                    return models(agent) == ["a"]

                await until(is_started)


async def test_a_dry_run_moves_nothing_and_says_what_it_would() -> None:
    """As an audit event."""
    async with TestMesh() as mesh:
        field = Field(mesh)
        told = await heard(mesh)
        router = await mesh.bus(role="router")
        dry = msgspec.structs.replace(CONFIG, dry_run=True)
        async with field.registry(), FakeAgent.open(field) as agent, placer(mesh, dry):

            async def is_planned() -> bool:
                await ask(router)
                return any(event.kind == "PLANNED" for event in told)

            await until(is_planned)
            assert agent.done == []
        (planned, *_) = (event for event in told if event.kind == "PLANNED")
        assert [(one.model, one.running, one.planned) for one in planned.placed] == [("a", 0, 1)]
