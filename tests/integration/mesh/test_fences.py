"""What a leaf may carry, whatever its own users try, and even if the leaf server itself lies."""

from collections.abc import AsyncIterator

import pytest
from tests.integration.mesh.omnipotent import omnipotent_bus
from tests.integration.mesh.raw_leaf import RawLeaf, raw_leaf

from opentela.core.errors import MeshUnavailableError
from opentela.mesh import setup
from opentela.mesh.access import Access
from opentela.mesh.bus import Message
from opentela.mesh.nats_bus import NatsBus
from opentela.mesh.permissions import Member, Role
from opentela.mesh.setup import LeafOptions
from opentela.testing.mesh import CLOCK, TestMesh, until

pytestmark = pytest.mark.nats

WHAT_P_AT_A_SAYS = (
    "otela.v1.delta.p.a.n",
    "otela.v1.beat.p.a.n",
    "otela.v1.reply.router1.i.p.t",
)
WHAT_OTHERS_SAY = (
    "otela.v1.delta.q.a.n",  # another provider's record
    "otela.v1.delta.p.b.n",  # the same provider's, at another site
    "otela.v1.beat.q.a.n",
    "otela.v1.reply.router1.i.q.t",  # another's answer
    "otela.v1.verdict.p.a.n",  # a registry's word
    "otela.v1.events.LEFT.p.a.n",
    "otela.v1.gossip.registry1",
    "otela.v1.inbox.router1.x.y",  # an answer to a snapshot
    "otela.v1.snapshot",
    "otela.v1.probe.p.a.n",
    "otela.v1.data.p.a.n",  # a request
    "otela.v1.usage",
    "otela.v1.command.p.a.n",
    "otela.v1.audit.placer1",
    "$JS.hub.API.$KV.otela_placers.leader",  # who of the placers leads
)
WHAT_P_AT_A_HEARS = ("otela.v1.data.p.a.n", "otela.v1.probe.p.a.n", "otela.v1.verdict.p.a.n")
WHAT_OTHERS_HEAR = (
    "otela.v1.data.q.a.n",  # another's prompts
    "otela.v1.data.p.b.n",
    "otela.v1.probe.q.a.n",
    "otela.v1.verdict.q.a.n",
    "otela.v1.delta.q.b.n",
    "otela.v1.beat.q.b.n",
    "otela.v1.reply.router1.i.q.t",  # another's answers
    "otela.v1.inbox.router1.x.y",
    "otela.v1.gossip.registry1",
    "otela.v1.snapshot",
    "otela.v1.events.LEFT.q.b.n",
    "otela.v1.usage",
    "otela.v1.command.q.a.n",  # what another's agent is to run
    "otela.v1.audit.placer1",
)


@pytest.fixture
async def mesh() -> AsyncIterator[TestMesh]:
    """Give a hub, and a leaf for provider p at site a and nobody else."""
    async with TestMesh(leaves=("a",), providers={"a": ("p",)}, members=()) as mesh:
        yield mesh


@pytest.fixture
async def hub(mesh: TestMesh) -> NatsBus:
    """Give a bus at the hub that may do everything."""
    return await omnipotent_bus(mesh)


@pytest.fixture
async def heard(hub: NatsBus) -> list[Message]:
    """Give what the hub took, from now on."""
    heard: list[Message] = []
    for subject in ("otela.v1.delta.>", "otela.v1.beat.>", "otela.v1.reply.router1.i.>"):
        await hub.subscribe(subject, heard.append)
    for subject in WHAT_OTHERS_SAY:
        if subject.split(".")[2] not in ("delta", "beat", "reply"):
            await hub.subscribe(subject, heard.append)
    return heard


def link(mesh: TestMesh) -> Access:
    """Return the access of the leaf's own link."""
    creds = (mesh.layout.leaf("a") / "leaf.creds").read_text()
    return Access(name="leaf-a", role="leaf", servers=(mesh.url(),), credentials=creds)


async def test_a_leaf_carries_what_its_providers_say_and_nothing_else(
    mesh: TestMesh, heard: list[Message]
) -> None:
    """Even for a user whom the leaf itself allows everything."""
    bus = await omnipotent_bus(mesh, "a")

    async def said() -> bool:
        for subject in WHAT_P_AT_A_SAYS:
            await bus.publish(subject, b"ours")
        return {m.subject for m in heard} == set(WHAT_P_AT_A_SAYS)

    await until(said)
    for subject in WHAT_OTHERS_SAY:
        await bus.publish(subject, b"forged")
    await bus.publish(WHAT_P_AT_A_SAYS[0], b"fence")
    await until(lambda: any(message.payload == b"fence" for message in heard))
    assert [message for message in heard if message.payload == b"forged"] == []


async def test_a_leaf_hears_what_is_said_to_its_providers_and_nothing_else(
    mesh: TestMesh, hub: NatsBus
) -> None:
    """To a subscription that it may not carry, nobody listens."""
    bus = await omnipotent_bus(mesh, "a")
    got: list[Message] = []
    for subject in (*WHAT_P_AT_A_HEARS, *WHAT_OTHERS_HEAR, "otela.v1.>"):
        await bus.subscribe(subject, got.append)

    async def heard() -> bool:
        for subject in WHAT_P_AT_A_HEARS:
            await hub.publish(subject, b"ours")
        return {m.subject for m in got} == set(WHAT_P_AT_A_HEARS)

    await until(heard)
    for subject in WHAT_OTHERS_HEAR:
        with pytest.raises(MeshUnavailableError, match="nobody listens"):
            await hub.request(subject, b"secret", timeout_s=5)
    assert [message for message in got if message.payload == b"secret"] == []


async def lies(mesh: TestMesh, name: str, subject: str) -> RawLeaf:
    """Have a leaf say *subject* over a link of its own; return it once the hub has read that."""
    async with raw_leaf(mesh, link(mesh), name=name) as leaf:
        assert not leaf.is_refused, leaf.lines
        leaf.say(subject, b"forged")
        await leaf.round_trip()
    return leaf


async def test_a_leaf_that_lies_is_not_believed(
    mesh: TestMesh, hub: NatsBus, heard: list[Message]
) -> None:
    """The hub checks each message against the link's own permissions."""
    for number, subject in enumerate(WHAT_OTHERS_SAY):
        await lies(mesh, f"liar{number}", subject)
    await lies(mesh, "honest", WHAT_P_AT_A_SAYS[0])
    await until(lambda: bool(heard))
    assert {message.subject for message in heard} == {WHAT_P_AT_A_SAYS[0]}


@pytest.mark.parametrize("greedy", [*WHAT_OTHERS_HEAR, "otela.v1.data.>", "otela.v1.>", ">"])
async def test_a_leaf_that_asks_for_more_gets_nothing(
    mesh: TestMesh, hub: NatsBus, greedy: str
) -> None:
    """A wildcard lets through only what is its own; an exact subject of others ends the link."""
    async with raw_leaf(mesh, link(mesh), name="greedy") as leaf:
        leaf.hear(greedy)
        leaf.hear(WHAT_P_AT_A_HEARS[0])
        await leaf.round_trip()
        for subject in WHAT_OTHERS_HEAR:
            await hub.publish(subject, b"secret")
        await hub.publish(WHAT_P_AT_A_HEARS[0], b"fence")
        await hub.close()
        await leaf.round_trip()
        assert "secret" not in leaf.lines
        assert ("fence" in leaf.lines) == (not leaf.is_refused)


@pytest.mark.parametrize("role", ["provider", "router", "registry"])
async def test_credentials_of_a_client_cannot_attach_a_server(mesh: TestMesh, role: str) -> None:
    """A server behind a provider's credentials would let in whom it likes."""
    access = mesh.access(role=role, name="new1")  # type: ignore[arg-type]
    async with raw_leaf(mesh, access, name="server") as leaf:
        assert leaf.is_refused


async def test_a_site_without_a_list_of_providers_carries_all_of_its_own() -> None:
    """And still none of another site."""
    async with TestMesh(leaves=("a",), members=()) as mesh:
        hub, bus = await omnipotent_bus(mesh), await omnipotent_bus(mesh, "a")
        heard: list[Message] = []
        await hub.subscribe("otela.v1.delta.>", heard.append)

        async def said() -> bool:
            await bus.publish("otela.v1.delta.p.b.n", b"x")
            for provider in ("p", "q"):
                await bus.publish(f"otela.v1.delta.{provider}.a.n", b"x")
            return {"otela.v1.delta.p.a.n", "otela.v1.delta.q.a.n"} <= {m.subject for m in heard}

        await until(said)
        assert "otela.v1.delta.p.b.n" not in {message.subject for message in heard}


async def test_a_member_carried_by_a_leaf_opens_it_for_that_member_alone() -> None:
    """A router at a site gets its own answers, and nobody else's there."""
    members = (Member(role=Role.ROUTER, name="router1"),)
    async with TestMesh(leaves=("a",), members=members) as mesh:
        hub, bus = await omnipotent_bus(mesh), await omnipotent_bus(mesh, "a")
        got: list[str] = []
        for name in ("router1", "router2"):
            await bus.subscribe(f"otela.v1.reply.{name}.i.>", lambda m: got.append(m.subject))

        async def answered() -> bool:
            await hub.publish("otela.v1.reply.router2.i.p.t", b"x")
            await hub.publish("otela.v1.reply.router1.i.p.t", b"x")
            return bool(got)

        await until(answered)
        assert set(got) == {"otela.v1.reply.router1.i.p.t"}


async def test_the_system_link_of_a_leaf_brings_accounts_and_nothing_else(mesh: TestMesh) -> None:
    """A site cannot watch who connects where."""
    creds = (mesh.layout.leaf("a") / "sys.creds").read_text()
    access = Access(name="leaf-a", role="leaf", servers=(mesh.url(),), credentials=creds)
    async with raw_leaf(mesh, access, name="spy") as leaf:
        leaf.hear("$SYS.ACCOUNT.>")
        leaf.hear("$SYS.>")
        await leaf.round_trip()
        leaf.lines.clear()
        # Comes and goes, of which the system account is told.
        bus = await mesh.bus(role="router", name="router9")
        await bus.close()
        await leaf.round_trip()
        assert [line for line in leaf.lines if "CONNECT" in line] == []


async def test_a_leaf_is_added_without_touching_the_hub(mesh: TestMesh) -> None:
    """The hub has never heard of the site, and lets its leaf in."""
    options = LeafOptions(site="c", hubs=(mesh.server().leaf_url.replace("nats-leaf", "nats"),))
    added = setup.add_leaf(mesh.layout, options, now=CLOCK.wall())
    creds = (added.root / "leaf.creds").read_text()
    access = Access(name="leaf-c", role="leaf", servers=(mesh.url(),), credentials=creds)
    async with raw_leaf(mesh, access, name="new") as leaf:
        assert not leaf.is_refused
