"""A leaf server that does not keep the rules: it speaks NATS's leaf protocol by hand.

An honest leaf enforces its link's permissions by itself; only this shows that the hub does too.
"""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from opentela.mesh.access import Access
from opentela.testing.mesh import TestMesh


class RawLeaf:
    """One leaf link, and what came over it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._is_cut = False
        self.lines: list[str] = []
        self.info: dict[str, Any] = {}

    async def begin(self, access: Access, name: str) -> None:
        """Log in with *access*, and read until the server has answered."""
        self.info = json.loads((await self._reader.readline()).partition(b" ")[2])
        signature = access.identity.sign(self.info["nonce"].encode())
        connect = {
            "jwt": access.jwt,
            "sig": base64.urlsafe_b64encode(signature).rstrip(b"=").decode(),
            "name": name,
            "server_id": name,
            "version": "2.15.1",
            "headers": True,
            "no_responders": True,
            "protocol": 1,
        }
        self._writer.write(f"CONNECT {json.dumps(connect)}\r\n".encode())
        await self.round_trip()

    def hear(self, subject: str) -> None:
        """Claim that somebody behind this leaf listens."""
        self._writer.write(f"LS+ {subject}\r\n".encode())

    def say(self, subject: str, payload: bytes) -> None:
        """Claim that somebody behind this leaf said something."""
        self._writer.write(b"LMSG %s %d\r\n%s\r\n" % (subject.encode(), len(payload), payload))

    async def round_trip(self) -> None:
        """Return once the server has read it all, or has hung up; `lines` holds what it said."""
        try:
            self._writer.write(b"PING\r\n")
            await self._read_until_pong()
        except ConnectionError:
            self._is_cut = True

    async def _read_until_pong(self) -> None:
        async with asyncio.timeout(20):
            while line := await self._reader.readline():
                text = line.decode(errors="replace").rstrip()
                if text == "PING":
                    self._writer.write(b"PONG\r\n")
                elif text == "PONG":
                    return
                else:
                    self.lines.append(text)

    @property
    def is_refused(self) -> bool:
        """Whether the server threw us out."""
        said_so = any(line.startswith("-ERR") for line in self.lines)
        return said_so or self._is_cut or self._reader.at_eof()


@asynccontextmanager
async def raw_leaf(mesh: TestMesh, access: Access, *, name: str) -> AsyncIterator[RawLeaf]:
    """Give a link to the hub's leaf port."""
    reader, writer = await asyncio.open_connection("127.0.0.1", mesh.server().port("leaf"))
    leaf = RawLeaf(reader, writer)
    try:
        await leaf.begin(access, name)
        yield leaf
    finally:
        writer.close()
