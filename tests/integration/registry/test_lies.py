"""What nobody can make registries and views believe, on a real mesh with real access files."""

import time

import pytest
from msgspec.structs import replace
from tests.integration.registry.field import Field, new_owner, shows

from opentela.core.record import SessionRecord, is_routable
from opentela.core.refusal import Reason
from opentela.mesh import warrants
from opentela.mesh.identity import Identity
from opentela.testing.mesh import TestRole, until
from opentela.testing.owner import Owner
from opentela.wire import control, subjects
from opentela.wire.control import Delta, PageAsk, Records, Verdict

pytestmark = pytest.mark.nats


def invited(field: Field, provider: str, *, claims: str = "") -> Owner:
    """Return the owner of a session with what *provider* was let in with, claiming for *claims*."""
    access = field.mesh.access(role="provider", provider=provider)
    born_at_ms = int(time.time() * 1000)
    owner = Owner(access.identity, provider=claims or provider, born_at_ms=born_at_ms)
    owner.say(warrant=warrants.of(access))
    return owner


async def test_an_invited_provider_is_believed_by_all(field: Field) -> None:
    """With the key and the warrant of its access file, and nothing else in common."""
    owner = invited(field, "p")
    async with field.registry() as registry, field.view() as view:
        bus = await field.provider("p")
        await until(lambda: view.caught_up)
        await bus.publish(subjects.delta(owner.path), control.encode(Delta(signed=owner.signed)))
        await until(lambda: shows(view, owner))
        assert registry.held.rejections == {}


@pytest.mark.parametrize("kind", ["self-made", "of another provider"])
async def test_a_relay_cannot_speak_for_a_provider(field: Field, kind: str) -> None:
    """Who may pass records on may not make them up: no key but the provider's own will do."""
    victim = invited(field, "p")
    liar = new_owner("p") if kind == "self-made" else invited(field, "q", claims="p")
    if kind == "self-made":
        liar.be_warranted(Identity.new())
    async with field.registry() as registry:
        await until(lambda: registry.status()["phase"] == "knowing")
        router = await field.mesh.bus(role="router", name="router2")
        relay = Records(sender="router2", records=(liar.record, victim.record))

        async def is_heard() -> bool:
            await router.publish(subjects.RELAY, control.encode(relay))
            return victim.claim.session in registry.held.records

        await until(is_heard)
        assert list(registry.held.records) == [victim.claim.session]
        assert registry.held.rejections[Reason.FORGED] >= 1


@pytest.mark.parametrize(("role", "may"), [("router", True), ("placer", True), ("tool", False)])
async def test_tools_ask_and_never_tell(field: Field, role: TestRole, may: bool) -> None:  # noqa: FBT001
    """They read the whole map; what they push does not even reach a registry."""
    owner = invited(field, "p")
    async with field.registry() as registry:
        await until(lambda: registry.status()["phase"] == "knowing")
        bus = await field.mesh.bus(role=role, name=f"{role}2")
        relay = control.encode(Records(sender="x", records=(owner.record,)))
        for subject in (subjects.RELAY, subjects.SNAPSHOT, subjects.gossip("registry1")):
            await bus.publish(subject, relay)
        # The answer to a question that came later says that what came before has been looked at.
        ask = control.encode(PageAsk())
        await bus.request(subjects.SNAPSHOT, ask, timeout_s=30)
        if may:
            await until(lambda: owner.claim.session in registry.held.records)
        assert (owner.claim.session in registry.held.records) is may


async def test_a_registry_that_lies_alone_ends_nobody(field: Field) -> None:
    """Though its key is a registry's: neither with its own word nor with another's name."""
    owner = new_owner()
    async with (
        field.registry("registry1") as one,
        field.registry("registry2") as two,
        field.view() as view,
        field.session(owner, every_s=0.2) as session,
    ):
        await until(lambda: one.status()["peers"] == ["registry2"])
        await until(lambda: two.status()["peers"] == ["registry1"])
        await until(lambda: shows(view, owner) and len(view._machine._registries) == 2)
        access = field.mesh.access(role="registry", name="registry3")
        bus = await field.mesh.bus(role="registry", name="registry3")
        seal = warrants.seal(access)
        changes: list[SessionRecord] = []
        view.subscribe(changes.extend)

        async def lie() -> bool:
            claim = session.owner.claim
            meant = claim.lifecycle, claim.incarnation
            own = seal.state(claim.session, meant, quorum=1, sites=1, ended_at_ms=claim.born_at_ms)
            stolen = replace(own, registry="registry2")
            for ending in ((own,), (own, stolen)):
                verdict = Verdict(registry="registry3", session=claim.session, ending=ending)
                await bus.publish(subjects.verdict(owner.path), control.encode(verdict))
            suspicion = replace(own, ended_at_ms=0)
            verdict = Verdict(registry="registry3", session=claim.session, witnesses=(suspicion,))
            await bus.publish(subjects.verdict(owner.path), control.encode(verdict))
            refused = [registry.held.rejections for registry in (one, two)]
            return all(
                found[Reason.UNSUPPORTED] > 0 and found[Reason.FORGED] > 0 for found in refused
            )

        await until(lie)
        assert shows(view, owner)
        assert all(is_routable(record) for record in changes)
        assert list(one.held.living) == list(two.held.living) == [owner.claim.session]
