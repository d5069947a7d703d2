"""What tests of the mesh share: a user whom nothing forbids, to look and poke from."""

from opentela.mesh import access as accesses
from opentela.mesh import jwt, nats_bus
from opentela.mesh.access import Access
from opentela.mesh.identity import Identity
from opentela.mesh.nats_bus import NatsBus
from opentela.mesh.permissions import Permissions
from opentela.testing.mesh import CLOCK, HUB, TestMesh

EVERYTHING = Permissions(publish=(">",), subscribe=(">",))


def omnipotent(mesh: TestMesh, at: str = HUB) -> Access:
    """Return the access of a user that its own server lets do everything."""
    facts = mesh.layout.facts
    identity = Identity.new()
    issued = jwt.user(
        mesh.layout.identity("signing"),
        identity.key,
        name="omnipotent",
        account=facts.account,
        permissions=EVERYTHING,
        connects=jwt.CLIENT,
        now=CLOCK.wall(),
    )
    return Access(
        name="omnipotent",
        role="tool",
        servers=(mesh.url(at),),
        credentials=accesses.credentials(issued, identity),
    )


async def omnipotent_bus(mesh: TestMesh, at: str = HUB) -> NatsBus:
    """Return a bus of such a user, closed with the mesh."""
    return await mesh.adopt(await nats_bus.connect(omnipotent(mesh, at), name="omnipotent"))
