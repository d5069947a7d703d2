"""A placer on a real mesh, with a registry and agents that obey the contract and run nothing."""

import msgspec
import pytest
from tests.integration.placer.agents import CONFIG, READY, FakeAgent, ask, heard, models, placer
from tests.integration.registry.field import Field

from opentela.placer.live.config import LeaseConfig
from opentela.testing.mesh import HUB, TestMesh, until

pytestmark = pytest.mark.nats


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


async def test_who_follows_with_other_settings_says_so() -> None:
    """What it would change is seen only when it takes over."""
    async with TestMesh(has_jetstream=True) as mesh:
        field = Field(mesh)
        other = msgspec.structs.replace(CONFIG, models=())
        async with field.registry(), placer(mesh, CONFIG) as one:
            await until(lambda: one.status()["leads"] is True)
            async with placer(mesh, other, name="placer2") as two:
                notes = ["placer1 leads with other settings: give both placers the same"]
                await until(lambda: two.status()["notes"] == notes)
                assert one.status()["notes"] == []


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
