"""What others are told to dial is where the port is, whatever its address looks like."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from opentela.core.errors import ConfigError, PortInUseError
from opentela.mesh import channel_port
from opentela.mesh.channel import Channel
from opentela.mesh.channel_port import ChannelPort, dialled_at
from opentela.mesh.channel_tls import Mode


class Where(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator says."""

    address: str
    advertised: tuple[str, ...] = ()
    tls: Mode = "off"


def refuse() -> Channel:
    """Take nobody in."""
    raise AssertionError("nobody dials here")


@asynccontextmanager
async def opened(where: Where) -> AsyncIterator[ChannelPort]:
    """Yield the port while it is open."""
    port = await channel_port.listen(refuse, where, field="x.address", name="test", wall=0.0)
    yield port
    port.server.close()


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("router.example", "router.example:7"),
        ("router.example:80", "router.example:80"),
        ("10.0.0.1", "10.0.0.1:7"),
        ("::1", "[::1]:7"),
        ("[::1]", "[::1]:7"),
        ("[::1]:80", "[::1]:80"),
    ],
)
def test_a_name_gets_the_port_that_it_lacks(name: str, address: str) -> None:
    """An address of the next protocol has colons of its own."""
    assert dialled_at(name, 7) == address


async def test_the_port_that_was_taken_is_told() -> None:
    """Not the nought that was asked for."""
    async with opened(Where(address="127.0.0.1:0", advertised=("a", "b:80"))) as port:
        number = port.server.sockets[0].getsockname()[1]
        assert port.addresses == (f"a:{number}", "b:80")
        assert port.certificate == ""


@pytest.mark.parametrize("address", ["192.0.2.1:0", "nowhere.invalid:0", "no-port"])
async def test_an_address_that_is_none_of_ours_is_named(address: str) -> None:
    """With its field."""
    with pytest.raises(ConfigError, match=r"x\.address"):
        async with opened(Where(address=address)):
            pass


async def test_a_port_that_is_taken_is_said_to_be() -> None:
    """As anywhere else."""
    taken = await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", 0)
    async with taken:
        number = taken.sockets[0].getsockname()[1]
        with pytest.raises(PortInUseError):
            async with opened(Where(address=f"127.0.0.1:{number}")):
                pass
