"""What all exchanges of a router share."""

import asyncio
from typing import Final

from opentela.core.clock import Clock
from opentela.core.ids import SessionId
from opentela.core.rng import Rng
from opentela.router.alarms import Alarms
from opentela.router.choosing import Chooser, Held
from opentela.router.config import RouterConfig
from opentela.router.directory import Candidate
from opentela.router.fault import Fault
from opentela.router.forecasts import Forecasts
from opentela.router.journal import Journal
from opentela.router.matching import Wish
from opentela.router.outcomes import Outcomes
from opentela.router.policies.base import Call, Policy
from opentela.router.ports import Link
from opentela.router.retries import RetryBudget
from opentela.router.sightings import Sightings
from opentela.router.stopwatch import Stopwatch
from opentela.router.waiting import ASKED_MAX, Waiting

_ID_BYTES: Final = 12
_CORS: Final = (
    b"access-control-allow-origin: %b\r\n"
    b"access-control-expose-headers: x-request-id, retry-after, x-otela-session, x-otela-site,"
    b" x-otela-attempts, x-otela-fingerprint\r\n%b"
)


class Desk:
    """The parts, and how many requests are under way."""

    def __init__(
        self,
        *,
        config: RouterConfig,
        name: str,
        link: Link,
        chooser: Chooser,
        policy: Policy,
        outcomes: Outcomes,
        sightings: Sightings,
        journal: Journal,
        waiting: Waiting,
        clock: Clock,
        rng: Rng,
    ) -> None:
        self.config = config
        self.name = name
        self.link = link
        self.chooser = chooser
        self.policy = policy
        self.outcomes = outcomes
        self.sightings = sightings
        self.journal = journal
        self.forecasts = Forecasts()
        self.clock = clock
        self.rng = rng
        self.alarms = Alarms()
        self.has_sighted = asyncio.Event()
        self.waiting = waiting
        self.budget = RetryBudget(config.attempts)
        self.in_flight = 0
        self._on_idle: asyncio.Event | None = None
        self._cors_any = "*" in config.listen.cors_origins
        self._cors = frozenset(origin.encode() for origin in config.listen.cors_origins)

    def new_id(self) -> str:
        """Return what no other request is called."""
        return self.rng.randbytes(_ID_BYTES).hex()

    def left(self) -> None:
        """Count a request out."""
        self.in_flight -= 1
        assert self.in_flight >= 0, "a request ended twice"
        if self._on_idle is not None and not self.in_flight:
            self._on_idle.set()

    async def wait_idle(self) -> None:
        """Return when no request is under way."""
        self._on_idle = self._on_idle or asyncio.Event()
        while self.in_flight:
            self._on_idle.clear()
            await self._on_idle.wait()

    def choose(
        self,
        call: Call,
        wish: Wish,
        stopwatch: Stopwatch | None,
        tried: tuple[SessionId, ...],
    ) -> Candidate | Fault | Held:
        """Return who is to be asked next, or why nobody is; *stopwatch* measures that."""
        now = self.clock.now()
        choice = self.chooser.choose(
            call, wish, tried, now=now, wall=self.clock.wall(), lasts=self.forecasts.lasts_s
        )
        if stopwatch is not None:
            stopwatch.chosen_s += self.clock.now() - now
        return choice

    def attempt_ended(self, session: SessionId) -> None:
        """Count an attempt out; a session that was full is offered to who waits, a turn later."""
        if self.waiting.ended(session):
            asyncio.get_running_loop().call_soon(self._offer, session)

    def _offer(self, session: SessionId) -> None:
        waiting, serves = self.waiting, self.chooser.serves
        in_vain: dict[tuple[object, ...], None] = {}
        for model in waiting.models():
            if not serves(session, model):
                continue
            for waiter in waiting.line(model):
                if waiter.wants in in_vain:
                    continue
                if len(in_vain) >= ASKED_MAX or not waiting.free(session):
                    break
                waiter.recheck()
                if waiting.waits(model, waiter):
                    in_vain[waiter.wants] = None
        waiting.free(session)

    def sessions_changed(self) -> None:
        """Let all who wait look again."""
        for model in self.waiting.models():
            for waiter in self.waiting.line(model):
                waiter.recheck()

    def cors(self, origin: bytes) -> bytes:
        """Return the header lines that let a page of *origin* read an answer."""
        if not origin or not (self._cors_any or origin in self._cors):
            return b""
        allowed = b"*" if self._cors_any else origin
        return _CORS % (allowed, b"" if self._cors_any else b"vary: origin\r\n")
