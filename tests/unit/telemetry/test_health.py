"""The health page: open where harmless, closed where not."""

import socket
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio

from opentela.core.errors import ConfigError, OtelaError, PortInUseError
from opentela.telemetry import health
from opentela.telemetry.config import HealthConfig
from opentela.telemetry.health import HealthPage


@pytest_asyncio.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest_asyncio.fixture
async def page() -> AsyncIterator[HealthPage]:
    made = HealthPage("router")
    yield made
    await made.close()


def token_file(tmp_path: Path, text: str = "s3cret\n", mode: int = 0o600) -> Path:
    path = tmp_path / "token"
    path.write_text(text)
    path.chmod(mode)
    return path


async def test_readiness_follows_the_service(page: HealthPage, http: aiohttp.ClientSession) -> None:
    """A probe sees 503 and the reason until the service takes work."""
    await page.open(HealthConfig())
    async with http.get(f"{page.url}/readyz") as answer:
        assert answer.status == 503
        assert (await answer.json())["reason"] == "starting"
    page.set_ready(flag=True)
    async with http.get(f"{page.url}/readyz") as answer:
        assert answer.status == 200
    async with http.get(f"{page.url}/livez") as answer:
        assert await answer.json() == {"live": True, "service": "router"}


async def test_no_page_tells_what_the_service_is_made_of(
    page: HealthPage, http: aiohttp.ClientSession
) -> None:
    """Its versions are for whoever has the token, in the metrics."""
    await page.open(HealthConfig())
    for path in ("livez", "readyz", "status", "metrics", "nothing"):
        async with http.get(f"{page.url}/{path}") as answer:
            assert "Server" not in answer.headers


async def test_status_holds_what_the_service_tells(
    page: HealthPage, http: aiohttp.ClientSession
) -> None:
    """The service's own facts stand beside readiness and address."""
    page.status = lambda: {"sessions": 3}
    await page.open(HealthConfig())
    async with http.get(f"{page.url}/status") as answer:
        body = await answer.json()
    assert body["sessions"] == 3
    assert body["url"] == page.url
    async with http.get(f"{page.url}/metrics") as answer:
        assert "process_cpu_seconds_total" in await answer.text()


async def test_a_token_guards_what_tells_more(
    page: HealthPage, http: aiohttp.ClientSession, tmp_path: Path
) -> None:
    """Probes stay open; metrics and status ask for the bearer token."""
    await page.open(HealthConfig(token_file=str(token_file(tmp_path))))
    for path, status in (("/livez", 200), ("/readyz", 503), ("/metrics", 401), ("/status", 401)):
        async with http.get(page.url + path) as answer:
            assert answer.status == status, path
    for given, status in (("Bearer s3cret", 200), ("Bearer wrong", 401), ("s3cret", 401)):
        async with http.get(f"{page.url}/status", headers={"Authorization": given}) as answer:
            assert answer.status == status, given


async def test_a_taken_port_is_named_with_its_remedy(page: HealthPage) -> None:
    """Two services on one port: the second says which port and what to do."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(PortInUseError, match=f"{address} is already in use") as caught:
            await page.open(HealthConfig(listen=address))
    assert "health.listen" in caught.value.remedy


async def test_an_address_of_another_host_is_a_mistake_in_configuration(page: HealthPage) -> None:
    """An address that this host lacks is no busy port."""
    with pytest.raises(ConfigError, match="cannot listen on 192"):
        await page.open(HealthConfig(listen="192.0.2.1:0"))


@pytest.mark.parametrize("listen", ["8080", "host", ":80", "h:x", "h:70000", "h:-1", "h:²"])
def test_addresses_are_checked(listen: str) -> None:
    """Both parts must be there and make sense."""
    with pytest.raises(ConfigError, match=r"health\.listen"):
        health.split_address(listen, field="health.listen")


def test_both_kinds_of_address_are_read() -> None:
    """A v6 address stands in brackets."""
    assert health.split_address("127.0.0.1:80", field="x") == ("127.0.0.1", 80)
    assert health.split_address("[::1]:80", field="x") == ("::1", 80)


def test_a_token_must_be_its_owners_alone(tmp_path: Path) -> None:
    """A token that others can read protects nothing."""
    with pytest.raises(OtelaError, match="readable by others"):
        health.read_token(token_file(tmp_path, mode=0o640))
    with pytest.raises(OtelaError, match="is empty"):
        health.read_token(token_file(tmp_path, text="\n"))
    with pytest.raises(OtelaError, match="No such file"):
        health.read_token(tmp_path / "none")
    assert health.read_token(token_file(tmp_path)) == b"s3cret"


def test_a_host_that_nobody_knows_is_named_in_words() -> None:
    """Numbers of the resolver are not those of the system."""
    error = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    said = health.listen_error(error, "nohost:1", field="health.listen").line()
    assert said.startswith("health.listen: cannot listen on nohost:1: Name or service not known; ")
