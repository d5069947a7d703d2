"""A mesh in memory: the verified fake of `NatsBus`, for tests of shells without a server.

One contract suite runs against both. Messages are delivered by the event loop in order, after
`latency_s` of its clock, so that a loop with virtual time makes an hour of traffic pass at once.
"""

import asyncio
import itertools
from collections import deque
from collections.abc import Mapping
from typing import Final

from opentela.core.errors import MeshUnavailableError
from opentela.mesh.bus import Handler, Message
from opentela.telemetry import log as logs
from opentela.wire import subjects

log: Final = logs.get_logger()


class MemoryMesh:
    """What the buses of one test share.

    Attributes:
        latency_s: From publish to delivery, seconds of the loop's clock.
        handler_failures: Exceptions of handlers so far.
    """

    def __init__(self, *, latency_s: float = 0.0) -> None:
        self.latency_s = latency_s
        self.handler_failures = 0
        self._subscriptions: list[_Subscription] = []
        self._on_the_way: deque[tuple[_Subscription, Message]] = deque()
        self._turns: dict[tuple[str, str], itertools.count[int]] = {}

    def bus(self, name: str) -> "MemoryBus":
        """Return a bus for a member called *name*; its inboxes live under that."""
        return MemoryBus(self, name)

    def add(self, subscription: "_Subscription") -> None:
        """Take note of an interest."""
        self._subscriptions.append(subscription)

    def remove(self, subscription: "_Subscription") -> None:
        """Forget an interest; once is enough, twice does no harm."""
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)

    def send(self, sender: "MemoryBus", message: Message) -> None:
        """Deliver *message*, or tell the sender that nobody listens."""
        targets = self._targets(message.subject)
        if not targets and message.reply:
            nobody = Message(message.reply, b"", headers={"Status": "503"})
            targets = [one for one in self._targets(message.reply) if one.bus is sender]
            message = nobody
        loop = asyncio.get_running_loop()
        for target in targets:
            if self.latency_s:
                # Timers of one instant ring in any order; messages keep theirs.
                self._on_the_way.append((target, message))
                loop.call_later(self.latency_s, self._arrive)
            else:
                loop.call_soon(target.deliver, message)

    def _arrive(self) -> None:
        target, message = self._on_the_way.popleft()
        target.deliver(message)

    def _targets(self, subject: str) -> list["_Subscription"]:
        hits = [one for one in self._subscriptions if subjects.matches(one.subject, subject)]
        chosen = [one for one in hits if not one.queue]
        groups: dict[tuple[str, str], list[_Subscription]] = {}
        for one in hits:
            if one.queue:
                groups.setdefault((one.subject, one.queue), []).append(one)
        for group, members in groups.items():
            turn = next(self._turns.setdefault(group, itertools.count()))
            chosen.append(members[turn % len(members)])
        return chosen


class _Subscription:
    """One interest of one bus."""

    def __init__(self, bus: "MemoryBus", subject: str, handler: Handler, queue: str) -> None:
        self.bus: Final = bus
        self.subject: Final = subject
        self.queue: Final = queue
        self._handler = handler

    def deliver(self, message: Message) -> None:
        """Hand one message to the handler, whose exceptions end here, as on the real bus."""
        if self not in self.bus.subscriptions:
            return
        try:
            self._handler(message)
        except Exception as error:
            self.bus.mesh.handler_failures += 1
            log.exception("mesh_handler_failed", subject=self.subject, error=repr(error))

    async def unsubscribe(self) -> None:
        """Withdraw the interest."""
        self.bus.subscriptions.pop(self, None)
        self.bus.mesh.remove(self)


class MemoryBus:
    """A member's way into a `MemoryMesh`."""

    def __init__(self, mesh: MemoryMesh, name: str) -> None:
        self.mesh: Final = mesh
        self.subscriptions: dict[_Subscription, None] = {}
        self._inbox = subjects.inbox(name)
        self._requests = itertools.count()
        self._is_closed = False

    async def publish(
        self,
        subject: str,
        payload: bytes,
        *,
        reply: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Hand a message to the mesh.

        Raises:
            MeshUnavailableError: The bus is closed.
        """
        self._require_open()
        self.mesh.send(self, Message(subject, payload, reply, headers or {}))

    async def subscribe(self, subject: str, handler: Handler, *, queue: str = "") -> _Subscription:
        """Call *handler* with each message; with *queue*, one member of the group gets it."""
        self._require_open()
        subscription = _Subscription(self, subject, handler, queue)
        self.subscriptions[subscription] = None
        self.mesh.add(subscription)
        return subscription

    async def request(
        self,
        subject: str,
        payload: bytes,
        *,
        timeout_s: float,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        """Return the first answer.

        Raises:
            MeshUnavailableError: Nobody listens there, or nobody answered in time.
        """
        self._require_open()
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        def take(message: Message) -> None:
            if not answer.done():
                answer.set_result(message.payload)

        reply = f"{self._inbox}.{next(self._requests)}"
        subscription = await self.subscribe(reply, take)
        try:
            await self.publish(subject, payload, reply=reply, headers=headers)
            async with asyncio.timeout(timeout_s):
                payload = await answer
        except TimeoutError as error:
            raise MeshUnavailableError(
                f"nobody answered on {subject} within {timeout_s:g} s"
            ) from error
        finally:
            await subscription.unsubscribe()
        if not payload:
            raise MeshUnavailableError(f"nobody listens on {subject}")
        return payload

    async def close(self) -> None:
        """Leave the mesh; what was published is on its way."""
        self._is_closed = True
        for subscription in tuple(self.subscriptions):
            await subscription.unsubscribe()

    def _require_open(self) -> None:
        if self._is_closed:
            raise MeshUnavailableError("the bus is closed")
