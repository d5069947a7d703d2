"""Requests to the engine beside us, each over a connection for itself.

A request takes a connection from the pool, or a new one. A pooled connection that the engine
closed just then, before a byte of the answer, is replaced once by a fresh one; later, the request
itself may be what it closed it for. Bodies that come in
parts are never sent on a pooled connection: they could not be sent again.
"""

import asyncio
import time
from typing import Final, NamedTuple, Protocol

import msgspec

from opentela.engine import head as engine_head
from opentela.engine.connection import AnswerHead, EngineConnection
from opentela.wire.frames import FailKind, Open

CLOSED_WITHIN_S: Final = 1.0
"""An engine beside us that had closed a connection lets us know at once, also when it is busy: it
is its kernel that does. Who closes it later may have begun, and died of it."""


class EngineAddress(NamedTuple):
    """Where an engine listens: TCP, or a Unix socket if *socket* is not empty."""

    host: str = "127.0.0.1"
    port: int = 0
    socket: str = ""

    @property
    def shown(self) -> str:
        """The address as a `Host` field has it."""
        if self.socket:
            return "localhost"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of the connections to one engine.

    Attributes:
        connect_timeout_s: An engine on this host accepts at once or not at all.
        idle_max: Connections kept for later requests; each costs the engine a file descriptor.
    """

    connect_timeout_s: float = 5.0
    idle_max: int = 64


class Listener(Protocol):
    """Who takes the answer; called on the loop, never after `on_failed`, an end, or an abort."""

    def on_connected(self) -> None:
        """A fresh connection stands, and the request's head is on its way."""

    def on_took(self, size: int) -> None:
        """The engine's socket took *size* bytes of the body."""

    def on_read(self, head: AnswerHead | None, data: bytes, *, ended: bool) -> None:
        """One read of the answer: its head if it was in it, data, and whether it is whole."""

    def on_failed(self, kind: FailKind, message: str) -> None:
        """The answer will not come, or not wholly."""


class EngineHttp:
    """The way to one engine."""

    def __init__(
        self,
        address: EngineAddress,
        *,
        api_key: str = "",
        settings: EngineSettings | None = None,
    ) -> None:
        self.address: Final = address
        self.settings: Final = settings or EngineSettings()
        self.api_key: Final = api_key
        self._host = address.shown
        self._idle: list[EngineConnection] = []
        self._dialling: set[asyncio.Task[None]] = set()

    def ask(self, request: Open, listener: Listener) -> "Exchange":
        """Send *request*; everything that follows is told to *listener*, after this call.

        Raises:
            WireError: The request holds what HTTP cannot carry.
        """
        head = engine_head.request_head(request, host=self._host, api_key=self.api_key)
        exchange = Exchange(self, request, head, listener)
        connection = None if request.more else self._pooled()
        if connection is None:
            self.dial(exchange)
        else:
            exchange.connection = connection
            exchange.pooled_at = time.monotonic()
            connection.begin(exchange, head + request.body)
        return exchange

    def close(self) -> None:
        """Close what is idle, and stop dialling; requests that run are aborted by their owners."""
        for connection in self._idle:
            connection.close()
        self._idle.clear()
        for task in self._dialling:
            task.cancel()

    def dial(self, exchange: "Exchange") -> None:
        """Give *exchange* a fresh connection."""
        task = asyncio.get_running_loop().create_task(self._dial(exchange))
        exchange.dialling = task
        self._dialling.add(task)
        task.add_done_callback(self._dialling.discard)

    def release(self, connection: "EngineConnection") -> None:
        """Keep *connection* for a later request, or close it."""
        if len(self._idle) < self.settings.idle_max:
            self._idle.append(connection)
        else:
            connection.close()

    def forget(self, connection: "EngineConnection") -> None:
        """Note that an idle connection is gone."""
        if connection in self._idle:
            self._idle.remove(connection)

    def _pooled(self) -> "EngineConnection | None":
        # The one used last: the others can be let go by the engine in peace.
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable:
                return connection
        return None

    async def _dial(self, exchange: "Exchange") -> None:
        loop, address = asyncio.get_running_loop(), self.address
        connection = EngineConnection(self)
        try:
            async with asyncio.timeout(self.settings.connect_timeout_s):
                if address.socket:
                    await loop.create_unix_connection(lambda: connection, address.socket)
                else:
                    await loop.create_connection(lambda: connection, address.host, address.port)
        except OSError as error:
            reason = "did not accept in time" if isinstance(error, TimeoutError) else error.strerror
            # What closed its connection under the request may have died of it.
            lost = exchange.has_retried
            kind = FailKind.ENGINE_LOST if lost else FailKind.ENGINE_UNREACHABLE
            exchange.fail(kind, f"no connection to the engine: {reason}")
            return
        exchange.dialling = None
        exchange.attach(connection)


class Exchange:
    """One request at the engine."""

    __slots__ = (
        "_early",
        "_is_over",
        "_is_paused",
        "connection",
        "dialling",
        "engine",
        "has_retried",
        "head",
        "is_sent",
        "listener",
        "pooled_at",
        "request",
    )

    def __init__(self, engine: EngineHttp, request: Open, head: bytes, listener: Listener) -> None:
        self.engine = engine
        self.request = request
        self.head = head
        self.listener = listener
        self.connection: EngineConnection | None = None
        self.dialling: asyncio.Task[None] | None = None
        self.has_retried = False
        self.pooled_at = 0.0
        self.is_sent = not request.more
        self._early: list[tuple[bytes, bool]] = []
        self._is_over = False
        self._is_paused = False

    def write(self, data: bytes, *, more: bool) -> None:
        """Send a further part of the body."""
        if self._is_over:
            return
        if self.connection is None:
            self._early.append((data, more))
            return
        self.is_sent = not more
        self.connection.write_body(self._framed(data, more=more), len(data))

    def pause(self) -> None:
        """Read no more of the answer until told; what one read holds still comes."""
        self._is_paused = True
        if self.connection is not None and not self._is_over:
            self.connection.pause()

    def resume(self) -> None:
        """Read the answer again."""
        self._is_paused = False
        if self.connection is not None and not self._is_over:
            self.connection.resume()

    def abort(self) -> None:
        """Close the connection, so that the engine stops; the listener hears nothing more."""
        if self._is_over:
            return  # the connection serves another by now
        self._is_over = True
        if self.dialling is not None:
            self.dialling.cancel()
        if self.connection is not None:
            self.connection.abort()

    # What the connection calls.

    def attach(self, connection: "EngineConnection") -> None:
        """Send what is there of the request over *connection*."""
        if self._is_over:
            connection.abort()
            return
        self.connection = connection
        request = self.request
        connection.begin(self, self.head + self._framed(request.body, more=request.more))
        if self._is_paused:
            connection.pause()
        # All that is there before anybody is told: who lends may send the next part at once.
        size = len(request.body) if request.more else 0
        for data, more in self._early:
            self.is_sent = not more
            connection.write(self._framed(data, more=more))
            size += len(data)
        self._early.clear()
        self.listener.on_connected()
        if request.more:
            connection.write_body(b"", size)

    def took(self, size: int) -> None:
        """Tell the listener that the socket took a part of the body."""
        if not self._is_over:
            self.listener.on_took(size)

    def read(self, head: AnswerHead | None, data: bytes, *, ended: bool) -> None:
        """Tell the listener of one read."""
        if not self._is_over:
            self._is_over = ended
            self.listener.on_read(head, data, ended=ended)

    def fail(self, kind: FailKind, message: str) -> None:
        """Tell the listener that nothing more comes."""
        if not self._is_over:
            self._is_over = True
            self.listener.on_failed(kind, message)

    def retry(self) -> bool:
        """Try a fresh connection if that repeats nothing; return whether it does."""
        if self.has_retried or self._is_over or self.request.more:
            return False
        if time.monotonic() > self.pooled_at + CLOSED_WITHIN_S:
            return False
        self.has_retried = True
        self.connection = None
        self.engine.dial(self)
        return True

    def _framed(self, data: bytes, *, more: bool) -> bytes:
        return engine_head.chunk(data, more=more) if engine_head.is_chunked(self.request) else data
