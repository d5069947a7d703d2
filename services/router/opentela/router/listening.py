"""Where a router takes its connections: a port of its own, or a socket that outlives it.

A socket that whoever started this process holds open loses no connection when the process ends:
what came meanwhile waits in it for the next process, or is taken by another one that shares it.
The way in which it is passed is systemd's: https://www.freedesktop.org/software/systemd/man/latest/sd_listen_fds.html.
"""

import asyncio
import os
import socket
from collections.abc import Callable, Mapping
from typing import Final

from opentela.core.errors import ConfigError
from opentela.router.config import INHERITED, ListenConfig
from opentela.telemetry.health import listen_error, split_address

_BACKLOG: Final = 1024
_FIRST: Final = 3
"""Descriptors that are passed follow those of input, output and errors."""
_REMEDY: Final = "start it by a systemd socket unit, or give listen.address a host:port"


async def listen(
    config: ListenConfig, protocol: Callable[[], asyncio.Protocol], environ: Mapping[str, str]
) -> asyncio.Server:
    """Return a server that gives each new connection a protocol.

    Raises:
        PortInUseError: Somebody else listens there.
        ConfigError: The address is not one of this host, or no socket was passed.
    """
    loop = asyncio.get_running_loop()
    if config.address == INHERITED:
        return await loop.create_server(protocol, sock=inherited(environ), backlog=_BACKLOG)
    host, port = split_address(config.address, field="listen.address")
    try:
        return await loop.create_server(
            protocol, host, port, backlog=_BACKLOG, reuse_port=config.reuse_port or None
        )
    except OSError as error:
        raise listen_error(error, config.address, field="listen.address") from error


def inherited(environ: Mapping[str, str]) -> socket.socket:
    """Return the one listening socket that this process was started with.

    Raises:
        ConfigError: There is none, or more than one, or it does not listen.
    """
    for_pid, count = environ.get("LISTEN_PID", ""), environ.get("LISTEN_FDS", "")
    if count != "1" or for_pid not in {"", str(os.getpid())}:
        raise ConfigError(
            "listen.address: exactly one socket must be passed to this process", remedy=_REMEDY
        )
    try:
        passed = socket.socket(fileno=os.dup(_FIRST))
        listens = passed.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    except OSError as error:
        raise ConfigError(
            "listen.address: what was passed to this process is no socket", remedy=_REMEDY
        ) from error
    if not listens or passed.type != socket.SOCK_STREAM:
        passed.close()
        raise ConfigError(
            "listen.address: the socket that was passed does not listen", remedy=_REMEDY
        )
    passed.setblocking(False)  # noqa: FBT003 - the standard library's way
    return passed


def url_of(server: asyncio.Server) -> str:
    """Return where clients connect."""
    address = server.sockets[0].getsockname()
    if not isinstance(address, tuple):
        return f"unix:{address}"
    host, port = address[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
