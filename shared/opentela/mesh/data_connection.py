"""One connection of the data plane to one server, from its dial to its loss.

An `asyncio.Protocol` in place of tasks and queues: a message goes from the socket to its stream
in one call, and what is published within one turn of the loop leaves as one write.
"""

import asyncio
import base64
import ssl
from collections.abc import Callable, Iterable
from typing import Final, Protocol, cast

from opentela.core.errors import CredentialError, MeshUnavailableError, WireError
from opentela.mesh import nats_wire
from opentela.mesh.access import Access, Server
from opentela.mesh.nats_connection import DIAL_TIMEOUT_S, PING_EVERY_S, PINGS_LOST_MAX
from opentela.mesh.nats_wire import Info, Message, Ping, Pong, Refusal
from opentela.mesh.websocket import WebsocketClient

UNSENT_BYTES_HIGH: Final = 1024 * 1024
"""Unsent bytes above which engines are no longer read; four windows, 10 ms of a fast link."""
UNSENT_BYTES_MAX: Final = 64 * 1024 * 1024
"""Unsent bytes above which nothing more is taken; the servers' own limit for a connection."""

_CRLF: Final = b"\r\n"
_REFUSALS: Final = ("authorization violation", "authentication expired", "authentication revoked")


class Owner(Protocol):
    """Who is told what happens on a connection; called on the loop, must not raise."""

    def on_message(self, message: Message) -> None:
        """Take a message."""

    def on_congested(self, *, congested: bool) -> None:
        """Note that the link takes less than is published, or again as much."""

    def on_refusal(self, text: str) -> None:
        """Note that the server refuses something without ending the connection."""

    def on_lost(self, reason: str) -> None:
        """Note that the connection has ended against our will."""


class DataConnection(asyncio.Protocol):
    """An open connection; made by `dial`, ended by `leave` or `abandon`, or lost."""

    def __init__(self, access: Access, server: Server, owner: Owner) -> None:
        self.server: Final = server
        self._access = access
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._parser = nats_wire.Parser()
        self._transport: asyncio.Transport | None = None
        self._websocket: WebsocketClient | None = None
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._is_paused = False
        self._is_over = False
        self._max_payload = nats_wire.PAYLOAD_BYTES_MAX
        self._pings_lost = 0
        self._ping_timer: asyncio.TimerHandle | None = None
        self._info: asyncio.Future[Info] = self._loop.create_future()
        self._pongs: list[asyncio.Future[None]] = []

    @classmethod
    async def dial(
        cls, access: Access, server: Server, owner: Owner, *, name: str, subscriptions: Subscriptions
    ) -> "DataConnection":
        ...
