"""What stands for sockets, channels and the mesh where a script is played: in order, in memory.

What is sent arrives a turn of the loop later; nothing is lost but what an end does not read.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from opentela.mesh.nats_wire import NO_RESPONDERS, Message


class Wire:
    """A socket: what is written to it is for *far*."""

    def __init__(self, near: asyncio.Protocol, far: "Callable[[bytes], None]") -> None:
        self.near = near
        self.end = ""
        self._far = far
        self._loop = asyncio.get_running_loop()
        self._is_pausing = self._is_paused = False
        self._kept: deque[bytes | None] = deque()

    # What the product calls.

    def write(self, data: bytes) -> None:
        if not self.end:
            self._far(bytes(data))

    def close(self) -> None:
        self._finish("closed")

    def abort(self) -> None:
        self._finish("reset")

    def write_eof(self) -> None:
        """Note nothing: who reads to the end sees that it closes."""

    def can_write_eof(self) -> bool:
        return True

    def is_closing(self) -> bool:
        return bool(self.end)

    def pause_reading(self) -> None:
        # Loops differ in whether what was there before still comes: here it does.
        self._is_pausing = True
        self._loop.call_soon(self._pause)

    def resume_reading(self) -> None:
        self._is_pausing = self._is_paused = False
        self._loop.call_soon(self._read)

    def set_write_buffer_limits(self, **_: int) -> None:
        """Buffer nothing."""

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, _: str) -> None:
        return None

    # What the other end does.

    def feed(self, data: bytes) -> None:
        self._kept.append(data)
        self._read()

    def leave(self, *, reset: bool = False) -> None:
        """Close from the other end."""
        if not reset:
            self._kept.append(None)
            self._read()
        elif not self.end:
            self.end = "left"
            self._loop.call_soon(self.near.connection_lost, ConnectionResetError("reset"))

    def _read(self) -> None:
        while self._kept and not self._is_paused and not self.end:
            data = self._kept.popleft()
            if data is None:
                self.end = "left"
                self._loop.call_soon(self.near.connection_lost, None)
            else:
                self.near.data_received(data)

    def _pause(self) -> None:
        self._is_paused = self._is_pausing

    def _finish(self, how: str) -> None:
        if not self.end:
            self.end = how
            self._loop.call_soon(self.near.connection_lost, None)


class Mesh:
    """One server for all."""

    def __init__(self) -> None:
        self.clients: list[Client] = []

    def client(self) -> "Client":
        self.clients.append(Client(self))
        return self.clients[-1]

    def carry(self, sender: "Client", subject: str, payload: bytes, reply: str) -> None:
        heard = False
        for client in self.clients:
            for sid, (pattern, on_message, _) in tuple(client.subscriptions.items()):
                if _matches(pattern, subject):
                    heard = True
                    on_message(Message(subject, sid, reply, payload))
        if not heard and reply:
            for sid, (pattern, _, on_none) in tuple(sender.subscriptions.items()):
                if on_none is not None and _matches(pattern, reply):
                    on_none(Message(reply, sid, "", b"", NO_RESPONDERS))


class Client:
    """A connection to it."""

    is_congested = False

    def __init__(self, mesh: Mesh) -> None:
        self.subscriptions: dict[int, tuple[str, Any, Any]] = {}
        self._mesh = mesh
        self._sids = 0

    def publish(self, subject: str, payload: bytes, reply: str = "") -> bool:
        loop = asyncio.get_running_loop()
        loop.call_soon(self._mesh.carry, self, subject, payload, reply)
        return True

    def subscribe(self, subject: str, on_message: Any, *, on_no_responders: Any = None) -> int:
        self._sids += 1
        self.subscriptions[self._sids] = (subject, on_message, on_no_responders)
        return self._sids

    def unsubscribe(self, sid: int) -> None:
        self.subscriptions.pop(sid, None)

    def watch(self, _: object) -> None:
        """Always connected."""

    def unwatch(self, _: object) -> None:
        """Always connected."""

    async def round_trip(self) -> None:
        """Nothing is under way."""


class Pipe:
    """One end of a channel."""

    is_local = True
    is_congested = is_doubted = False
    unsent_bytes = 0

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self.heard_at = 0.0
        self.take: Callable[[bytes], None]
        self.far: Pipe

    def publish(self, payload: bytes) -> bool:
        asyncio.get_running_loop().call_soon(self.far.heard, payload)
        return True

    def heard(self, payload: bytes) -> None:
        self.heard_at = time.monotonic()
        self.take(payload)

    def close(self, reason: str, *, flush: bool = False) -> None:
        """Stay: tests end with both ends."""


def _matches(pattern: str, subject: str) -> bool:
    wanted, there = pattern.split("."), subject.split(".")
    if wanted[-1] == ">":
        return there[: len(wanted) - 1] == wanted[:-1] and len(there) >= len(wanted)
    return len(wanted) == len(there) and all(
        one in {"*", other} for one, other in zip(wanted, there, strict=True)
    )
