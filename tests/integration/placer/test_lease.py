"""The lease on a real JetStream: at the hub, and from behind a leaf."""

import asyncio

import pytest

from opentela.core.errors import MeshUnavailableError
from opentela.mesh.nats_bus import NatsBus
from opentela.placer.live import lease as e
from opentela.placer.live.ballot import Ballot
from opentela.testing.mesh import CLOCK, HUB, TestMesh, TestRole, until
from opentela.wire import lease, subjects
from opentela.wire.lease import Entry, Held

pytestmark = pytest.mark.nats

ENTRY = Entry(placer="placer1", instance="i", lease_s=3.0)


def ballot(bus: NatsBus) -> Ballot:
    return Ballot(bus, clock=CLOCK, answer_s=20.0)


async def answer(one: Ballot, action: e.Action) -> e.Event:
    """Return the first answer: a leaf hears of the hub's interest a moment after it is there."""
    told: list[e.Event] = []

    async def answered() -> bool:
        told.append(await one.ask(action))
        return not isinstance(told[-1], e.Unanswered)

    await until(answered)
    return told[-1]


@pytest.mark.parametrize("at", [HUB, "a"])
async def test_it_is_made_written_and_read(at: str) -> None:
    """Each write replaces the one that it names, and no other."""
    async with TestMesh(leaves=("a",), has_jetstream=True) as mesh:
        one = ballot(await mesh.bus(role="placer", at=at))
        two = ballot(await mesh.bus(role="placer", name="placer2"))
        assert await answer(one, e.Read()) == e.Seen(held=None)
        assert await one.ask(e.Make()) == e.Seen(held=Held())
        assert await two.ask(e.Make()) == e.Seen(held=Held())
        begun = await answer(one, e.Write(revision=0, entry=ENTRY))
        assert isinstance(begun, e.Written)
        write = e.Write(revision=begun.revision, entry=ENTRY)
        both = await asyncio.gather(one.ask(write), two.ask(write))
        revisions = sorted(it.revision for it in both if isinstance(it, e.Written))
        assert revisions == [0, begun.revision + 1]
        revision = revisions[1]
        assert revision >= CLOCK.wall() * 1000 - 60_000
        assert await two.ask(e.Read()) == e.Seen(held=Held(revision=revision, entry=ENTRY))
        again = await one.ask(e.Write(revision=revision, entry=ENTRY))
        assert isinstance(again, e.Written)
        assert again.revision == revision + 1


async def test_without_jetstream_nobody_leads() -> None:
    """And it is said why."""
    async with TestMesh() as mesh:
        one = Ballot(await mesh.bus(role="placer"), clock=CLOCK, answer_s=0.5)
        why = "no hub with JetStream answers"
        for action in (e.Read(), e.Make(), e.Write(revision=0, entry=ENTRY)):
            assert await one.ask(action) == e.Unanswered(why=why)


ROLES: tuple[TestRole, ...] = ("registry", "router", "tool", "provider")


@pytest.mark.parametrize("role", ROLES)
async def test_nobody_but_a_placer_touches_it(role: TestRole) -> None:
    """Neither writes nor reads it, nor makes the bucket."""
    async with TestMesh(has_jetstream=True) as mesh:
        placer = ballot(await mesh.bus(role="placer"))
        await placer.ask(e.Make())
        written = await placer.ask(e.Write(revision=0, entry=ENTRY))
        assert isinstance(written, e.Written)
        bus = await mesh.bus(role=role, provider="p" if role == "provider" else "")
        for subject, payload in (
            (subjects.WRITE_LEASE, lease.written(Entry())),
            (subjects.READ_LEASES, lease.ask()),
            (subjects.MAKE_LEASES, lease.settings(now_ms=1)),
        ):
            for name in {subject, subjects.at_hub(subject)}:
                with pytest.raises(MeshUnavailableError):
                    await bus.request(name, payload, timeout_s=0.3)
        assert await placer.ask(e.Read()) == e.Seen(
            held=Held(revision=written.revision, entry=ENTRY)
        )


ALL_ROLES: tuple[TestRole, ...] = (*ROLES, "placer")


@pytest.mark.parametrize("role", ALL_ROLES)
async def test_nobody_makes_terms_begin_again(role: TestRole) -> None:
    """No role deletes or empties the bucket, alters it, or takes an entry out."""
    async with TestMesh(has_jetstream=True) as mesh:
        placer = ballot(await mesh.bus(role="placer"))
        await placer.ask(e.Make())
        written = await placer.ask(e.Write(revision=0, entry=ENTRY))
        assert isinstance(written, e.Written)
        name = "placer2" if role == "placer" else ""
        bus = await mesh.bus(role=role, name=name, provider="p" if role == "provider" else "")
        for verb in ("STREAM.DELETE", "STREAM.PURGE", "STREAM.UPDATE", "STREAM.MSG.DELETE"):
            for api in ("$JS.hub.API", "$JS.API"):
                subject = f"{api}.{verb}.{subjects.LEASES}"
                with pytest.raises(MeshUnavailableError):
                    await bus.request(subject, b"{}", timeout_s=0.1)
        assert await placer.ask(e.Read()) == e.Seen(
            held=Held(revision=written.revision, entry=ENTRY)
        )
