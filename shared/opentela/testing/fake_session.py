"""A supervisor's side of the registry's conversations, without an engine: for tests of registries.

    async with FakeSession.open(bus, owner) as session: ...

It announces its owner's claim, beats, answers probes and refutes suspicions, until told otherwise.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from opentela.core.record import Lifecycle, SignedClaim
from opentela.mesh.bus import Bus, Message
from opentela.testing.owner import Owner
from opentela.wire import control, subjects
from opentela.wire.control import Beat, Delta, Probe, ProbeReply, Verdict


class FakeSession:
    """One session on a bus.

    Attributes:
        owner: Claims for it.
        every_s: Seconds between beats.
        is_beating: Whether it beats.
        is_answering: Whether it answers probes and refutes, once they have reached it.
        verdicts: What registries have said of it.
        probes: How often it was probed.
    """

    def __init__(self, bus: Bus, owner: Owner, *, every_s: float) -> None:
        self._bus = bus
        self._tasks = asyncio.TaskGroup()
        self._interest = AsyncExitStack()
        self.owner = owner
        self.every_s = every_s
        self.is_beating = self.is_answering = True
        self.verdicts: list[Verdict] = []
        self.probes = 0

    @classmethod
    @asynccontextmanager
    async def open(
        cls, bus: Bus, owner: Owner, *, every_s: float = 0.1, announce: bool = True
    ) -> AsyncIterator["FakeSession"]:
        """Live as long as the context; it ends without a word, as a killed process does."""
        session = cls(bus, owner, every_s=every_s)
        # It stops listening first: who is asked after the tasks have ended could not answer.
        async with session._tasks as tasks, session._interest:
            for subject, handler in (
                (subjects.probe(owner.path), session._on_probe),
                (subjects.verdict(owner.path), session._on_verdict),
            ):
                subscription = await bus.subscribe(subject, handler)
                session._interest.push_async_callback(subscription.unsubscribe)
            if announce:
                await session.publish(owner.signed)
            beating = tasks.create_task(session._beat())
            try:
                yield session
            finally:
                session.freeze()
                beating.cancel()

    async def say(self, lifecycle: Lifecycle | None = None, **changes: object) -> None:
        """Claim something else and publish it."""
        await self.publish(self.owner.say(lifecycle, **changes))

    async def publish(self, signed: SignedClaim) -> None:
        """Publish a claim, be it the present one or not."""
        await self._bus.publish(
            subjects.delta(self.owner.path), control.encode(Delta(signed=signed))
        )

    async def die(self) -> None:
        """Stop listening and beating, as the mesh sees it when a process is killed."""
        self.is_beating = False
        await self._interest.aclose()

    def freeze(self) -> None:
        """Do nothing any more, but stay subscribed: as SIGSTOP does, or a half-open link."""
        self.is_beating = self.is_answering = False

    def thaw(self) -> None:
        """Go on."""
        self.is_beating = self.is_answering = True

    async def _beat(self) -> None:
        while True:
            if self.is_beating:
                beat = Beat(incarnation=self.owner.claim.incarnation, every_s=self.every_s)
                await self._bus.publish(subjects.beat(self.owner.path), control.encode(beat))
            await asyncio.sleep(self.every_s)

    def _on_probe(self, message: Message) -> None:
        probe = control.read_probe(message.payload)
        self.probes += 1
        if self.is_answering:
            self._tasks.create_task(self._answer(probe, message.reply))

    async def _answer(self, probe: Probe, reply: str) -> None:
        await self._refute(probe.suspected)
        answer = ProbeReply(sequence=probe.sequence, signed=self.owner.signed)
        await self._bus.publish(reply, control.encode(answer))

    def _on_verdict(self, message: Message) -> None:
        verdict = control.read_verdict(message.payload)
        self.verdicts.append(verdict)
        if self.is_answering:
            self._tasks.create_task(self._refute(verdict.held))

    async def _refute(self, suspected: int) -> None:
        if suspected >= self.owner.claim.incarnation:
            await self.say(incarnation=suspected + 1)
