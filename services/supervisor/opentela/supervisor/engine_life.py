"""One launch of the engine: where it is in its life, what it was last seen doing, what to ask next.

Every question has one answer outstanding at most: the next is due a fixed time after the answer,
so that an engine that is slow to answer is not asked more for it.
"""

import math
from typing import Final

from opentela.supervisor.actions import Action, ProbeEngine, ReadLoad, ReadOffer, TellUnread
from opentela.supervisor.config import WatchConfig
from opentela.supervisor.engine_state import EngineState, Signal, advance
from opentela.supervisor.engines.base import EngineLoad, EngineOffer, LoadProgress
from opentela.supervisor.events import (
    EngineSpawned,
    EngineWrote,
    LifeEvent,
    OfferRead,
    OfferUnread,
    ProbeAnswered,
    ProbeFailed,
    ProbeTimedOut,
)
from opentela.supervisor.health import Condition, Finding, Health

_SERVABLE = (EngineState.LOADING, EngineState.READY)
_COMPLAIN_MIN_S: Final = 10.0
"""Between two words in the log on models that cannot be read, whatever the reasons are."""
_COMPLAIN_MAX_S: Final = 600.0
"""The same while the reason stays the same: it doubles up to here."""


class EngineLife:
    """The engine of one launch.

    Attributes:
        launch: Its number; what is said of another is not about this life.
        state: Where it is.
        offer: What it said last of what it serves.
        load: What its metrics said last.
        progress: What its log said last of loading.
        offer_failure: Why the latest read of the offer failed; empty when it did not.
    """

    def __init__(self, launch: int, config: WatchConfig, now: float) -> None:
        self.launch = launch
        self.state = EngineState.LAUNCHING
        self.offer: EngineOffer | None = None
        self.load = EngineLoad()
        self.progress: LoadProgress | None = None
        self.offer_failure = ""
        self._config = config
        self._health = Health(config, now)
        self._is_reading = False
        self._unread = 0
        self._complaint: TellUnread | None = None
        self._complained_of = ""
        self._complained_at = -math.inf
        self._complain_after_s = _COMPLAIN_MIN_S
        # When each question is due; infinity while it waits for its answer or its time.
        self._probe_at = math.inf
        self._offer_at = math.inf
        self._load_at = math.inf

    def move(self, signal: Signal) -> None:
        """Advance in the table.

        Raises:
            IllegalTransitionError: The table does not know it.
        """
        self.state = advance(self.state, signal)

    def carried(self, now: float, running: int, received: int) -> None:
        """Take note of the requests at the engine and the bytes that came from it."""
        self._health.carried(now, running, received)

    def observe(self, now: float, event: LifeEvent) -> None:
        """Take in what the engine did or answered."""
        match event:
            case EngineSpawned():
                self.move(Signal.SPAWNED)
                self._probe_at = now
            case EngineWrote(progress=progress):
                self._health.wrote(now)
                if self.state is EngineState.LOADING:
                    self.progress = progress or self.progress
            case ProbeAnswered() | ProbeFailed() | ProbeTimedOut():
                self._observe_probe(now, event)
            case OfferRead() | OfferUnread():
                self._observe_offer(now, event)
            case _:
                self._load_at = now + self._config.load_s
                self.load = event.load or EngineLoad()
                if self.load.tokens is not None:
                    self._health.counted(now, self.load.tokens)

    def judge(self, now: float) -> Finding:
        """Return what the evidence says; an engine that is not to serve is not judged."""
        match self.state:
            case EngineState.LOADING:
                finding = self._health.judge_loading(now)
                if finding.condition is Condition.HEALTHY and self.offer is None:
                    return Finding(Condition.UNKNOWN, self.offer_failure)
                if finding.condition is Condition.UNHEALTHY and self.offer_failure:
                    reason = f"{finding.reason}, and its models cannot be read"
                    return Finding(finding.condition, f"{reason}: {self.offer_failure}")
                return finding
            case EngineState.READY:
                return self._health.judge_ready(now)
            case _:
                return Finding(Condition.UNKNOWN)

    def asks(self, now: float) -> list[Action]:
        """Return the questions that are due."""
        due: list[Action] = []
        if self.state not in _SERVABLE:
            return due
        if self._complaint is not None:
            due.append(self._complaint)
            self._complaint = None
        if now >= self._probe_at:
            self._probe_at = math.inf
            due.append(ProbeEngine(self.launch))
        if now >= self._offer_at:
            self._offer_at = math.inf
            due.append(ReadOffer(self.launch))
        if now >= self._load_at:
            self._load_at = math.inf
            due.append(ReadLoad(self.launch))
        return due

    def next_deadline(self) -> float:
        """Return when the next question is due."""
        if self.state not in _SERVABLE:
            return math.inf
        return min(self._probe_at, self._offer_at, self._load_at)

    def _observe_probe(
        self, now: float, event: ProbeAnswered | ProbeFailed | ProbeTimedOut
    ) -> None:
        is_ready = self.state is EngineState.READY
        self._probe_at = now + (self._config.probe_s if is_ready else self._config.loading_probe_s)
        match event:
            case ProbeAnswered():
                self._health.answered(now)
                if not self._is_reading:
                    # From here on each answer sets the time of the next read.
                    self._is_reading = True
                    self._offer_at = now
            case ProbeFailed(reason=reason):
                self._health.failed(now, reason)
            case _:
                self._health.timed_out(now)

    def _observe_offer(self, now: float, event: OfferRead | OfferUnread) -> None:
        match event:
            case OfferRead(offer=offer) if offer.models or self.offer is not None:
                if self.offer is None:
                    self._load_at = now
                self.offer = offer
                self.offer_failure = ""
                self._unread = 0
                self._offer_at = now + self._config.offer_s
            case OfferRead():
                self._offer_missed(now, "it lists no model")
            case OfferUnread(reason=reason):
                self._offer_missed(now, reason)

    def _offer_missed(self, now: float, reason: str) -> None:
        self.offer_failure = reason
        self._offer_at = now + self._config.offer_retry_s
        self._unread += 1
        is_new = self._unread == 1 or reason != self._complained_of
        wait_s = _COMPLAIN_MIN_S if is_new else self._complain_after_s
        if now < self._complained_at + wait_s:
            return
        self._complain_after_s = wait_s if is_new else min(2 * wait_s, _COMPLAIN_MAX_S)
        self._complained_at, self._complained_of = now, reason
        self._complaint = TellUnread(self.launch, reason, self._unread)
