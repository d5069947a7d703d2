"""The dead are remembered, then forgotten, and never rise: on real servers."""

import time
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.integration.registry.field import QUICK, Field, new_owner, shows

from opentela.core.record import Lifecycle
from opentela.core.refusal import Reason
from opentela.registry.config import RegistryConfig, RetentionConfig
from opentela.testing.mesh import until
from opentela.wire import control, subjects
from opentela.wire.control import Delta, Records

pytestmark = pytest.mark.nats

FORGETFUL: RegistryConfig = replace(
    QUICK, retention=RetentionConfig(tombstone_s=0.5, clock_margin_s=0.5, sweep_s=0.1)
)
"""Forgets within a second what others remember for a day."""


async def test_who_was_compacted_does_not_rise(field: Field) -> None:
    """Neither by its owner's old word nor by a view's; a session born later is let in."""
    dead = new_owner()
    async with (
        field.registry("registry1", config=FORGETFUL) as one,
        field.registry("registry2", config=FORGETFUL) as two,
        field.view() as view,
    ):
        await until(lambda: one.status()["peers"] == ["registry2"])
        async with field.session(dead, every_s=0.2) as session:
            await until(lambda: shows(view, dead))
            alive = dead.record
            await session.say(Lifecycle.LEFT, ended_at_ms=int(time.time() * 1000))
        for registry in (one, two):
            await until(lambda registry=registry: not registry.held.records)
            assert registry.held.horizon_ms == dead.claim.born_at_ms
        await until(lambda: not view.held.records)
        provider, router = await field.provider(), await field.mesh.bus(role="router", name="r2")
        delta = control.encode(Delta(signed=alive.signed))
        relay = control.encode(Records(sender="r2", records=(alive,)))

        async def is_refused() -> bool:
            await provider.publish(subjects.delta(dead.path), delta)
            await router.publish(subjects.RELAY, relay)
            return all(r.held.rejections[Reason.FORGOTTEN] > 1 for r in (one, two))

        await until(is_refused)
        assert not one.held.records
        assert not two.held.records
        newcomer = new_owner()
        async with field.session(newcomer, every_s=0.2):
            await until(lambda: shows(view, newcomer))


async def test_a_forgotten_session_that_beats_on_joins_anew(field: Field) -> None:
    """Its owner is told by whoever it is that it has left for good."""
    dead = new_owner()
    async with (
        field.registry("registry1", config=FORGETFUL) as one,
        field.registry("registry2", config=FORGETFUL) as two,
    ):
        await until(lambda: one.status()["peers"] == ["registry2"])
        async with field.session(dead, every_s=0.2) as session:
            await until(lambda: bool(one.held.living and two.held.living))
            alive = dead.signed
            await session.say(Lifecycle.LEFT, ended_at_ms=int(time.time() * 1000))
            await until(lambda: not (one.held.records or two.held.records))
            session.verdicts.clear()
            await session.publish(alive)
            await until(lambda: any(verdict.ending for verdict in session.verdicts))
            assert not {**one.held.records, **two.held.records}


async def test_a_horizon_outlives_a_restart(field: Field, tmp_path: Path) -> None:
    """A registry alone forgets who died, and not that it has forgotten somebody."""
    file = str(tmp_path / "registry.state")
    config = replace(FORGETFUL, retention=replace(FORGETFUL.retention, state_file=file))
    dead = new_owner()
    async with (
        field.registry(config=config) as registry,
        field.session(dead, every_s=0.2) as session,
    ):
        await until(lambda: bool(registry.held.living))
        alive = dead.signed
        await session.say(Lifecycle.LEFT, ended_at_ms=int(time.time() * 1000))
        await until(lambda: not registry.held.records)
    async with field.registry(config=config) as registry:
        bus = await field.provider()

        async def is_refused() -> bool:
            await bus.publish(subjects.delta(dead.path), control.encode(Delta(signed=alive)))
            return registry.held.rejections[Reason.FORGOTTEN] > 0

        await until(is_refused)
        assert not registry.held.records
