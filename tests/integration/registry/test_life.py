"""Lives of sessions on a real server: they join, serve, end, get lost, and are told apart."""

import asyncio
import time

import pytest
from structlog.testing import capture_logs
from tests.integration.registry.field import QUICK, Field, new_owner, shows, suspects

from opentela.core.record import (
    Lifecycle,
    SignedClaim,
    claim_of,
    is_routable,
    lifecycle_of,
    names_of,
)
from opentela.mesh.bus import Message
from opentela.registry.config import LAN
from opentela.testing.mesh import until
from opentela.testing.waiting import TRIES
from opentela.wire import control, events, subjects
from opentela.wire.control import Delta

pytestmark = pytest.mark.nats


async def test_each_step_of_a_life_reaches_views_and_tools(field: Field) -> None:
    """In order: joined, served, drained, down, left."""
    told: list[str] = []

    def on_event(message: Message) -> None:
        told.append(events.DECODER.decode(message.payload).kind)

    tool = await field.mesh.bus(role="tool")
    await tool.subscribe(subjects.ALL_EVENTS, on_event)
    owner = new_owner()
    seen: list[Lifecycle] = []
    async with (
        field.registry(),
        field.view() as view,
        field.session(owner, announce=False) as session,
    ):
        view.subscribe(lambda records: seen.extend(lifecycle_of(one) for one in records))
        for step in Lifecycle:
            await session.say(step)
            await until(lambda step=step: seen[-1:] == [step])
        await until(lambda: told == [step.name for step in Lifecycle])
        assert view.records == {}
    assert seen == list(Lifecycle)


async def test_a_killed_session_is_out_of_every_view_within_two_seconds(field: Field) -> None:
    """With the settings that are shipped, measured from the moment of its death."""
    took_s: list[float] = []
    async with field.registry(config=LAN), field.view() as view:
        while not took_s or (min(took_s) >= 2.0 and len(took_s) < TRIES):
            owner = new_owner()
            async with field.session(owner) as session:
                await until(lambda owner=owner: shows(view, owner))
                await until(lambda: field.ready["registry1"][0])
                died_at = time.monotonic()
                await session.die()
                await until(lambda owner=owner: suspects(view, owner))
                took_s.append(time.monotonic() - died_at)
    assert min(took_s) < 2.0, took_s


async def test_a_lost_leave_is_made_up_for_by_probing(field: Field) -> None:
    """The ghost leaves routing, its model turns the health red, and after grace it has left."""
    owner = new_owner(models=("ghost",))
    async with (
        field.registry() as registry,
        field.view() as view,
        field.session(owner, every_s=0.2) as session,
    ):
        await until(lambda: shows(view, owner) and field.ready["registry1"][0])
        await session.die()  # and nobody hears of it
        await until(lambda: suspects(view, owner))
        red = (False, "no session to route to: ghost")
        await until(lambda: field.ready["registry1"] == red)
        assert registry.status()["models_unroutable"] == ["ghost"]
        await until(lambda: view.records == {})
        await until(lambda: field.ready["registry1"] == (True, ""))


async def test_a_frozen_session_is_suspected_without_the_mesh_knowing(field: Field) -> None:
    """Nobody says "no responders"; it is trusted again as soon as it goes on."""
    owner = new_owner()
    async with (
        field.registry(config=LAN),
        field.view() as view,
        field.session(owner, every_s=0.3) as session,
    ):
        await until(lambda: shows(view, owner))
        session.freeze()
        await until(lambda: suspects(view, owner))
        session.thaw()
        await until(lambda: shows(view, owner))


async def test_a_service_that_comes_back_is_a_new_session_with_its_models(field: Field) -> None:
    """The old one stays gone; requests are routed to the new one."""
    old, new = new_owner(models=("one",)), new_owner(models=("one", "two"))
    served = old.signed
    async with field.registry(), field.view() as view:
        async with field.session(old) as session:
            await until(lambda: shows(view, old))
            await session.say(Lifecycle.LEFT)
            await until(lambda: shows(view))
            await session.publish(served)
        async with field.session(new):
            await until(lambda: shows(view, new))
            (record,) = view.records.values()
            assert [model.name for model in claim_of(record).offer.models] == ["one", "two"]


async def test_a_refreshed_offer_is_seen_by_everybody(field: Field) -> None:
    """An engine may list other models later than at first."""
    owner = new_owner(models=())
    async with field.registry() as registry, field.view() as view, field.session(owner) as session:
        await until(lambda: shows(view, owner))
        await session.say(offer=new_owner(models=("later",)).claim.offer)

        def is_seen() -> bool:
            records = [held.get(owner.claim.session) for held in (view.held, registry.held)]
            return all(
                record is not None
                and [model.name for model in claim_of(record).offer.models] == ["later"]
                for record in records
            )

        await until(is_seen)


async def test_forged_and_foreign_claims_are_rejected_counted_and_logged(field: Field) -> None:
    """Two nodes cannot share a session, and no provider speaks for another."""
    mine, theirs = new_owner("p"), new_owner("q")
    bus = await field.provider("p")
    thief = new_owner("p")
    thief.say(session=mine.claim.session)
    forged = SignedClaim(body=mine.signed.body, signature=b"x" * 64)
    async with field.registry() as registry, field.session(mine) as session:
        await until(lambda: len(registry.held) == 1)
        with capture_logs() as logs:
            for signed in (thief.signed, forged, theirs.signed):
                payload = control.encode(Delta(signed=signed))
                await bus.publish(subjects.delta(mine.path), payload)
            # The mesh itself lets nobody onto another's subject.
            await bus.publish(
                subjects.delta(theirs.path), control.encode(Delta(signed=theirs.signed))
            )
            await until(lambda: registry.status()["rejected"] == {"foreign": 1, "forged": 2})
        assert list(registry.held.records) == [mine.claim.session]
        assert registry.held.records[mine.claim.session].signed == session.owner.signed
    rejected = sorted(line["reason"] for line in logs if line["event"] == "record_rejected")
    assert rejected == ["foreign", "forged", "forged"]


async def test_a_session_that_was_evicted_by_mistake_is_told(field: Field) -> None:
    """It was silent for longer than grace; two registries agree, so that it must join anew."""
    owner = new_owner()
    async with (
        field.registry() as registry,
        field.registry("registry2"),
        field.view() as view,
        field.session(owner, every_s=0.2) as session,
    ):
        await until(lambda: shows(view, owner))
        await until(lambda: registry.status()["peers"] == ["registry2"])
        session.freeze()
        await until(lambda: view.records == {})
        heard = len(session.verdicts)
        session.thaw()
        await until(lambda: len(session.verdicts) > heard)
        assert names_of(session.verdicts[-1].ending) == ("registry1", "registry2")
        assert view.records == {}


async def test_what_one_registry_alone_has_evicted_comes_back(field: Field) -> None:
    """Under its own id: a registry alone may have been cut off itself."""
    owner = new_owner()
    async with (
        field.registry(),
        field.view() as view,
        field.session(owner, every_s=0.2) as session,
    ):
        await until(lambda: shows(view, owner))
        session.freeze()
        await until(lambda: view.records == {})
        session.thaw()
        await until(lambda: shows(view, owner))


async def test_a_node_with_a_clock_that_is_wrong_by_minutes_is_served_like_any(
    field: Field,
) -> None:
    """Neither early nor late ones are refused, evicted or forgotten."""
    fast, slow = new_owner(), new_owner()
    for owner, minutes in ((fast, 10), (slow, -10)):
        moved = type(owner)(
            owner._signer,
            born_at_ms=owner.claim.born_at_ms + minutes * 60_000,
        )
        owner.claim, owner.signed = moved.claim, moved.signed
    async with (
        field.registry() as registry,
        field.view() as view,
        field.session(fast, every_s=0.2),
        field.session(slow, every_s=0.2),
    ):
        await until(lambda: shows(view, fast, slow))
        # Longer than lease and grace together.
        beats = asyncio.get_running_loop().time() + 3 * QUICK.detector.grace_s
        await until(lambda: asyncio.get_running_loop().time() > beats)
        assert shows(view, fast, slow)
        assert registry.status()["rejected"] == {}
        assert all(is_routable(record) for record in view.records.values())
