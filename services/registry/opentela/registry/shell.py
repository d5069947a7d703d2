"""A registry on a real mesh: messages in, actions out, one timer."""

import asyncio
import random
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from opentela.alarm import Alarm
from opentela.core.clock import Clock
from opentela.core.errors import MeshUnavailableError, WireError
from opentela.core.session_map import SessionMap, Verify
from opentela.core.warrant import Seal
from opentela.mesh.bus import Bus, Handler, Message
from opentela.registry import letters, state
from opentela.registry import messages as m
from opentela.registry.config import RegistryConfig
from opentela.registry.history import HistoryKeeper
from opentela.registry.letters import Conversation, Published
from opentela.registry.machine import RegistryMachine
from opentela.registry.outbox import Outbox
from opentela.registry.report import Report
from opentela.service import SystemClock
from opentela.tasks import Tasks
from opentela.telemetry.log import get_logger
from opentela.view.refusals import Refusals
from opentela.wire import control, subjects

log: Final = get_logger()

PAGE_TIMEOUT_S: Final = 2.0
"""For a page of a peer's map; above any round trip of the mesh."""
_INSTANCE_BYTES: Final = 8

OnReady = Callable[[bool, str], None]
"""Told whether the registry is well and, if not, why."""


class RegistryShell:
    """One registry that serves while the context of `open` lasts."""

    def __init__(
        self,
        bus: Bus,
        *,
        seal: Seal,
        verify: Verify,
        config: RegistryConfig,
        on_ready: OnReady,
        clock: Clock,
    ) -> None:
        self._bus = bus
        self._name = seal.name
        self._instance = secrets.token_hex(_INSTANCE_BYTES)
        self._retention = config.retention
        self._on_ready = on_ready
        self._clock = clock
        # Chooses peers and spreads rounds: nothing here is secret.
        rng = random.Random()  # noqa: S311
        self._machine = RegistryMachine(
            seal=seal, verify=verify, rng=rng, config=config, instance=self._instance
        )
        self._outbox = Outbox(bus)
        self._history = HistoryKeeper(bus, config.events)
        self._report = Report(self._machine)
        self._refusals = Refusals()
        self._stack = AsyncExitStack()
        self._tasks = Tasks()
        self._alarm = Alarm(clock, lambda: self._feed(m.Tick()))
        self._is_open = True

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        bus: Bus,
        *,
        seal: Seal,
        verify: Verify,
        config: RegistryConfig,
        on_ready: OnReady,
        clock: Clock | None = None,
    ) -> AsyncIterator["RegistryShell"]:
        """Serve over *bus* as the registry of *seal*, to whose name everybody addresses answers.

        Raises:
            ConfigError: The state file cannot be read.
            CredentialError: The mesh does not allow what a registry does.
        """
        shell = cls(
            bus,
            seal=seal,
            verify=verify,
            config=config,
            on_ready=on_ready,
            clock=clock or SystemClock(),
        )
        async with shell._stack:
            if config.retention.state_file:
                shell._stack.push_async_callback(shell._write_state)
            shell._stack.push_async_callback(shell._say_farewell)
            await shell._stack.enter_async_context(shell._tasks)
            shell._stack.callback(shell._stop)
            shell._restore()
            # Listen before the first question: what changes meanwhile arrives twice, not never.
            for conversation in letters.conversations(name=seal.name, instance=shell._instance):
                await shell._listen(conversation)
            shell._tasks.spawn(shell._outbox.run())
            shell._tasks.spawn(shell._history.run())
            if config.retention.state_file:
                shell._tasks.spawn(shell._keep_state())
            shell._feed(m.Tick())
            yield shell

    @property
    def held(self) -> SessionMap:
        """The map; to be read, not written."""
        return self._machine.held

    def status(self) -> dict[str, object]:
        """Return what `/status` tells."""
        status = self._machine.status(self._clock.now())
        return status | {"events_kept": self._history.why_not or "yes"}

    def mesh_changed(self, *, connected: bool) -> None:
        """Take note that the connection to the mesh was lost or is back."""
        self._feed(m.MeshBack() if connected else m.MeshLost())

    # In ----------------------------------------------------------------------

    async def _listen(self, conversation: Conversation, *, queue: str = "") -> None:
        subscription = await self._bus.subscribe(
            conversation.subject, self._handler(conversation), queue=queue
        )
        self._stack.push_async_callback(subscription.unsubscribe)

    def _handler(self, conversation: Conversation) -> Handler:
        def handle(message: Message) -> None:
            try:
                event = conversation.read(message)
            except WireError as error:
                self._reject(conversation.kind, message.subject, error)
            else:
                self._feed(event)

        return handle

    def _reject(self, kind: str, subject: str, error: Exception) -> None:
        self._refusals.message(self._clock.now(), kind=kind, subject=subject, error=error)

    def _feed(self, event: m.Event) -> None:
        if not self._is_open:
            return
        now = self._clock.now()
        for action in self._machine.step(now, self._clock.wall(), event):
            self._perform(now, action)
        self._alarm.set(self._machine.next_deadline())

    # Out ---------------------------------------------------------------------

    def _perform(self, now: float, action: m.Action) -> None:
        match action:
            case m.AskPage():
                self._tasks.spawn(self._ask(action))
            case m.ServeSnapshots():
                for conversation in letters.SERVED:
                    self._tasks.spawn(self._listen(conversation, queue=subjects.SNAPSHOT_QUEUE))
            case m.SetReady(flag=flag, reason=reason):
                self._on_ready(flag, reason)
            case m.Refused(rejected=rejected, source=source):
                self._refusals.records(now, rejected, source=source)
            case m.RefusedMessage(kind=kind, error=error):
                self._reject(kind, "", error)
            case m.NameTaken(instance=instance):
                log.error("registry_name_taken", name=self._name, instance=instance)
            case _:
                self._publish(action)

    def _publish(self, action: Published) -> None:
        letter = letters.letter(action, name=self._name, instance=self._instance)
        self._report.published(action, letter)
        self._outbox.put(letter)

    async def _ask(self, action: m.AskPage) -> None:
        event: m.Event = m.PageFailed()
        try:
            payload = await self._bus.request(
                subjects.SNAPSHOT, control.encode(action.ask), timeout_s=PAGE_TIMEOUT_S
            )
            event = letters.page_of(payload)
        except MeshUnavailableError as error:
            log.info("snapshot_unanswered", error=str(error))
        except WireError as error:
            self._reject("snapshot", subjects.SNAPSHOT, error)
        self._feed(event)

    # State -------------------------------------------------------------------

    def _restore(self) -> None:
        if not self._retention.state_file:
            return
        kept = state.read(Path(self._retention.state_file))
        if kept is not None:
            log.info("state_restored", records=len(kept.records))
            self._feed(
                m.Restored(records=kept.records, cut_ms=kept.cut_ms, horizon_ms=kept.horizon_ms)
            )

    async def _keep_state(self) -> None:
        while True:
            await asyncio.sleep(self._retention.state_every_s)
            await self._write_state()

    async def _write_state(self) -> None:
        path = Path(self._retention.state_file)
        try:
            await asyncio.to_thread(state.write, path, state.state_of(self.held))
        except OSError as error:
            # It only matters after a restart without peers; until then there is time to mend it.
            log.error("state_unwritten", path=str(path), error=str(error))  # noqa: TRY400

    # Life --------------------------------------------------------------------

    async def _say_farewell(self) -> None:
        """Publish the last word; everything that could still be said has ended."""
        now, wall = self._clock.now(), self._clock.wall()
        for action in self._machine.step(now, wall, m.Leaving()):
            if isinstance(action, m.PublishPresence):
                letter = letters.letter(action, name=self._name, instance=self._instance)
                with suppress(MeshUnavailableError):
                    await self._bus.publish(letter.subject, letter.payload)

    def _stop(self) -> None:
        self._is_open = False
        self._alarm.close()
