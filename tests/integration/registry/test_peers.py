"""Several registries on real servers: they agree, split, heal, restart and page."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest
from msgspec.structs import replace
from tests.integration.registry.field import QUICK, Field, kept_in, new_owner, shows, suspects

from opentela.core.record import Lifecycle, lifecycle_of, names_of
from opentela.mesh.identity import Identity
from opentela.registry.config import LAN, DetectorConfig
from opentela.registry.shell import RegistryShell
from opentela.testing.mesh import HUB, TestMesh, until
from opentela.testing.owner import Owner
from opentela.testing.waiting import TRIES
from opentela.view.shell import View
from opentela.wire import control, subjects
from opentela.wire.control import Delta

pytestmark = pytest.mark.nats


DEAF: Final = replace(QUICK, detector=DetectorConfig(late_beats=1e4, lease_beats=2e4))
"""Misses nobody: owners that only claim do not beat, and are not to be suspected for it."""


def agree(*registries: RegistryShell) -> bool:
    """Return whether all hold the same, in every byte."""
    first, *others = (registry.held.records for registry in registries)
    return all(dict(other) == dict(first) for other in others)


async def heal(
    mesh: TestMesh,
    near: View,
    far: View,
    owners: Sequence[Owner],
    registries: Sequence[RegistryShell],
) -> float:
    """Start the hub again; return the seconds until both halves know, and agree, from its links."""
    await mesh.restart(HUB)
    for site in ("a", "b"):
        await mesh.linked(site)
    healed_at = time.monotonic()
    await until(lambda: shows(near, *owners) and shows(far, *owners))
    await until(lambda: agree(*registries))
    return time.monotonic() - healed_at


async def test_two_halves_of_a_mesh_serve_apart_and_agree_when_they_meet_again() -> None:
    """Within five seconds of the heal, with nobody lost and nobody risen from the dead."""
    here, there, gone, late = (new_owner(name, name) for name in "abab")
    async with TestMesh(leaves=("a", "b")) as mesh:
        field = Field(mesh)
        async with (
            field.registry("registry1", at="a", config=LAN) as one,
            field.registry("registry2", at="b", config=LAN) as two,
            field.view("router1", at="a") as near,
            field.view("router2", at="b") as far,
            field.session(here, at="a"),
            field.session(there, at="b"),
            field.session(gone, at="a") as leaving,
        ):
            for view in (near, far):
                await until(lambda view=view: shows(view, here, there, gone))
            await mesh.server(HUB).kill()
            await leaving.say(Lifecycle.LEFT)
            async with field.session(late, at="b"):
                # Each half goes on with what it has, and stops routing to what it cannot reach.
                await until(lambda: shows(near, here) and suspects(near, there))
                await until(lambda: shows(far, there, late))
                took_s = [await heal(mesh, near, far, (here, there, late), (one, two))]
                while min(took_s) >= 5.0 and len(took_s) < TRIES:
                    await mesh.server(HUB).kill()
                    await until(lambda: suspects(near, there) and suspects(far, here))
                    took_s.append(await heal(mesh, near, far, (here, there, late), (one, two)))
                assert min(took_s) < 5.0, took_s
                left = one.held.records[gone.claim.session]
                assert lifecycle_of(left) is Lifecycle.LEFT


async def test_a_registry_that_was_away_takes_over_what_its_peer_knows(field: Field) -> None:
    """Also what has left meanwhile."""
    stays, leaves, joins = (new_owner() for _ in range(3))
    async with (
        field.registry("registry1") as one,
        field.session(stays, every_s=0.2),
        field.session(leaves, every_s=0.2) as leaving,
    ):
        async with field.registry("registry2") as two:
            await until(lambda: len(one.held) == 2 and agree(one, two))
        await leaving.say(Lifecycle.LEFT)
        await until(lambda: len(one.held.living) == 1)
        async with field.session(joins, every_s=0.2), field.registry("registry2") as two:
            await until(lambda: len(one.held) == 3 and agree(one, two))
            assert set(two.held.living) == {stays.claim.session, joins.claim.session}


async def test_a_registry_alone_knows_after_a_restart_what_its_file_kept(
    field: Field, tmp_path: Path
) -> None:
    """Views are answered at once, and the dead stay dead."""
    config = kept_in(str(tmp_path / "registry.state"))
    lives, left = new_owner(), new_owner()
    async with field.session(lives, every_s=0.2), field.session(left, every_s=0.2) as leaving:
        async with field.registry(config=config) as registry:
            await until(lambda: len(registry.held) == 2)
            await leaving.say(Lifecycle.LEFT)
            await until(lambda: len(registry.held.living) == 1)
        async with field.registry(config=config) as registry, field.view() as view:
            assert len(registry.held) == 2
            await until(lambda: shows(view, lives))
            assert len(view.held) == 2


async def test_a_registry_alone_and_without_memory_learns_from_beats(field: Field) -> None:
    """A view that boots then sees every living session."""
    owners = [new_owner() for _ in range(3)]
    async with (
        field.session(owners[0], every_s=0.1),
        field.session(owners[1], every_s=0.1),
        field.session(owners[2], every_s=0.1),
        field.registry(),
        field.view() as view,
    ):
        await until(lambda: view.caught_up)
        assert shows(view, *owners)


async def test_a_registry_that_loses_its_server_is_red_and_suspects_nobody(field: Field) -> None:
    """Until it is back, when all is as before."""
    owner = new_owner()
    async with (
        field.registry(config=LAN) as registry,
        field.session(owner, every_s=0.2),
    ):
        await until(lambda: field.ready.get("registry1") == (True, ""))
        await field.mesh.restart(HUB)
        await until(lambda: field.ready["registry1"] == (False, "the mesh does not answer"))
        await until(lambda: field.ready["registry1"] == (True, ""))
        await until(lambda: registry.status()["silent"] == 0)
        assert registry.held.records[owner.claim.session].witnesses == ()


async def test_a_map_of_thousands_reaches_a_view_in_pages(field: Field) -> None:
    """Each message far below what the mesh carries, and quickly."""
    signer = Identity.new()
    born_at_ms = int(time.time() * 1000)
    owners = [Owner(signer, born_at_ms=born_at_ms, number=number) for number in range(2000)]
    bus = await field.provider()
    async with field.registry(config=DEAF) as registry:
        for owner in owners:
            owner.be_warranted(field.mesh.layout.identity("signing"))
            await bus.publish(
                subjects.delta(owner.path), control.encode(Delta(signed=owner.signed))
            )
        await until(lambda: len(registry.held) == len(owners))
        await until(lambda: registry.status()["phase"] == "knowing")
        async with field.view() as view:
            await until(lambda: view.caught_up)
            assert view.held.records.keys() == registry.held.records.keys()


async def test_a_second_registry_must_agree_before_a_session_is_suspected(field: Field) -> None:
    """What only one cannot reach is kept."""
    owner = new_owner()
    async with (
        field.registry("registry1") as one,
        field.registry("registry2") as two,
        field.view() as view,
        field.session(owner, every_s=0.2) as session,
    ):
        await until(lambda: one.status()["peers"] == ["registry2"])
        await until(lambda: two.status()["peers"] == ["registry1"])
        await until(lambda: shows(view, owner))
        await session.die()
        await until(lambda: suspects(view, owner))
        record = view.records[owner.claim.session]
        assert names_of(record.witnesses) == ("registry1", "registry2")
    assert QUICK.peers.quorum == 2


async def test_a_registry_that_stops_says_so(field: Field) -> None:
    """The other neither counts it as away nor waits for its word before it ends a dead session."""
    owner = new_owner()
    async with field.registry("registry1") as one, field.view() as view:
        async with field.registry("registry2"), field.session(owner, every_s=0.2) as session:
            await until(lambda: one.status()["peers"] == ["registry2"])
            await until(lambda: shows(view, owner))
            await session.die()
        await until(lambda: one.status()["peers"] == [])
        assert one.status()["peers_away"] == []
        # Far sooner than `memory_s`, which is what a registry that was killed would take.
        await until(lambda: owner.claim.session not in view.records)


async def test_two_registries_of_one_name_are_red(field: Field) -> None:
    """Both say so, until one is gone."""
    async with field.registry("registry1", key="first"):
        await until(lambda: field.ready.get("first") == (True, ""))
        async with field.registry("registry1", key="second"):
            for key in ("first", "second"):
                await until(
                    lambda key=key: field.ready.get(key, (True, ""))[1].startswith(
                        "another registry is called registry1, too"
                    )
                )
        await until(lambda: field.ready["first"] == (True, ""))
