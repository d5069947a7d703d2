"""Reads lifecycle events from a mesh: subscriptions, questions and one timer around `Follower`."""

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from opentela.alarm import Alarm
from opentela.core.clock import Clock
from opentela.core.errors import MeshUnavailableError, WireError
from opentela.events import follower as f
from opentela.events.follower import Follower, Wanted
from opentela.mesh import access as accesses
from opentela.mesh import nats_bus
from opentela.mesh.access import Access
from opentela.mesh.bus import Bus, Message
from opentela.mesh.keeper import BusState
from opentela.service import SystemClock
from opentela.tasks import Tasks
from opentela.telemetry.log import get_logger
from opentela.wire import history, subjects
from opentela.wire.events import Kind, LifecycleEvent

log: Final = get_logger()

WAITING_MAX: Final = 10_000
"""Events that a slow reader has not taken yet, 1 KB each; more wait in the stream, if there is one,
and are lost if not."""
_ASKING_BELOW: Final = history.BATCH
"""The stream is asked for more only when no more than this wait: a month is not read at once."""
_TOKEN_BYTES: Final = 8

OnNotice = Callable[[str], None]
"""Told once, in words, if events are not kept: then there are only those that come."""


async def subscribe(
    access: Access | Path | str,
    *,
    since: timedelta | None = None,
    kinds: Collection[Kind] = (),
    wanted: Wanted | None = None,
    follow: bool = True,
    name: str = "events",
    on_notice: OnNotice | None = None,
) -> AsyncGenerator[LifecycleEvent]:
    """Yield lifecycle events, each once: stored ones first, then those that come, for ever.

    Args:
        access: A tool's access, or its file.
        since: How far back to begin; None for now.
        kinds: Only these kinds of events; any when empty.
        wanted: Narrows down models and sites as well; then *kinds* is not looked at.
        follow: Whether to go on after the stored ones.
        name: Shown by the server's monitoring.
        on_notice: Told if nobody keeps events; logged when not given.

    Raises:
        CredentialError: The access file is unusable, or refused.
        MeshUnavailableError: No server answers at the start; later it waits and goes on.
    """
    mine = access if isinstance(access, Access) else accesses.read(Path(access))
    wanted = wanted or Wanted(kinds=tuple(kinds))
    reader = Reader(mine, wanted=wanted, since=since, on_notice=on_notice)
    async with AsyncExitStack() as stack:
        await reader.open(stack, name=name)
        while (event := await reader.next(follow=follow)) is not None:
            yield event


class Reader:
    """One reader's connection, question and queue."""

    def __init__(
        self,
        access: Access,
        *,
        wanted: Wanted,
        since: timedelta | None,
        on_notice: OnNotice | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._access = access
        self._clock = clock or SystemClock()
        self._follower = Follower(since=self._start(since), wanted=wanted)
        self._on_notice = on_notice or _log_notice
        self._inbox = f"{subjects.inbox(access.name)}.{secrets.token_hex(_TOKEN_BYTES)}"
        self._tasks = Tasks()
        self._waiting: deque[LifecycleEvent] = deque()
        self._deferred: f.Ask | None = None
        self._stirred = asyncio.Event()
        self._alarm = Alarm(self._clock, lambda: self._feed(f.Tick()))
        self._has_begun = self._has_caught_up = self._is_closed = False
        self._bus: Bus

    def _start(self, since: timedelta | None) -> str:
        if since is None:
            return ""
        at = datetime.fromtimestamp(self._clock.wall(), UTC) - since
        return at.isoformat().replace("+00:00", "Z")

    async def open(self, stack: AsyncExitStack, *, name: str) -> None:
        """Connect, listen and ask, until *stack* is closed."""
        bus = await nats_bus.connect(self._access, name=name, on_state=self._on_state)
        stack.push_async_callback(bus.close)
        self._bus = bus
        await stack.enter_async_context(self._tasks)
        stack.callback(self._close)
        await bus.subscribe(f"{self._inbox}.*", self._on_answer)
        # Listening begins before the past is read, so that nothing falls between the two.
        await bus.subscribe(subjects.ALL_EVENTS, self._on_event)
        self._has_begun = True
        self._feed(f.Tick())

    async def next(self, *, follow: bool) -> LifecycleEvent | None:
        """Return the next event; None when all stored ones were, unless to *follow*."""
        while not self._waiting:
            if self._has_caught_up and not follow:
                return None
            self._stirred.clear()
            await self._stirred.wait()
        event = self._waiting.popleft()
        self._ask_deferred()
        return event

    def _on_state(self, state: BusState, _why: str) -> None:
        if state is BusState.CONNECTED and self._has_begun:
            self._feed(f.MeshBack())

    def _on_event(self, message: Message) -> None:
        if len(self._waiting) < WAITING_MAX:
            self._feed(f.Heard(message.payload))
        # Beyond that it is not told now; the stream, if there is one, is asked again for it.

    def _on_answer(self, message: Message) -> None:
        number = int(message.subject.rpartition(".")[2])
        try:
            answer = history.read(message.headers, message.payload)
        except WireError as error:
            answer = history.NoHistory(str(error))
        self._feed(f.Answered(number, answer))

    def _feed(self, event: f.Event) -> None:
        if self._is_closed:
            return
        for action in self._follower.step(self._clock.now(), event):
            self._perform(action)
        self._alarm.set(self._follower.next_deadline())

    def _perform(self, action: f.Action) -> None:
        match action:
            case f.Ask():
                self._deferred = action
                self._ask_deferred()
            case f.Tell(event=event):
                self._waiting.append(event)
                self._stirred.set()
            case f.CaughtUp(why=why):
                self._has_caught_up = True
                self._stirred.set()
                if why:
                    self._on_notice(why)
            case f.Garbled(error=error):
                log.warning("message_rejected", subject=subjects.ALL_EVENTS, error=str(error))

    def _ask_deferred(self) -> None:
        if self._deferred is not None and len(self._waiting) <= _ASKING_BELOW:
            ask, self._deferred = self._deferred, None
            self._tasks.spawn(self._ask(ask))

    async def _ask(self, ask: f.Ask) -> None:
        with suppress(MeshUnavailableError):  # closed; else it is dropped and asked again
            await self._bus.publish(
                subjects.READ_HISTORY, ask.question, reply=f"{self._inbox}.{ask.number}"
            )

    def _close(self) -> None:
        self._is_closed = True
        self._alarm.close()


def _log_notice(why: str) -> None:
    log.warning("event_history_unavailable", reason=why)
