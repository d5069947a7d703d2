"""An HTTP client that shows bytes as they came and lets a test send what no client would."""

import asyncio
import json
from typing import Any, NamedTuple

WAIT_S = 30.0


class Response(NamedTuple):
    """One answer, parsed by hand."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def error(self) -> Any:
        """The error of an OpenAI envelope."""
        assert self.headers["content-type"] == "application/json"
        error = self.json["error"]
        assert error.keys() == {"message", "type", "param", "code"}
        return error


def post(
    body: bytes = b'{"model":"m"}',
    path: str = "/v1/chat/completions",
    *headers: str,
    version: str = "1.1",
) -> bytes:
    """Return the bytes of a request."""
    lines = [f"POST {path} HTTP/{version}", "Host: test", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def get(path: str, *headers: str, method: str = "GET") -> bytes:
    """Return the bytes of a request without a body."""
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: test", *headers, "", ""]).encode()


class Raw:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> "Raw":
        """Send bytes."""
        self.writer.write(data)
        return self

    async def ask(self, data: bytes) -> Response:
        """Send a request and return its answer."""
        return await self.send(data).answer()

    async def answer(self) -> Response:
        """Return the next answer."""
        async with asyncio.timeout(WAIT_S):
            status, headers = await self.head()
            if headers.get("transfer-encoding") == "chunked":
                assert "content-length" not in headers
                return Response(status, headers, await self._chunks())
            if "content-length" in headers:
                body = await self.reader.readexactly(int(headers["content-length"]))
                return Response(status, headers, body)
            if status in {204, 304}:
                return Response(status, headers, b"")
            return Response(status, headers, await self.reader.read())

    async def head(self) -> tuple[int, dict[str, str]]:
        """Return status and headers of the next answer; nothing may stand there twice."""
        async with asyncio.timeout(WAIT_S):
            lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        version, status, _ = lines[0].split(" ", 2)
        assert version == "HTTP/1.1"
        pairs = [line.split(": ", 1) for line in lines[1:-2]]
        headers = {name.lower(): value for name, value in pairs}
        assert len(headers) == len(pairs), f"a header stands there twice: {pairs}"
        return int(status), headers

    async def chunk(self) -> bytes:
        """Return the next chunk; empty is the last."""
        async with asyncio.timeout(WAIT_S):
            size = int(await self.reader.readuntil(b"\r\n"), 16)
            data = await self.reader.readexactly(size + 2)
        assert data.endswith(b"\r\n")
        return data[:-2]

    async def _chunks(self) -> bytes:
        body = b""
        while chunk := await self.chunk():
            body += chunk
        return body

    async def ended(self) -> bytes:
        """Return what still comes until the router closes the connection."""
        async with asyncio.timeout(WAIT_S):
            return await self.reader.read()

    def stop_reading(self) -> None:
        """Leave what comes in the kernel."""
        self.writer.transport.pause_reading()  # type: ignore[attr-defined]

    def go_on_reading(self) -> None:
        """Read again."""
        self.writer.transport.resume_reading()  # type: ignore[attr-defined]

    def abort(self) -> None:
        """Be gone, without a goodbye."""
        self.writer.transport.abort()

    async def close(self) -> None:
        """Close the connection, whatever state it is in."""
        self.writer.transport.abort()
