"""What schedulers and routers say of sessions, on a real mesh with real access files."""

import asyncio
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.integration.registry.field import QUICK, Field, new_owner, shows, suspects

from opentela.mesh import access as accesses
from opentela.registry.config import LAN, DetectorConfig
from opentela.testing.mesh import until
from opentela.wire import control, subjects
from opentela.wire.control import Sighting

pytestmark = pytest.mark.nats

PATIENT = replace(LAN, peers=QUICK.peers, detector=DetectorConfig(grace_s=3600.0))
"""Waits for an hour, unless told that there is nothing to wait for."""


async def advise(access: Path, *arguments: str) -> tuple[int, str]:
    """Run the command; return its exit code and what it says is wrong."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "opentela.cli", "advise", "--access", str(access), *arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    _, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, err.decode()


async def test_a_session_whose_job_is_over_leaves_at_once(field: Field, tmp_path: Path) -> None:
    """The epilogue of its job says so; nobody waits for the grace."""
    file = tmp_path / "provider.toml"
    accesses.write(file, field.mesh.access(role="provider", provider="p"))
    owner = new_owner("p", "s")
    async with (
        field.registry("registry1", config=PATIENT),
        field.registry("registry2", config=PATIENT) as two,
        field.view() as view,
        field.session(owner) as session,
    ):
        await until(lambda: shows(view, owner) and two.status()["peers"] == ["registry1"])
        await session.die()
        assert await advise(file, "--site", "s", owner.claim.session) == (0, "")
        await until(lambda: owner.claim.session not in view.records)


async def test_a_session_that_beats_outlives_its_scheduler(field: Field, tmp_path: Path) -> None:
    """A hook may name the wrong one."""
    file = tmp_path / "provider.toml"
    accesses.write(file, field.mesh.access(role="provider", provider="p"))
    owner = new_owner("p", "s")
    async with (
        field.registry(config=PATIENT) as registry,
        field.view() as view,
        field.session(owner, every_s=0.1) as session,
    ):
        await until(lambda: shows(view, owner))
        assert await advise(file, "--site", "s", owner.claim.session) == (0, "")
        await until(lambda: session.probes > 0)
        await until(lambda: registry.status()["silent"] == 0)
        assert shows(view, owner)


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (("--site", "s", "nonsense"), "'nonsense' is not a session's id"),
        (("--site", "No Site", "01M8N7TWTYEETDNH06AF3QJWJJ"), "--site = 'No Site' is not a name"),
    ],
)
async def test_bad_advice_is_one_clear_line(
    field: Field, tmp_path: Path, arguments: tuple[str, ...], fault: str
) -> None:
    """Naming what is wrong, with a code that a hook sees."""
    file = tmp_path / "provider.toml"
    accesses.write(file, field.mesh.access(role="provider", provider="p"))
    code, err = await advise(file, *arguments)
    assert code != 0
    assert fault in err
    assert len(err.splitlines()) <= 2


async def test_only_a_provider_advises(field: Field, tmp_path: Path) -> None:
    """On its own sessions: a tool has none."""
    file = tmp_path / "tool.toml"
    accesses.write(file, field.mesh.access(role="tool"))
    code, err = await advise(file, "01M8N7TWTYEETDNH06AF3QJWJJ")
    assert code != 0
    assert "an access file of a tool, not of a provider" in err


async def test_a_routers_word_has_the_dead_found_before_their_beat_is_late(field: Field) -> None:
    """It beats so rarely that it would be missed much later."""
    owner = new_owner()
    async with (
        field.registry(config=PATIENT) as registry,
        field.view() as view,
        field.session(owner, every_s=10.0) as session,
    ):
        bus = await field.mesh.bus(role="router", name="router2")
        await until(lambda: shows(view, owner))
        sighting = control.encode(Sighting(router="router2"))
        await bus.publish(subjects.sighting(owner.path), sighting)
        # The living answer, and nothing comes of it.
        await until(lambda: session.probes == 1)
        assert registry.status()["silent"] == 0
        await session.die()

        async def is_found() -> bool:
            await bus.publish(subjects.sighting(owner.path), sighting)
            return suspects(view, owner)

        await until(is_found)
