"""An engine made of bytes: a test decides what goes over its sockets, and when."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Self

from opentela.engine.pool import EngineAddress


class RawRequest:
    """A request as it came, and the connection on which it did."""

    def __init__(self, head: bytes, body: bytes, connection: "RawConnection") -> None:
        first, *lines = head.decode("latin-1").split("\r\n")
        self.method, self.path, _ = first.split(" ")
        self.headers = dict(line.split(": ", 1) for line in lines)
        self.body = body
        self.connection = connection

    def send(self, data: bytes) -> None:
        """Write to the connection."""
        self.connection.writer.write(data)

    async def drain(self) -> None:
        """Wait until the peer takes what was written."""
        await self.connection.writer.drain()

    def answer(self, body: bytes, *, status: str = "200 OK", fields: str = "") -> None:
        """Write a whole answer."""
        head = f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\n{fields}\r\n"
        self.send(head.encode() + body)

    def stream(self, *, fields: str = "content-type: text/event-stream\r\n") -> None:
        """Write the head of a chunked answer."""
        self.send(f"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n{fields}\r\n".encode())

    def chunk(self, data: bytes) -> None:
        """Write one chunk; an empty one ends the answer."""
        self.send(b"%x\r\n%b\r\n" % (len(data), data))

    async def gone(self) -> None:
        """Return when the peer has closed the connection, and note that."""
        with contextlib.suppress(ConnectionError):
            assert await self.connection.reader.read() == b""
        self.connection.left.set()

    def reset(self) -> None:
        """Break the connection."""
        self.connection.writer.transport.abort()

    def close(self) -> None:
        """Close the connection in order."""
        self.connection.writer.close()


class RawConnection:
    """One connection of the engine."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.closed = asyncio.Event()
        self.left = asyncio.Event()

    async def request(self) -> RawRequest | None:
        """Return the next request; None when there is none."""
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
            request = RawRequest(head[:-4], b"", self)
            if request.headers.get("transfer-encoding") == "chunked":
                request.body = await self._chunks()
            else:
                length = int(request.headers.get("content-length", "0"))
                request.body = await self.reader.readexactly(length)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        return request

    async def _chunks(self) -> bytes:
        parts = []
        while size := int(await self.reader.readline(), 16):
            parts.append(await self.reader.readexactly(size))
            await self.reader.readexactly(2)
        await self.reader.readexactly(2)
        return b"".join(parts)


Script = Callable[[RawRequest], Awaitable[None]]


class RawEngine:
    """Answers each request by a script; `requests` and `connections` are in order of arrival."""

    def __init__(self, script: Script, *, socket: Path | None = None) -> None:
        self.script = script
        self._socket = socket
        self.requests: list[RawRequest] = []
        self.connections: list[RawConnection] = []
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        if self._socket is None:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        else:
            self._server = await asyncio.start_unix_server(self._serve, self._socket)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def address(self) -> EngineAddress:
        """Where it listens."""
        assert self._server is not None
        if self._socket is not None:
            return EngineAddress(socket=str(self._socket))
        return EngineAddress("127.0.0.1", self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Listen no more, and close every connection."""
        if self._server is None:
            return
        self._server.close()
        for connection in self.connections:
            connection.writer.transport.abort()
        await self._server.wait_closed()
        for connection in self.connections:
            await connection.closed.wait()
        self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = RawConnection(reader, writer)
        self.connections.append(connection)
        try:
            while (request := await connection.request()) is not None:
                self.requests.append(request)
                await self.script(request)
        except ConnectionError:
            pass
        finally:
            writer.close()
            connection.left.set()
            connection.closed.set()
