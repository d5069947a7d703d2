"""Agents that do not keep the contract cost their own share of the work, and nobody else's."""

import pytest
from tests.integration.placer.agents import CONFIG, FakeAgent, ask, heard, models, placer
from tests.integration.registry.field import Field
from tests.unit.placer.live import ledger, parts

from opentela.testing.mesh import TestMesh, until
from opentela.wire.command import Replica, Start, Stop

pytestmark = pytest.mark.nats


class Idle(FakeAgent):
    """It takes every command, and does nothing."""

    async def _do(self, told: Start | Stop) -> None:
        pass


async def test_who_takes_a_start_and_does_nothing_is_found_out() -> None:
    """What it was to run runs elsewhere, and every command has its outcome."""
    async with TestMesh(has_jetstream=True) as mesh:
        field = Field(mesh)
        told = await heard(mesh)
        router = await mesh.bus(role="router")
        async with (
            field.registry(),
            Idle.open(field) as idle,
            FakeAgent.open(field) as honest,
            placer(mesh, CONFIG),
        ):

            async def is_served() -> bool:
                await ask(router)
                return models(honest) == ["a"]

            def failed() -> int:
                return sum(event.kind == "FAILED" for event in told)

            await until(is_served, timeout_s=60)
            await until(lambda: any(event.kind == "SERVES" for event in told))
            # Both may have been started at once: for what is asked, and for growth.
            await until(lambda: failed() == len(models(idle)), timeout_s=60)
        assert failed() == len(models(idle)) <= 2
        assert ledger.faults(told) == []


async def test_an_answer_that_cannot_be_true_is_none() -> None:
    """It tells of more than it has: nothing is started there, and it is said why."""
    async with TestMesh(has_jetstream=True) as mesh:
        field = Field(mesh)
        router = await mesh.bus(role="router")
        async with (
            field.registry(),
            FakeAgent.open(field) as liar,
            FakeAgent.open(field) as honest,
            placer(mesh, CONFIG) as shell,
        ):
            liar.replicas["lie"] = Replica(
                start=parts.session(1),
                template=parts.TEMPLATE,
                model="a",
                tp=8,
                pp=1,
                gpus=(),
                state="ready",
            )

            async def is_served() -> bool:
                await ask(router)
                return models(honest) == ["a"]

            await until(is_served, timeout_s=60)
            assert models(liar) == []
            agents = shell.status()["agents"]
            assert isinstance(agents, list)
            faults = {one["agent"]: one["fault"] for one in agents}
            assert faults[liar.owner.path.session].startswith("it tells of")
            assert faults[honest.owner.path.session] == ""
