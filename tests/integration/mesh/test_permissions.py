"""The table of permissions as servers enforce it: each thing allowed works, each other one fails.

Cases come from the table, so that a new row is tested, or, while nobody has said what its subjects
look like, fails. Everything is tried at the hub and at a leaf.
"""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.integration.mesh.omnipotent import omnipotent_bus

from opentela.core.errors import CredentialError
from opentela.mesh import permissions
from opentela.mesh.bus import Message
from opentela.mesh.nats_bus import NatsBus
from opentela.mesh.permissions import TABLE, Reach, Role, Row
from opentela.testing.mesh import HUB, TestMesh, until
from opentela.wire import subjects

pytestmark = [pytest.mark.nats, pytest.mark.asyncio(loop_scope="module")]

PLACES = (HUB, "a")
PATHS = {"advice", "sighting", "delta", "beat", "probe", "verdict", "data", "command"}
"""Conversations whose subjects end with provider, site and session."""


class Desk:
    """The mesh of this module and who sits where."""

    def __init__(self, mesh: TestMesh) -> None:
        self.mesh = mesh
        self.observer: NatsBus
        self.buses: dict[tuple[Role, str], NatsBus] = {}
        self.heard: list[Message] = []

    async def open(self) -> None:
        """Seat one of each role at each place, and an observer who hears all that the hub takes."""
        self.observer = await omnipotent_bus(self.mesh)
        for row in TABLE:
            subject = permissions.pattern(row.conversation, Reach.ALL, member(Role.REGISTRY))
            await self.observer.subscribe(subject, self.heard.append)
        # A leaf hears of exactly this interest, as the real asker subscribes to it.
        for name in ("router1", "registry1", "placer1"):
            await self.observer.subscribe(subjects.replies(name, "i"), self.heard.append)
        for place in PLACES:
            for role in Role:
                self.buses[role, place] = await self.mesh.bus(
                    role=role.value, at=place, provider="p" if role is Role.PROVIDER else ""
                )

    async def is_taken(self, bus: NatsBus, place: str, subject: str) -> bool:
        """Return whether the hub takes a message from *bus*.

        What follows on the same connection and is allowed proves that it would have arrived.
        """
        fence = await self._fence(bus, place)
        self.heard.clear()
        await bus.publish(subject, b"tried")
        await bus.publish(fence, b"fence")
        await until(lambda: any(message.payload == b"fence" for message in self.heard))
        return Message(subject, b"tried") in self.heard

    async def _fence(self, bus: NatsBus, place: str) -> str:
        role = next(role for (role, at), one in self.buses.items() if (one, at) == (bus, place))
        row = next(row for row in TABLE if role in row.publish)
        fence = sample(row, role, own=True)

        async def heard() -> bool:
            await bus.publish(fence, b"warm")
            return any(message.subject == fence for message in self.heard)

        # Interest reaches a leaf after the subscription has returned.
        await until(heard)
        return fence

    async def hears(self, bus: NatsBus, subject: str) -> bool:
        """Return whether *bus* may listen to *subject*; if so, it does hear."""
        got: list[Message] = []
        try:
            subscription = await bus.subscribe(subject, got.append)
        except CredentialError:
            return False

        async def arrives() -> bool:
            await self.observer.publish(subject, b"x")
            return bool(got)

        try:
            await until(arrives)
        finally:
            await subscription.unsubscribe()
        return True


def member(role: Role) -> permissions.Member:
    """Return the member that sits in a role."""
    name = "p" if role is Role.PROVIDER else f"{role}1"
    return permissions.Member(
        role=role, name=name, provider="p" if role is Role.PROVIDER else "", site=permissions.EVERY
    )


def sample(row: Row, role: Role, *, own: bool) -> str:
    """Return a subject of a conversation that is a role's own, or another's."""
    provider = "p" if own else "q"
    name = f"{role}1" if own else "else1"
    conversation = row.conversation
    root = subjects.single(conversation)
    if conversation in PATHS:
        return f"{root}.{provider}.a.n"
    return {
        "registries": root,
        "snapshot": root,
        "relay": root,
        "usage": root,
        "gossip": f"{root}.{name}",
        "audit": f"{root}.{name}",
        "inbox": f"{root}.{name}.x.y",
        "events": f"{root}.LEFT.{provider}.a.n",
        "reply": f"{root}.router1.i.{provider}.t"
        if role is Role.PROVIDER
        else f"{root}.{name}.i.p.t",
    }[conversation]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk() -> AsyncIterator[Desk]:
    """Give a hub with a leaf and everybody seated."""
    async with TestMesh(leaves=("a",)) as mesh:
        desk = Desk(mesh)
        await desk.open()
        yield desk


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.conversation)
async def test_a_role_publishes_what_the_table_says(
    desk: Desk, row: Row, role: Role, place: str
) -> None:
    """Its own, everybody's, or nothing."""
    bus, reach = desk.buses[role, place], row.publish.get(role)
    own, foreign = sample(row, role, own=True), sample(row, role, own=False)
    assert await desk.is_taken(bus, place, own) == (reach is not None)
    if foreign != own:
        assert await desk.is_taken(bus, place, foreign) == (reach is Reach.ALL)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.conversation)
async def test_a_role_hears_what_the_table_says(
    desk: Desk, row: Row, role: Role, place: str
) -> None:
    """Its own, everybody's, or nothing."""
    bus, reach = desk.buses[role, place], row.subscribe.get(role)
    own, foreign = sample(row, role, own=True), sample(row, role, own=False)
    assert await desk.hears(bus, own) == (reach is not None)
    if foreign != own:
        assert await desk.hears(bus, foreign) == (reach is Reach.ALL)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize(
    "greedy", [">", "otela.>", "otela.v1.>", "otela.v1.*.q.>", "$SYS.>", "_INBOX.>", "$JS.>"]
)
async def test_nobody_hears_more_by_asking_for_everything(
    desk: Desk, role: Role, place: str, greedy: str
) -> None:
    """A wildcard that reaches beyond what is allowed is refused as a whole."""
    with pytest.raises(CredentialError, match="may not subscribe"):
        await desk.buses[role, place].subscribe(greedy, lambda _: None)
