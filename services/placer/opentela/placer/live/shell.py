"""A placer on a real mesh: messages in, actions out, one timer, the solver in a thread."""

import asyncio
import random
import secrets
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Final

from opentela.alarm import Alarm
from opentela.core.clock import Clock
from opentela.core.errors import MeshUnavailableError, WireError
from opentela.core.ids import SessionId
from opentela.core.record import SessionRecord
from opentela.core.session_map import Verify
from opentela.mesh.bus import Bus, Message, Subscription
from opentela.placer.live import messages as m
from opentela.placer.live.ballot import Ballot
from opentela.placer.live.config import PlacerConfig
from opentela.placer.live.decide import Planner
from opentela.placer.live.ear import Hears, Kept
from opentela.placer.live.machine import PlacerMachine
from opentela.placer.live.report import Report
from opentela.service import SystemClock
from opentela.tasks import Tasks
from opentela.telemetry.log import get_logger
from opentela.view.refusals import Refusals
from opentela.view.shell import View
from opentela.wire import audit, command, subjects

log: Final = get_logger()

LETTERS_MAX: Final = 10_000
"""Commands and events that wait for the mesh; what is beyond is said again, or missing."""
RESIGN_S: Final = 1.0
"""At the end, how long giving the lease back may take."""
_INSTANCE_BYTES: Final = 8

OnReady = Callable[[bool, str], None]
"""Told whether the placer is well and, if not, why."""


class PlacerShell:
    """One placer that decides while the context of `open` lasts."""

    def __init__(
        self,
        bus: Bus,
        *,
        name: str,
        config: PlacerConfig,
        planner: Planner,
        on_ready: OnReady,
        clock: Clock,
    ) -> None:
        self._bus = bus
        self._name = name
        self._planner = planner
        self._on_ready = on_ready
        self._clock = clock
        self._instance = secrets.token_hex(_INSTANCE_BYTES)
        # Makes ids that are only unique: nothing here is secret.
        rng = random.Random()  # noqa: S311
        self._machine = PlacerMachine(
            config,
            name=name,
            instance=self._instance,
            rng=rng,
            now=clock.now(),
            wall=clock.wall(),
        )
        self._ballot = Ballot(bus, clock=clock, answer_s=config.lease.renew_s)
        self._report = Report(self._machine)
        self._refusals = Refusals()
        self._ear: Hears = Kept(clock)
        self._letters: deque[m.Tell | m.Audit] = deque()
        self._has_letters = asyncio.Event()
        self._epoch = -1
        self._replies: Subscription | None = None
        self._tasks = Tasks()
        self._alarm = Alarm(clock, lambda: self._feed(m.Tick()))
        self._is_open = True
        self._view: View | None = None

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        bus: Bus,
        *,
        name: str,
        verify: Verify,
        config: PlacerConfig,
        planner: Planner,
        on_ready: OnReady,
        ear: Hears | None = None,
        clock: Clock | None = None,
    ) -> AsyncIterator["PlacerShell"]:
        """Decide over *bus* as the placer *name*.

        What was used is heard by *ear*; over *bus*, too, if there is none.

        Raises:
            CredentialError: The mesh does not allow what a placer does.
        """
        clock = clock or SystemClock()
        shell = cls(bus, name=name, config=config, planner=planner, on_ready=on_ready, clock=clock)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(shell._forget_replies)
            if ear is None:
                shell._ear = kept = Kept(clock)
                subscription = await bus.subscribe(subjects.USAGE, kept.hear)
                stack.push_async_callback(subscription.unsubscribe)
            else:
                shell._ear = ear
            view = shell._view = await stack.enter_async_context(
                View.open(bus, verify=verify, name=name, config=config.view, clock=clock)
            )
            await stack.enter_async_context(shell._tasks)
            stack.callback(shell._stop)
            stack.push_async_callback(shell._resign)
            stack.callback(view.subscribe(shell._on_change))
            shell._tasks.spawn(shell._send())
            shell._tasks.spawn(shell._await_view(view))
            shell._on_change(list(view.records.values()))
            yield shell

    def status(self) -> dict[str, object]:
        """Return what `/status` tells."""
        told = self._machine.status(self._clock.now(), self._clock.wall())
        return {"name": self._name, **told}

    def mesh_back(self) -> None:
        """Take note that the connection to the mesh was lost and is back."""
        if self._view is not None:
            self._view.mesh_back()

    # In ----------------------------------------------------------------------

    def _on_change(self, changed: list[SessionRecord]) -> None:
        is_whole = self._view is not None and self._view.caught_up
        self._feed(m.Changed(records=tuple(changed), is_whole=is_whole))

    async def _await_view(self, view: View) -> None:
        await view.wait_caught_up()
        self._feed(m.Changed(is_whole=True))

    def _on_reply(self, epoch: int, message: Message) -> None:
        if not message.payload:
            return  # nobody listens there; the command is said again
        *_, provider, agent = message.subject.split(".")
        try:
            holding = command.read_holding(message.payload)
        except WireError as error:
            self._reject("reply", message.subject, error)
            return
        self._feed(m.Held(epoch=epoch, provider=provider, agent=SessionId(agent), holding=holding))

    def _reject(self, kind: str, subject: str, error: WireError) -> None:
        self._refusals.message(self._clock.now(), kind=kind, subject=subject, error=error)

    def _feed(self, event: m.Event) -> None:
        if not self._is_open:
            return
        if records := self._ear.take():
            # All at once: there may be thousands a second.
            self._step(m.Used(records=records))
        self._report.lost_usage(self._ear.lost)
        self._report.differs(self._machine.differs_from())
        self._step(event)
        reason = self._machine.why_not()
        self._on_ready(not reason, reason)
        self._alarm.set(self._machine.next_deadline())

    def _step(self, event: m.Event) -> None:
        for action in self._machine.step(self._clock.now(), self._clock.wall(), event):
            match action:
                case m.AskBucket():
                    self._tasks.spawn(self._ask_bucket(action))
                case m.Plan():
                    self._tasks.spawn(self._plan(action))
                case m.Tell() | m.Audit():
                    self._post(action)

    # Out ---------------------------------------------------------------------

    async def _ask_bucket(self, ask: m.AskBucket) -> None:
        self._feed(m.Elected(event=await self._ballot.ask(ask.action)))

    async def _plan(self, plan: m.Plan) -> None:
        began_at = self._clock.now()
        decided = await asyncio.to_thread(self._planner.answer, plan.question)
        self._report.solved(self._clock.now() - began_at)
        self._feed(m.Planned(number=plan.number, decided=decided))

    def _post(self, letter: m.Tell | m.Audit) -> None:
        if isinstance(letter, m.Audit):
            self._report.told(letter.event)
        if len(self._letters) < LETTERS_MAX:
            self._letters.append(letter)
            self._has_letters.set()

    async def _send(self) -> None:
        while True:
            while self._letters:
                await self._send_one(self._letters.popleft())
            self._has_letters.clear()
            await self._has_letters.wait()

    async def _send_one(self, letter: m.Tell | m.Audit) -> None:
        if isinstance(letter, m.Audit):
            payload = audit.encode(letter.event)
            await self._bus.publish(subjects.audit(self._name), payload)
            return
        # What was decided in an earlier time as leader is not to be done any more.
        if letter.epoch != self._machine.epoch:
            return
        await self._listen(letter.epoch)
        if not self._machine.may_act(self._clock.now()):
            return  # paused for longer than the lease, it does not know yet
        path = letter.path
        await self._bus.publish(
            subjects.command(path),
            command.encode(letter.command),
            reply=subjects.reply(
                self._name, path.provider, self._instance_of(letter.epoch), path.session
            ),
        )

    def _instance_of(self, epoch: int) -> str:
        return f"{self._instance}-{epoch}"

    async def _listen(self, epoch: int) -> None:
        """Hear answers to commands of *epoch*, and of no other any more."""
        if epoch == self._epoch:
            return
        await self._forget_replies()
        self._epoch = epoch
        self._replies = await self._bus.subscribe(
            subjects.replies(self._name, self._instance_of(epoch)),
            lambda message: self._on_reply(epoch, message),
        )

    async def _forget_replies(self) -> None:
        subscription, self._replies = self._replies, None
        if subscription is not None:
            await subscription.unsubscribe()

    # Life --------------------------------------------------------------------

    async def _resign(self) -> None:
        """Give the lease back and say so; everything else has been said."""
        self._is_open = False
        actions = self._machine.step(self._clock.now(), self._clock.wall(), m.Leaving())
        with suppress(TimeoutError, MeshUnavailableError):
            async with asyncio.timeout(RESIGN_S):
                for action in actions:
                    if isinstance(action, m.AskBucket):
                        await self._ballot.ask(action.action)
                    elif isinstance(action, m.Audit):
                        self._report.told(action.event)
                        await self._send_one(action)

    def _stop(self) -> None:
        self._is_open = False
        self._alarm.close()
