"""A view on a real mesh: subscriptions, requests and one timer around the machine."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Final

from opentela.alarm import Alarm
from opentela.core.clock import Clock
from opentela.core.errors import CredentialError, MeshUnavailableError, WireError
from opentela.core.ids import SessionId
from opentela.core.record import SessionRecord
from opentela.core.session_map import SessionMap, Verify
from opentela.core.story import StoryLine
from opentela.mesh.bus import Bus, Handler, Message
from opentela.service import SystemClock
from opentela.tasks import Tasks
from opentela.telemetry.log import get_logger
from opentela.view import machine
from opentela.view.config import ViewConfig
from opentela.view.machine import (
    AskRegistry,
    Changed,
    Event,
    Refused,
    TellRegistry,
    ViewMachine,
)
from opentela.view.refusals import Refusals
from opentela.wire import control, subjects

log: Final = get_logger()

OnChange = Callable[[list[SessionRecord]], None]
"""Called on the event loop with what is new or different; must not block."""


class View:
    """The sessions of the mesh, kept up to date while the context of `open` lasts."""

    def __init__(
        self,
        bus: Bus,
        *,
        verify: Verify,
        name: str,
        config: ViewConfig,
        clock: Clock,
        relays: bool = True,
    ) -> None:
        self._bus = bus
        self._clock = clock
        self._timeout_s = config.ask_timeout_s
        # Only spreads rounds in time: nothing here is secret.
        rng = random.Random()  # noqa: S311
        self._machine = ViewMachine(name=name, verify=verify, rng=rng, config=config, relays=relays)
        self._refusals = Refusals()
        self._listeners: list[OnChange] = []
        self._tasks = Tasks()
        self._alarm = Alarm(clock, lambda: self._feed(machine.Tick()))
        self._is_open = True
        self._caught_up = asyncio.Event()

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        bus: Bus,
        *,
        verify: Verify,
        name: str,
        config: ViewConfig | None = None,
        clock: Clock | None = None,
        relays: bool = True,
    ) -> AsyncIterator["View"]:
        """Follow the mesh over *bus*.

        Args:
            bus: How the mesh is reached.
            verify: Tells claims from lies.
            name: What registries see of the asker.
            config: How to keep up.
            clock: The system's unless given.
            relays: Whether to tell registries what they have forgotten; a tool may not.
        """
        view = cls(
            bus,
            verify=verify,
            name=name,
            config=config or ViewConfig(),
            clock=clock or SystemClock(),
            relays=relays,
        )
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(view._tasks)
            stack.callback(view._stop)
            # First listen, then ask: what changes in between arrives twice rather than never.
            for subject, handler in (
                (subjects.ALL_DELTAS, view._on_delta),
                (subjects.ALL_VERDICTS, view._on_verdict),
                (subjects.REGISTRIES, view._on_presence),
            ):
                try:
                    subscription = await bus.subscribe(subject, view._guarded(handler))
                except CredentialError as error:
                    if subject != subjects.REGISTRIES:
                        raise
                    # Access files of before do not allow it: each registry is then believed.
                    log.warning("registries_unheard", error=str(error))
                else:
                    stack.push_async_callback(subscription.unsubscribe)
            view._feed(machine.Tick())
            yield view

    @property
    def records(self) -> Mapping[SessionId, SessionRecord]:
        """Every session that has not `LEFT`."""
        return self._machine.held.living

    @property
    def held(self) -> SessionMap:
        """The whole map, tombstones included; to be read, not written."""
        return self._machine.held

    @property
    def caught_up(self) -> bool:
        """Whether the map of a registry has been taken over once."""
        return self._machine.caught_up

    @property
    def stale_since(self) -> float | None:
        """Monotonic time since which no registry has answered; None while one does."""
        return self._machine.stale_since

    def story(self, session: SessionId) -> tuple[StoryLine, ...]:
        """Return how the record of *session* came to be."""
        return self._machine.held.story(session)

    def subscribe(self, listener: OnChange) -> Callable[[], None]:
        """Call *listener* with each change from now on; return what ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    async def wait_caught_up(self) -> None:
        """Return once the map of a registry has been taken over."""
        await self._caught_up.wait()

    def mesh_back(self) -> None:
        """Compare with a registry at once: the connection was lost, and deltas with it."""
        self._feed(machine.MeshBack())

    # Events ------------------------------------------------------------------

    def _on_delta(self, message: Message) -> None:
        delta = control.read_delta(message.payload)
        path = subjects.path_of(message.subject)
        self._feed(machine.DeltaHeard(path=path, signed=delta.signed))

    def _on_verdict(self, message: Message) -> None:
        verdict = control.read_verdict(message.payload)
        path = subjects.path_of(message.subject)
        self._feed(machine.VerdictHeard(path=path, verdict=verdict))

    def _on_presence(self, message: Message) -> None:
        self._feed(machine.PresenceHeard(presence=control.read_presence(message.payload)))

    def _guarded(self, handler: Handler) -> Handler:
        def guarded(message: Message) -> None:
            try:
                handler(message)
            except WireError as error:
                self._reject(message.subject, error)

        return guarded

    def _reject(self, subject: str, error: WireError) -> None:
        kind = subject.removeprefix(subjects.ROOT).split(".")[1]
        self._refusals.message(self._clock.now(), kind=kind, subject=subject, error=error)

    def _feed(self, event: Event) -> None:
        if not self._is_open:
            return
        now = self._clock.now()
        changed: list[SessionRecord] = []
        for action in self._machine.step(now, self._clock.wall(), event):
            match action:
                case AskRegistry():
                    self._tasks.spawn(self._ask(action))
                case TellRegistry():
                    self._tasks.spawn(self._tell(action))
                case Changed(records=records):
                    changed.extend(records)
                case Refused(rejected=rejected, source=source):
                    self._refusals.records(now, rejected, source=source)
        self._alarm.set(self._machine.next_deadline())
        if self._machine.caught_up:
            self._caught_up.set()
        if changed:
            for listener in tuple(self._listeners):
                listener(changed)

    async def _tell(self, action: TellRegistry) -> None:
        # Lost with the mesh, it is wanted again by the next answer.
        with suppress(MeshUnavailableError):
            await self._bus.publish(subjects.RELAY, control.encode(action.records))

    async def _ask(self, action: AskRegistry) -> None:
        event: Event = machine.AskFailed(number=action.number)
        try:
            payload = await self._bus.request(
                subjects.SNAPSHOT, control.encode(action.ask), timeout_s=self._timeout_s
            )
            answer = control.read_snapshot_answer(payload)
            event = machine.Answered(number=action.number, answer=answer)
        except MeshUnavailableError:
            pass  # `stale_since` tells it, and the next round asks again
        except WireError as error:
            self._reject(subjects.SNAPSHOT, error)
        self._feed(event)

    def _stop(self) -> None:
        self._is_open = False
        self._alarm.close()
