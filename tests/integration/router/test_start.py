"""A router that cannot start says why, and what to do."""

from pathlib import Path

import pytest
from tests.integration.router.conftest import MakeBench

from opentela.core.errors import ConfigError, CredentialError, PortInUseError
from opentela.mesh import access as accesses
from opentela.router import cli, shell
from opentela.router.config import ListenConfig, RouterConfig
from opentela.service import Lifecycle
from opentela.telemetry.config import HealthConfig
from opentela.testing.mesh import TestMesh


async def test_an_address_that_is_taken_is_named(make_bench: MakeBench) -> None:
    """And the field in which another can be given."""
    bench = await make_bench()
    address = bench.front.url.removeprefix("http://")
    with pytest.raises(PortInUseError, match=address) as error:
        await make_bench(listen=ListenConfig(address=address))
    assert "listen.address" in error.value.remedy


async def test_several_routers_may_share_an_address(make_bench: MakeBench) -> None:
    """When both say so."""
    first = await make_bench(listen=ListenConfig(address="127.0.0.1:0", reuse_port=True))
    address = first.front.url.removeprefix("http://")
    second = await make_bench(listen=ListenConfig(address=address, reuse_port=True))
    assert second.front.url == first.front.url


async def test_an_address_that_is_none_is_named(make_bench: MakeBench) -> None:
    """Before anything else happens."""
    with pytest.raises(ConfigError, match=r"listen\.address"):
        await make_bench(listen=ListenConfig(address="8080"))


@pytest.mark.nats
async def test_the_access_of_another_role_is_refused(tmp_path: Path) -> None:
    """With the command that makes the right one."""
    async with TestMesh() as mesh:
        file = tmp_path / "registry.toml"
        accesses.write(file, mesh.access(role="registry"))
        with pytest.raises(CredentialError, match="not of a router") as error:
            await cli.serve(Lifecycle("router"), RouterConfig(access=str(file)))
    assert "otela mesh role" in error.value.remedy


@pytest.mark.nats
async def test_a_router_serves_until_it_is_asked_to_stop(tmp_path: Path) -> None:
    """As the command runs it; a token guards its metrics on both ports."""
    token = tmp_path / "token"
    token.touch(0o600)
    token.write_text("s3cret")
    async with TestMesh() as mesh:
        file = tmp_path / "router.toml"
        accesses.write(file, mesh.access(role="router"))
        config = RouterConfig(
            access=str(file),
            listen=ListenConfig(address="127.0.0.1:0"),
            health=HealthConfig(token_file=str(token)),
        )
        life = Lifecycle("router")
        life.stopping.set()
        await cli.serve(life, config)
        await life.health.close()
    assert not life.health.is_ready


@pytest.mark.parametrize(
    ("address", "token"),
    [
        ("127.0.0.1:1", b""),
        ("localhost:1", b""),
        ("[::1]:1", b""),
        ("0.0.0.0:1", None),
        ("router.example:1", None),
    ],
)
def test_metrics_are_open_only_to_this_host(address: str, token: bytes | None) -> None:
    """Unless a token is configured, which then guards them everywhere."""
    config = RouterConfig(access="", listen=ListenConfig(address=address))
    assert shell._metrics_token(config) == token
