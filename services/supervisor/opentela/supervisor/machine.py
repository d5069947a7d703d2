"""A supervisor: one command, the engines that it starts in turn, and a session for each of them.

`step(now, wall, event)` is the only way to change it and returns what is to be done; it waits for
nothing and knows no process, socket or clock.

A session is one life in the mesh and an engine is one life on the host; they begin and end
together, with one exception: a session that the registries gave up (a partition outlasted their
grace) is followed by a new session of the same engine.
"""

import math
from collections import deque
from typing import Final, Literal

from opentela.core.record import Lifecycle, Offer
from opentela.core.rng import Rng
from opentela.supervisor.actions import (
    Action,
    Announce,
    AnswerProbe,
    AskEnd,
    CloseGateway,
    DrainGateway,
    Exit,
    LaunchEngine,
    MakeSession,
    OpenGateway,
    RetireGateway,
    SendBeat,
    StopEngine,
    TellEnd,
    TellLeftOut,
)
from opentela.supervisor.allotment import Allotment
from opentela.supervisor.claims import OwnSession, Place
from opentela.supervisor.config import SupervisorConfig
from opentela.supervisor.engine_life import EngineLife
from opentela.supervisor.engine_state import EngineState, Signal
from opentela.supervisor.engines.base import EngineOffer
from opentela.supervisor.events import (
    Carried,
    EndTold,
    EngineEnded,
    EngineEvent,
    EngineExited,
    Event,
    MeshJoined,
    ProbeArrived,
    SessionMade,
    StopAsked,
    Tick,
    VerdictArrived,
    Warned,
)
from opentela.supervisor.health import Condition
from opentela.supervisor.offer import Terms, composed, left_out, promised
from opentela.supervisor.restart import Backoff, RestartRule
from opentela.supervisor.walltime import Walltime
from opentela.wire.control import Verdict

STORY_EVENTS_MAX: Final = 64
"""What is kept of the past for `/status`: some hours of an ordinary life."""
_BEAT_JITTER: Final = 0.1
_IDLE_POLL_S: Final = 0.1
"""How late a drained session may notice that its last request ended."""
_NONCE_BYTES: Final = 8


class Machine:
    """The decisions of a supervisor.

    Attributes:
        session: The present session; the last one after its end.
        life: The engine's present life; the last one after its end.
        restarts: Engines started after the first.
        leaving: Why we go; empty while we stay.
        left_out: Models of the engine that are not offered: they found no room in a claim.
        allotment: Until when we may stay.
        story: What happened, latest last: seconds and words.
        running: Requests at the engine.
        drain_by: When those are broken off, as `step` counts time; infinity while we stay.
    """

    def __init__(
        self,
        config: SupervisorConfig,
        *,
        place: Place,
        terms: Terms,
        walltime: Walltime | None,
        rng: Rng,
        now: float,
        can_end_move: bool = False,
    ) -> None:
        self.session: OwnSession | None = None
        self.life: EngineLife | None = None
        self.restarts = -1
        self.leaving = ""
        self.left_out: tuple[str, ...] = ()
        self.story: deque[tuple[float, str]] = deque(maxlen=STORY_EVENTS_MAX)
        self._config = config
        self._place = place
        self._terms = terms
        self.allotment = Allotment(config.walltime, walltime, now, can_move=can_end_move)
        self._rng = rng
        self._rule = RestartRule(config.restart, rng)
        self._renewals = Backoff(config.restart, rng)
        self._now, self._wall = now, 0.0
        self._actions: list[Action] = []
        # Instants at which something is due; infinity when it is not.
        self._launch_at = now
        self._renew_at = self._beat_at = math.inf
        self._linger_until = self.drain_by = math.inf
        self._wants: Literal["", "launch", "renew"] = ""
        self._failure = ""
        self._composed: tuple[EngineOffer | None, Offer] = (None, Offer())
        self.running = 0
        self._has_gateway = self._is_over = False

    @property
    def state(self) -> EngineState:
        """Where the engine is in its life."""
        return self.life.state if self.life else EngineState.STOPPED

    def step(self, now: float, wall: float, event: Event) -> list[Action]:
        """Take in what happened at *now* (monotonic) and *wall* (Unix); return what to do."""
        assert now >= self._now, f"time went back by {self._now - now} s"
        self._now, self._wall = now, wall
        self._actions = []
        if not self._is_over:
            self._take_in(event)
            self._settle()
        return self._actions

    def next_deadline(self, now: float, wall: float) -> float:
        """Return the instant by which `Tick` must be stepped if nothing else is."""
        due = [self._launch_at, self._renew_at, self._beat_at, self._linger_until, self.drain_by]
        if self.life:
            due.append(self.life.next_deadline())
        if not self.leaving:
            due.append(self.allotment.next_deadline(now, wall))
        if self._is_draining():
            due.append(now + _IDLE_POLL_S)
        return min(due)

    def _take_in(self, event: Event) -> None:
        match event:
            case Tick():
                pass
            case SessionMade(key=key):
                self._begin_session(key)
            case Carried(running=running, received=received):
                self.running = running
                if self.life:
                    self.life.carried(self._now, running, received)
            case ProbeArrived():
                self._answer(event)
            case VerdictArrived(verdict=verdict):
                self._hear(verdict)
            case MeshJoined():
                if self.session:
                    self._actions.append(Announce(self.session.claim))
            case EndTold() | Warned() | StopAsked():
                self._hear_scheduler(event)
            case _:
                self._take_in_engine(event)

    def _take_in_engine(self, event: EngineEvent) -> None:
        if self.life is None or event.launch != self.life.launch:
            return
        match event:
            case EngineExited(reason=reason):
                if not self.leaving and self.life.state in (EngineState.LOADING, EngineState.READY):
                    self._give_up(self.life, reason)
            case EngineEnded():
                self._on_ended(event)
            case _:
                self.life.observe(self._now, event)

    def _settle(self) -> None:
        """Do whatever is due by now."""
        now = self._now
        if not self.leaving:
            if self.allotment.asks(now):
                self._actions.append(AskEnd())
            if self.allotment.is_used_up(self._wall):
                self._leave("the walltime ends", self.allotment.left_s(self._wall))
        if now >= self._launch_at and not self._wants:
            self._launch_at, self._wants = math.inf, "launch"
            self._actions.append(MakeSession())
        elif now >= self._renew_at and not self._wants:
            self._renew_at, self._wants = math.inf, "renew"
            self._actions.append(MakeSession())
        if self.life:
            self._settle_engine(self.life)
        if now >= self._beat_at:
            self._beat()

    def _settle_engine(self, life: EngineLife) -> None:
        finding = life.judge(self._now)
        if finding.condition in (Condition.UNHEALTHY, Condition.HUNG):
            self._fail(life, f"{finding.condition}: {finding.reason}")
        elif life.state is EngineState.LOADING and finding.condition is Condition.HEALTHY:
            life.move(Signal.SERVED)
            self._rule.served(self._now)
            self._open_gateway()
        if life.state is EngineState.READY:
            self._announce(Lifecycle.SERVING, offer=self._offer())
        elif self._is_draining() and self._may_finish():
            self._close_gateway()
            self._announce(Lifecycle.LEFT, self.leaving)
            self._actions.append(StopEngine(life.launch, self._config.engine.stop_s))
        self._actions.extend(life.asks(self._now))

    def _begin_session(self, key: str) -> None:
        wants, self._wants = self._wants, ""
        self._renew_at = math.inf
        if self.leaving:
            return
        old, nonce = self.session, self._rng.randbytes(_NONCE_BYTES)
        new = OwnSession(self._place, key=key, nonce=nonce, wall=self._wall, offer=self._offer())
        self._tell(f"session {new.claim.session} born")
        # First: requests that wait for the model are never told that nobody is about to serve it.
        self._actions.append(Announce(new.claim))
        if old:
            self._announce(Lifecycle.LEFT, old.claim.reason or "followed by a new session")
        self.session = new
        self._beat_at = self._now + self._beat_interval_s()
        if wants == "launch":
            self._failure = ""
            self.restarts += 1
            self.life = EngineLife(self.restarts, self._config.watch, self._now)
            self._actions.append(LaunchEngine(self.life.launch))
        elif self._has_gateway:
            assert old is not None
            self._open_gateway()
            self._actions.append(RetireGateway(old.path, self._config.drain.limit_s))

    def _on_ended(self, event: EngineEnded) -> None:
        assert self.life is not None
        self.life.move(Signal.ENDED)
        if self.leaving:
            self._close_gateway()
            self._exit("")
            return
        self._renew_at = math.inf
        reason = self._failure or event.reason
        if self.session and not self.session.has_ended:
            self._announce(Lifecycle.DOWN, reason)
        self._close_gateway()
        delay_s = None if event.is_hopeless else self._rule.failed(self._now)
        if delay_s is None:
            self._exit(reason)
        else:
            self._tell(f"engine starts again in {delay_s:.1f} s")
            self._launch_at = self._now + delay_s

    def _fail(self, life: EngineLife, reason: str) -> None:
        """End an engine that runs but does not serve."""
        self._failure = reason
        self._give_up(life, reason)
        self._actions.append(StopEngine(life.launch, self._config.engine.hung_stop_s))

    def _give_up(self, life: EngineLife, reason: str) -> None:
        """Tell everybody at once that nobody is to be sent there any more."""
        self._announce(Lifecycle.DOWN, reason)
        self._close_gateway()
        life.move(Signal.LEFT)

    def _leave(self, reason: str, limit_s: float) -> None:
        """End in order: refuse new work, finish what runs, stop the engine, exit."""
        if self.leaving:
            if self._is_draining():
                self.drain_by = min(self.drain_by, self._now + limit_s)
            return
        self.leaving = reason
        self._tell(f"leaving: {reason}")
        self._launch_at = self._renew_at = math.inf
        life = self.life
        match self.state:
            case EngineState.STOPPED:
                self._exit("")
            case EngineState.READY:
                assert life is not None
                assert self.session is not None
                life.move(Signal.LEFT)
                self._announce(Lifecycle.DRAINING, reason)
                self._actions.append(DrainGateway(self.session.path))
                self.drain_by = self._now + limit_s
                self._linger_until = min(self.drain_by, self._now + self._config.drain.linger_s)
            case EngineState.LAUNCHING | EngineState.LOADING:
                assert life is not None
                life.move(Signal.LEFT)
                self._announce(Lifecycle.LEFT, reason)
                self._actions.append(StopEngine(life.launch, self._config.engine.stop_s))
            case _:
                pass  # a failed engine is being stopped: its end will end us

    def _is_draining(self) -> bool:
        return bool(self.leaving) and self._has_gateway

    def _may_finish(self) -> bool:
        if self._now >= self._linger_until:
            self._linger_until = math.inf
        has_lingered = math.isinf(self._linger_until)
        return (has_lingered and not self.running) or self._now >= self.drain_by

    def _answer(self, arrived: ProbeArrived) -> None:
        session = self.session
        if session is None:
            return
        self._refute(arrived.probe.suspected)
        self._actions.append(AnswerProbe(session.path, arrived.probe.sequence, arrived.reply))

    def _hear_scheduler(self, event: EndTold | Warned | StopAsked) -> None:
        if isinstance(event, EndTold):
            self._hear_end(event.ends_at)
        elif self.allotment.is_warning_foreseen(self._wall) and isinstance(event, Warned):
            self._tell(f"warned of an end that is planned for: {event.reason}")
        else:
            self._leave(event.reason, self._config.drain.limit_s)

    def _hear_end(self, ends_at: float) -> None:
        if not self.allotment.hear(self._wall, ends_at):
            return
        self._actions.append(TellEnd(ends_at))
        self._terms = self._terms._replace(walltime_ends_at=ends_at)
        self._composed = (None, Offer())
        if self.leaving and ends_at:
            # What drains is not called back, but it can be hurried.
            self._leave(self.leaving, self.allotment.left_s(self._wall))

    def _hear(self, verdict: Verdict) -> None:
        session = self.session
        if session is None or verdict.session != session.claim.session:
            return
        if not session.is_evicted_by(verdict):
            self._refute(verdict.held)
        elif not (session.has_ended or self.leaving or self._wants or self._renew_at < math.inf):
            lived_s = self._wall - session.claim.born_at_ms / 1000
            if lived_s >= self._config.restart.steady_s:
                self._renewals.reset()
            self._tell(f"evicted by {verdict.registry}")
            self._renew_at = self._now + self._renewals.next()

    def _refute(self, held: int) -> None:
        session = self.session
        if session and session.refute(held):
            self._tell(f"refuted a suspicion with incarnation {session.claim.incarnation}")
            self._actions.append(Announce(session.claim))

    def _announce(self, lifecycle: Lifecycle, reason: str = "", offer: Offer | None = None) -> None:
        session = self.session
        if session and session.move(lifecycle, wall=self._wall, reason=reason, offer=offer):
            self._tell(f"{lifecycle.name} {reason}".strip())
            self._actions.append(Announce(session.claim))

    def _offer(self) -> Offer:
        life = self.life
        if life is None or life.offer is None or life.state is not EngineState.READY:
            return promised(self._terms)
        if life.offer is not self._composed[0]:
            self._terms = self._terms._replace(served=life.offer.models)
            self._composed = (life.offer, composed(self._terms, life.offer))
            missing = left_out(self._composed[1], life.offer)
            if missing and missing != self.left_out:
                self._actions.append(TellLeftOut(life.launch, missing))
            self.left_out = missing
        return self._composed[1]

    def _open_gateway(self) -> None:
        assert self.session is not None
        self._has_gateway = True
        self._actions.append(OpenGateway(self.session.path))

    def _close_gateway(self) -> None:
        if self._has_gateway and self.session:
            self._has_gateway = False
            self.drain_by = self._linger_until = math.inf
            self._actions.append(CloseGateway(self.session.path))

    def _beat(self) -> None:
        every_s = self._beat_interval_s()
        self._beat_at = self._now + every_s
        if self.session is None or self.session.has_left or self.life is None:
            return
        beat = self.session.beat(self.life.load, running=self.running, every_s=every_s)
        self._actions.append(SendBeat(self.session.path, beat))

    def _beat_interval_s(self) -> float:
        return self._config.beat_s * (1 + _BEAT_JITTER * (2 * self._rng.random() - 1))

    def _exit(self, reason: str) -> None:
        self._announce(Lifecycle.LEFT, reason or self.leaving)
        self._tell(f"over: {reason or self.leaving}")
        self._is_over = True
        self._actions.append(Exit(reason))

    def _tell(self, words: str) -> None:
        self.story.append((self._wall, words))
