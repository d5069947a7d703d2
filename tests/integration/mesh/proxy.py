"""A TCP proxy that can play dead: it takes what it is sent, and nothing comes out any more."""

import asyncio
import contextlib
from collections.abc import AsyncIterator


class Proxy:
    """What stands between a client and a server.

    Attributes:
        port: Where clients dial it.
        passed: What it has passed on to the server.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._thawed = asyncio.Event()
        self._thawed.set()
        self.port = 0
        self.passed = bytearray()

    def freeze(self) -> None:
        """Stop passing anything on, with every connection left open."""
        self._thawed.clear()

    def thaw(self) -> None:
        """Pass things on again."""
        self._thawed.set()

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, target: int) -> AsyncIterator["Proxy"]:
        """Pass connections to *target* on loopback until the end of the block."""
        self = cls(target)
        tasks: set[asyncio.Task[None]] = set()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._serve(reader, writer)

        def start(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.create_task(serve(reader, writer))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            # Also of one that waited for the thaw in vain, or never began.
            task.add_done_callback(lambda _: writer.transport.abort())

        server = await asyncio.start_server(start, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for task in tuple(tasks):
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._thawed.is_set():
            await self._thawed.wait()
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._pass(reader, far_writer, self.passed))
                tasks.create_task(self._pass(far_reader, writer, bytearray()))
        except* ConnectionError:
            pass
        finally:
            for one in (writer, far_writer):
                one.transport.abort()

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, passed: bytearray
    ) -> None:
        while data := await reader.read(65536):
            await self._thawed.wait()
            passed += data
            writer.write(data)
            await writer.drain()
        writer.close()
