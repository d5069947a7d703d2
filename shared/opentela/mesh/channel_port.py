"""Where channels are dialled: a home port of a router, a door of sessions."""

import asyncio
import socket
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from opentela.mesh import channel_tls
from opentela.mesh.channel import BACKLOG, GREETING_S, Channel
from opentela.mesh.channel_tls import Mode
from opentela.telemetry.health import listen_error, split_address

_WILDCARDS: Final = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - they are looked for


class PortConfig(Protocol):
    """What an operator says of it."""

    @property
    def address(self) -> str:
        """`host:port`; port 0 takes a free one."""

    @property
    def advertised(self) -> tuple[str, ...]:
        """Names or `host:port` at which others reach it; empty for its own."""

    @property
    def tls(self) -> Mode:
        """Whether it shows a certificate."""


class ChannelPort(NamedTuple):
    """A port that is open.

    Attributes:
        addresses: What others are told to dial, in order.
        certificate: The hash of what it shows; empty without TLS.
    """

    server: asyncio.Server
    addresses: tuple[str, ...]
    certificate: str


async def listen(
    accept: Callable[[], Channel], config: PortConfig, *, field: str, name: str, wall: float
) -> ChannelPort:
    """Open a port; each connection becomes what *accept* returns.

    Args:
        accept: Makes the channel.
        config: Where.
        field: That of the address, for whoever configured it.
        name: In the certificate.
        wall: Unix time, in the certificate.

    Raises:
        PortInUseError: Somebody else listens there.
        ConfigError: The address is none, or not one of this host.
    """
    host, port = split_address(config.address, field=field)
    context, certificate = channel_tls.listening(host, config.tls, name=name, wall=wall)
    try:
        server = await asyncio.get_running_loop().create_server(
            accept,
            host,
            port,
            ssl=context,
            backlog=BACKLOG,
            ssl_handshake_timeout=GREETING_S if context else None,
        )
    except OSError as error:
        raise listen_error(error, config.address, field=field) from error
    port = server.sockets[0].getsockname()[1]
    # A wildcard is this host's own name.
    own = socket.getfqdn() if host in _WILDCARDS else host
    addresses = tuple(dialled_at(one, port) for one in config.advertised or (own,))
    return ChannelPort(server, addresses, certificate)


def dialled_at(name: str, port: int) -> str:
    """Return `host:port` for *name*, which may have a port already, or be an IPv6 address."""
    if name.count(":") > 1 and not name.startswith("["):
        name = f"[{name}]"
    has_port = ":" in name.rpartition("]")[2]
    return name if has_port else f"{name}:{port}"
