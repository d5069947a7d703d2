"""A placer on a real mesh, and agents that obey the contract and run nothing."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import msgspec
from tests.integration.registry.field import Field, new_owner
from tests.unit.placer.live import parts

from opentela.core.ids import SessionId
from opentela.core.record import ModelOffer, Offer
from opentela.mesh import nats_bus, warrants
from opentela.mesh.bus import Bus, Message
from opentela.placer.live.config import DemandConfig, MoveConfig, PlacerConfig, PlanConfig
from opentela.placer.live.decide import Planner
from opentela.placer.live.shell import PlacerShell
from opentela.tasks import Tasks
from opentela.testing.mesh import HUB, TestMesh
from opentela.wire import audit, command, subjects, usage
from opentela.wire.audit import AuditEvent
from opentela.wire.command import Holding, Look, Replica, Start, Stop

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
