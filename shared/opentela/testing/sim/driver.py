"""What every simulated shell does: feed a machine, perform its actions, wait for its deadline.

Also `Inbox`: request and answer over subjects, as a NATS client offers it.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from opentela.mesh.bus import Message
from opentela.testing.world_node import Node
from opentela.wire import subjects

EventT = TypeVar("EventT")
ActionT = TypeVar("ActionT")


class Driver(Generic[EventT, ActionT]):
    """One machine in one process.

    Events that come while an earlier one's actions are being performed wait for their turn, so
    that a machine is never entered twice. A timer that is set earlier than the machine now needs
    is left alone and looks again when it rings.

    *after* is called when all that was waiting has been dealt with.
    """

    def __init__(
        self,
        node: Node,
        key: str,
        *,
        step: Callable[[float, EventT], Iterable[ActionT]],
        perform: Callable[[ActionT], None],
        next_deadline: Callable[[], float | None],
        tick: EventT,
        after: Callable[[], None] | None = None,
    ) -> None:
        self._node = node
        self._key = key
        self._step = step
        self._perform = perform
        self._next_deadline = next_deadline
        self._tick = tick
        self._after = after
        self._waiting: deque[EventT] = deque()
        self._is_busy = False
        self._armed_at: float | None = None

    def feed(self, event: EventT) -> None:
        """Take an event."""
        self._waiting.append(event)
        if self._is_busy:
            return
        self._is_busy = True
        try:
            while self._waiting:
                # Each action is performed at the instant at which it was decided.
                for action in self._step(self._node.now(), self._waiting.popleft()):
                    self._perform(action)
        finally:
            self._is_busy = False
        self._arm()
        if self._after is not None:
            self._after()

    def _arm(self) -> None:
        deadline = self._next_deadline()
        if deadline is None or deadline == float("inf") or not self._node.alive:
            return
        if self._armed_at is None or deadline < self._armed_at:
            self._armed_at = deadline
            self._node.arm(self._key, deadline, self._ring)

    def _ring(self, now: float) -> None:
        self._armed_at = None
        deadline = self._next_deadline()
        if deadline is not None and deadline <= now:
            self.feed(self._tick)
        else:
            self._arm()

    def stop(self) -> None:
        """Wait for no deadline any more."""
        self._node.arm(self._key, None, self._ring)


class Inbox:
    """Questions under way from one process."""

    def __init__(self, node: Node, role: str) -> None:
        self._node = node
        self._prefix = f"{subjects.inbox(role)}.{node.name}-{node.epoch}"
        self._number = 0
        self._under_way: dict[str, Callable[[bytes | None], None]] = {}
        node.subscribe(f"{self._prefix}.*", self._on_message)

    def request(
        self,
        subject: str,
        payload: bytes,
        *,
        timeout_s: float,
        then: Callable[[bytes | None], None],
    ) -> None:
        """Ask, and call *then* once: with the first answer, or with None if there is none."""
        self._number += 1
        reply = f"{self._prefix}.{self._number}"
        self._under_way[reply] = then
        self._node.arm(reply, self._node.now() + timeout_s, lambda _now: self._end(reply, None))
        self._node.publish(subject, payload, reply=reply)

    def no_responders(self, reply: str) -> bool:
        """Take "no responders"; return whether it was about a question of this inbox."""
        if not reply.startswith(self._prefix):
            return False
        self._end(reply, None)
        return True

    def _on_message(self, message: Message) -> None:
        self._end(message.subject, message.payload)

    def _end(self, reply: str, answer: bytes | None) -> None:
        then = self._under_way.pop(reply, None)
        if then is not None:
            self._node.arm(reply, None, lambda _now: None)
            then(answer)
