"""The replicas of an agent, and which GPUs each of them holds.

A GPU is held from the moment at which a replica is accepted until no process of it is left; a
supervisor that was killed is started again on the same ones in between.
"""

import math
from collections.abc import Sequence
from typing import Final

from opentela.core.errors import UsageError
from opentela.core.ids import SessionId
from opentela.core.rng import Rng
from opentela.supervisor.agent import room
from opentela.supervisor.agent.actions import (
    LaunchReplica,
    StopReplica,
    TellEnded,
    TellRelaunch,
)
from opentela.supervisor.agent.config import AgentConfig
from opentela.supervisor.agent.events import Ended, ReplicaEnded, ReplicaSpoke, ReplicaStuck
from opentela.supervisor.engine_state import EngineState
from opentela.supervisor.restart import RestartRule
from opentela.wire.command import Replica, Start

STOPPED: Final = "stopped"
FAILED: Final = "failed"
ENDED_MAX: Final = 16
"""Replicas that have ended and are told of all the same; with 64 that live, an answer has room."""
TERM_MARGIN_S: Final = 4.0
"""A supervisor that has drained and stopped its engine in the time that it has is then gone."""
_REASON_BYTES_MAX: Final = 160
"""In whatever script it is written: an answer has room for that of every replica."""

FleetAction = LaunchReplica | StopReplica | TellEnded | TellRelaunch


class Life:
    """One replica.

    Attributes:
        start: What it runs for.
        gpus: That it holds; none once it has ended.
        launch: Of its supervisor: the first is 0.
        state: As placers are told.
        is_up: Whether there may be a process of it.
        leaving: Why it is to end; empty while it is not.
        relaunch_at: When its supervisor is started again; infinity when it is not.
        ended_at: Infinity while it has not.
    """

    def __init__(
        self, start: Start, argv: tuple[str, ...], gpus: tuple[str, ...], rule: RestartRule
    ) -> None:
        self.start = start
        self.argv = argv
        self.gpus = gpus
        self.rule = rule
        self.launch = 0
        self.state = EngineState.LAUNCHING.value
        self.session = SessionId("")
        self.reason = ""
        self.is_up = True
        self.leaving = ""
        self.relaunch_at = math.inf
        self.ended_at = math.inf

    @property
    def has_ended(self) -> bool:
        """Whether it holds nothing any more."""
        return self.ended_at < math.inf

    def told(self) -> Replica:
        """Return what placers are told of it."""
        start = self.start
        return Replica(
            start=start.command,
            template=start.template,
            model=start.model,
            tp=start.tp,
            pp=start.pp,
            gpus=self.gpus,
            state=self.state,
            session=self.session,
            reason=self.reason,
        )


class Fleet:
    """Every replica, from its start until it need not be told of any more.

    Attributes:
        gpus: All that there are.
    """

    def __init__(self, config: AgentConfig, gpus: Sequence[str], rng: Rng) -> None:
        self.gpus = tuple(gpus)
        self._config = config
        self._rng = rng
        self._lives: dict[str, Life] = {}
        self._is_closed = False
        drain, engine = config.supervisor.drain, config.supervisor.engine
        self.term_s = drain.limit_s + engine.stop_s + TERM_MARGIN_S

    @property
    def living(self) -> list[Life]:
        """Those that hold GPUs."""
        return [life for life in self._lives.values() if not life.has_ended]

    @property
    def held(self) -> frozenset[str]:
        """The GPUs that are not free."""
        return frozenset(gpu for life in self.living for gpu in life.gpus)

    def told(self) -> tuple[Replica, ...]:
        """Return what placers are told: the living, and the latest that ended."""
        return tuple(life.told() for life in self._lives.values())

    def next_deadline(self) -> float:
        """Return when something is due."""
        ended = (life.ended_at + self._config.ended_s for life in self._lives.values())
        again = (life.relaunch_at for life in self._lives.values())
        return min((*ended, *again), default=math.inf)

    def start(
        self, start: Start, argv: tuple[str, ...], *, agent: str, ends_at: float
    ) -> list[FleetAction]:
        """Run a replica on GPUs that nobody holds.

        Raises:
            UsageError: There are none, or too many replicas; says what is missing.
        """
        living = self.living
        if len(living) >= self._config.replicas_max:
            raise UsageError(f"{len(living)} replicas run here, and no more may")
        gpus = room.place(self.gpus, self.held, start.tp * start.pp)
        rule = RestartRule(self._config.supervisor.restart, self._rng)
        life = self._lives[start.command] = Life(start, argv, gpus, rule)
        return [_launch(life, agent=agent, ends_at=ends_at)]

    def stop(self, now: float, start: str, reason: str) -> list[FleetAction] | None:
        """Drain a replica and end it; None when there is no such."""
        life = self._lives.get(start)
        if life is None:
            return None
        if life.has_ended or life.leaving:
            return []
        return self._stop(now, life, reason)

    def stop_all(self, now: float, reason: str, *, term_s: float = math.inf) -> list[FleetAction]:
        """Let every replica end, those that are about to do so by then, too."""
        return [
            action
            for life in self.living
            for action in self._stop(now, life, reason, min(term_s, self.term_s))
        ]

    def close(self, now: float, reason: str) -> list[FleetAction]:
        """Start nothing again from now on."""
        self._is_closed = True
        waiting = [life for life in self.living if not life.is_up]
        return [action for life in waiting for action in self._end(now, life, STOPPED, reason)]

    def hear(self, now: float, spoke: ReplicaSpoke) -> None:
        """Take in how a replica's engine is."""
        life = self._of(spoke.start, spoke.launch)
        if life is None:
            return
        life.session = spoke.session
        if life.leaving:
            return
        # An engine that has ended while its supervisor has not is started again.
        is_down = spoke.state == EngineState.STOPPED
        state = EngineState.LAUNCHING.value if is_down else spoke.state
        if state == EngineState.READY and life.state != state:
            life.rule.served(now)
        life.state = state
        life.reason = _shortened(spoke.reason)

    def stuck(self, stuck: ReplicaStuck) -> None:
        """Take note that a replica does not free its GPUs."""
        life = self._of(stuck.start, stuck.launch)
        if life is not None:
            life.state = EngineState.DRAINING.value
            life.reason = _shortened(stuck.reason)

    def ended(self, now: float, ended: ReplicaEnded) -> list[FleetAction]:
        """Free the GPUs of a replica, or start its supervisor again."""
        life = self._of(ended.start, ended.launch)
        if life is None:
            return []
        life.is_up = False
        reason = life.leaving or _shortened(ended.reason) or life.reason
        if life.leaving or ended.how is Ended.IN_ORDER:
            return self._end(now, life, STOPPED, reason)
        may_live = ended.how is Ended.KILLED and not self._is_closed
        delay_s = life.rule.failed(now) if may_live else None
        if delay_s is None:
            return self._end(now, life, FAILED, reason)
        life.relaunch_at = now + delay_s
        life.state = EngineState.LAUNCHING.value
        life.reason = reason
        return [TellRelaunch(life.start.command, life.start.model, reason, delay_s)]

    def settle(self, now: float, *, agent: str, ends_at: float) -> list[FleetAction]:
        """Start again what is due, and forget what ended long ago."""
        ended = [name for name, life in self._lives.items() if life.has_ended]
        for place, name in enumerate(reversed(ended)):
            is_old = now >= self._lives[name].ended_at + self._config.ended_s
            if is_old or place >= ENDED_MAX:
                del self._lives[name]
        actions: list[FleetAction] = []
        for life in self.living:
            if now >= life.relaunch_at:
                life.relaunch_at = math.inf
                life.launch += 1
                life.is_up = True
                actions.append(_launch(life, agent=agent, ends_at=ends_at))
        return actions

    def _stop(
        self, now: float, life: Life, reason: str, term_s: float = math.inf
    ) -> list[FleetAction]:
        life.leaving = life.leaving or _shortened(reason) or "stopped"
        life.reason = life.leaving
        if not life.is_up:
            return self._end(now, life, STOPPED, life.leaving)
        life.state = EngineState.DRAINING.value
        return [StopReplica(life.start.command, life.launch, min(term_s, self.term_s))]

    def _end(self, now: float, life: Life, state: str, reason: str) -> list[FleetAction]:
        life.state, life.reason = state, _shortened(reason)
        life.gpus = ()
        life.ended_at = now
        life.relaunch_at = math.inf
        return [TellEnded(life.start.command, life.start.model, state, reason)]

    def _of(self, start: str, launch: int) -> Life | None:
        """Return the replica, if that is what is said of its present launch."""
        life = self._lives.get(start)
        is_present = life is not None and life.is_up and life.launch == launch
        return life if is_present else None


def _shortened(reason: str) -> str:
    # What a placer or an engine says may be long, and hold halves of characters.
    return reason.encode(errors="replace")[:_REASON_BYTES_MAX].decode(errors="ignore")


def _launch(life: Life, *, agent: str, ends_at: float) -> LaunchReplica:
    start = life.start
    return LaunchReplica(
        start.command, life.launch, start.template, life.argv, life.gpus, agent, ends_at
    )
