"""Who gets in, and who is thrown out again: at the hub, at a leaf, over TLS or not."""

import asyncio
import json
from typing import Any

import msgspec
import pytest
from tests.integration.mesh.omnipotent import omnipotent

from opentela.core.errors import CredentialError, MeshUnavailableError
from opentela.mesh import nats_bus, push, server_conf, setup
from opentela.mesh.access import Access
from opentela.mesh.bus import Message
from opentela.mesh.keeper import BusState
from opentela.testing.mesh import CLOCK, HUB, TestMesh, until

pytestmark = pytest.mark.nats


async def refused(access: Access) -> CredentialError:
    """Return how *access* is refused."""
    with pytest.raises(CredentialError) as caught:
        async with await nats_bus.connect(access, name="refused", timeout_s=20):
            pass
    return caught.value


@pytest.mark.parametrize("at", [HUB, "a"])
async def test_a_client_without_credentials_is_refused(at: str) -> None:
    """Loopback is not private: a neighbour on the login node gets nothing from a leaf either."""
    async with TestMesh(leaves=("a",)) as mesh:
        reader, writer = await asyncio.open_connection("127.0.0.1", mesh.server(at).port("client"))
        writer.write(b'CONNECT {"verbose":false}\r\nSUB > 1\r\nPING\r\n')
        async with asyncio.timeout(20):
            said = await reader.read()
        writer.close()
        await writer.wait_closed()
        assert b"Authorization Violation" in said
        assert b"PONG" not in said


@pytest.mark.parametrize("at", [HUB, "a"])
async def test_credentials_of_another_mesh_are_refused(at: str) -> None:
    """The servers believe one operator."""
    async with TestMesh(leaves=("a",)) as mesh, TestMesh() as other:
        foreign = other.access(role="router")
        access = msgspec.structs.replace(foreign, servers=(mesh.url(at),))
        error = await refused(access)
        assert "refuses router router1" in str(error)
        assert "ask the operator" in error.remedy


async def test_a_key_cannot_use_the_credentials_of_another() -> None:
    """The JWT names the key that must answer the challenge."""
    async with TestMesh() as mesh:
        mine = mesh.access(role="provider", provider="p")
        registry = mesh.access(role="registry")
        mixed = registry.credentials.replace(registry.identity.seed, mine.identity.seed)
        await refused(msgspec.structs.replace(registry, credentials=mixed))


@pytest.mark.parametrize("at", [HUB, "a"])
async def test_expired_credentials_are_cut_off_and_do_not_return(at: str) -> None:
    """An allocation's credentials end with it, also in the middle of a connection."""
    async with TestMesh(leaves=("a",)) as mesh:
        states: list[tuple[BusState, str]] = []
        access = mesh.access(role="provider", provider="p", at=at, expires_in_s=3.5)
        async with await nats_bus.connect(
            access, name="p", on_state=lambda state, reason: states.append((state, reason))
        ) as bus:
            await until(lambda: bus.state is BusState.REFUSED)
        # In the very second of its end a server may let it in for a moment once more.
        assert states[0] == (BusState.CONNECTED, "")
        assert [state for state, _ in states[-2:]] == [BusState.REFUSED, BusState.CLOSED]
        assert "expired" in states[-2][1]
        error = await refused(access)
        assert "valid until 2" in error.remedy


@pytest.mark.parametrize("at", [HUB, "a"])
async def test_a_revoked_provider_is_cut_off_at_once_and_others_are_not(at: str) -> None:
    """The hub's word reaches the clients of leaf servers too."""
    async with TestMesh(leaves=("a",)) as mesh:
        bad = await mesh.bus(role="provider", provider="p", at=at)
        good = await mesh.bus(role="provider", provider="q", at=at)
        sys = mesh.access(role="sys")
        setup.revoke(mesh.layout, provider="p", now=CLOCK.wall())
        await push.accounts(sys, mesh.layout)
        await until(lambda: bad.state is BusState.REFUSED)
        assert good.is_connected
        with pytest.raises(MeshUnavailableError):
            await bad.request("otela.v1.delta.p.a.n", b"x", timeout_s=1)
        # A second one in the same second is taken as well, and a new invitation works.
        setup.revoke(mesh.layout, provider="q", now=CLOCK.wall())
        await push.accounts(sys, mesh.layout)
        await until(lambda: good.state is BusState.REFUSED)
        again = await mesh.bus(role="provider", provider="q", at=at)
        assert again.is_connected


async def test_a_revoked_leaf_is_cut_off_and_cannot_return() -> None:
    """With its site; both of its links go."""
    async with TestMesh(leaves=("a",)) as mesh:
        sys = mesh.access(role="sys")
        setup.revoke(mesh.layout, name="leaf-a", now=CLOCK.wall())
        await push.accounts(sys, mesh.layout)
        log = mesh.server("a").log
        await until(lambda: log.read_text().count("Leafnode connection closed") >= 2)
        leafs = await monitored(mesh, "/leafz")
        assert leafs["leafs"] == []


async def test_a_leaf_that_was_away_learns_of_a_revocation_when_it_is_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its clients are cut off although nobody tells it again."""
    monkeypatch.setattr(server_conf, "RESOLVER_INTERVAL", "1s")
    async with TestMesh(leaves=("a",)) as mesh:
        access = mesh.access(role="provider", provider="p", at="a")
        await mesh.server("a").kill()
        setup.revoke(mesh.layout, provider="p", now=CLOCK.wall())
        await push.accounts(mesh.access(role="sys"), mesh.layout)
        await mesh.start_again("a")
        async with await nats_bus.connect(
            msgspec.structs.replace(access, servers=(mesh.url("a"),)), name="p"
        ) as bus:
            await until(lambda: bus.state is BusState.REFUSED, timeout_s=30)


async def test_a_hub_that_starts_again_still_knows_whom_it_revoked() -> None:
    """What is pushed is also kept."""
    async with TestMesh() as mesh:
        access = mesh.access(role="provider", provider="p")
        setup.revoke(mesh.layout, provider="p", now=CLOCK.wall())
        await push.accounts(mesh.access(role="sys"), mesh.layout)
        await mesh.restart(HUB)
        await refused(access)


async def test_revoking_reaches_a_hub_that_was_down_when_it_starts_from_the_folder() -> None:
    """The folder's account is what the hub reads."""
    async with TestMesh() as mesh:
        access = mesh.access(role="provider", provider="p")
        await mesh.server().kill()
        setup.revoke(mesh.layout, provider="p", now=CLOCK.wall())
        await mesh.start_again(HUB)
        await refused(access)


async def test_whoever_pushes_what_is_no_account_is_told() -> None:
    """A damaged folder does not pass for a revocation."""
    async with TestMesh() as mesh:
        sys = mesh.access(role="sys")
        mesh.layout.write_account_jwt(mesh.layout.facts.account, "damaged")
        with pytest.raises(MeshUnavailableError, match="did not take an account"):
            await push.accounts(sys, mesh.layout)


async def test_only_the_system_user_changes_accounts() -> None:
    """A user who may do everything in the mesh's account cannot push one."""
    async with TestMesh() as mesh:
        jwt = mesh.layout.account_jwt(mesh.layout.facts.account).encode()
        async with await nats_bus.connect(omnipotent(mesh), name="o") as bus:
            with pytest.raises(MeshUnavailableError, match="nobody"):
                await bus.request(push.SUBJECT, jwt, timeout_s=1)


async def test_the_system_user_sees_leaves_come_and_go_and_no_prompts() -> None:
    """It lives in an account of its own."""
    async with TestMesh() as mesh:
        got: list[Message] = []
        sys = await mesh.bus(role="sys")
        await sys.subscribe("$SYS.ACCOUNT.*.CONNECT", got.append)
        with pytest.raises(CredentialError):
            await sys.subscribe("otela.v1.data.>", got.append)
        await mesh.bus(role="router")
        await until(lambda: any(json.loads(m.payload)["client"]["name"] == "router1" for m in got))


async def monitored(mesh: TestMesh, page: str) -> dict[str, Any]:
    """Return a page of the hub's monitoring."""
    reader, writer = await asyncio.open_connection("127.0.0.1", mesh.server().port("monitor"))
    writer.write(f"GET {page} HTTP/1.0\r\n\r\n".encode())
    body = (await reader.read()).partition(b"\r\n\r\n")[2]
    writer.close()
    await writer.wait_closed()
    return msgspec.json.decode(body, type=dict[str, Any])
