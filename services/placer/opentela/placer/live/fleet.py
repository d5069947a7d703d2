"""What there is, as far as a placer knows: agents, their replicas, and engines started by hand.

Sessions come from the map that all views hold, what agents hold from their own answers. A replica
is believed to hold its GPUs from the moment at which its start is sent until its agent says that
it holds nothing, or is gone itself.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Final

from opentela.core import ids
from opentela.core.ids import SessionId
from opentela.core.record import (
    Claim,
    Lifecycle,
    SessionRecord,
    claim_of,
    is_routable,
    lifecycle_of,
)
from opentela.placer.problem import GPUS_PER_STAGE, Group
from opentela.wire import command
from opentela.wire.command import Holding, Replica, Start
from opentela.wire.subjects import SessionPath

DRAINING: Final = "draining"
STOPPED: Final = "stopped"
ENDED: Final = frozenset({STOPPED, "failed"})
LIVES_MAX: Final = 4096
"""Replicas in all."""
GPUS_MAX: Final = 1024
"""Of one agent, which is one node; whoever says more would have everything placed there."""
ENDED_MAX: Final = 4096
"""Replicas that are remembered as having ended, lest a late answer bring them back."""
_ABSENT_S: Final = 0.5
"""What an agent tells of no more has ended, if it does so twice: answers may pass one another."""


class Agent:
    """One agent.

    Attributes:
        path: Where it is told.
        ends_at: Unix seconds at which its allocation ends; infinity when it does not.
        is_live: Whether it takes commands, by its own word and the registries'.
        holding: What it said last; None before it said anything.
        heard_at: When that was.
        looked_at: When it was last asked.
        fault: Why what it says is not believed; empty while it is.
    """

    def __init__(self, claim: Claim, *, is_live: bool) -> None:
        self.path = SessionPath(claim.provider, claim.site, claim.session)
        self.is_live = is_live
        self.ends_at = claim.offer.walltime_ends_at or math.inf
        self.holding: Holding | None = None
        self.heard_at = -math.inf
        self.looked_at = -math.inf
        self.fault = ""

    @property
    def session(self) -> SessionId:
        """Its name."""
        return self.path.session

    @property
    def gpus(self) -> int:
        """How many GPUs it has."""
        return len(self.holding.gpus) if self.holding else 0

    @property
    def hardware(self) -> str:
        """Of which type."""
        return self.holding.hardware if self.holding else ""

    @property
    def pool(self) -> str:
        """The pool that it is a node of: site, GPU, how many."""
        return f"{self.path.site}/{self.hardware}/{self.gpus}"


class Life:
    """One replica, from the decision to start it until it holds nothing.

    Attributes:
        start: What was sent, or would have been for one that was found.
        agent: Who runs it.
        provider: Whose that is.
        is_known: Whether its agent has told of it or taken its start.
        stop: The id of the command to stop it; empty while it is to run.
        began_at: When it was decided on.
        down_at: Since when it does not serve; infinity while it does.
        sent_at: When a command about it was last sent.
        is_stop_taken: Whether its agent drains it.
        why: Why it is to stop.
        was_told_serving: Whether it was told that it serves.
        absent_at: Since when its agent tells of it no more; infinity while it does.
        is_aside: Whether it was started so that another of its kind can give up its place.
        has_failed: Whether it is given up.
        is_turn: Whether it was started for one who had waited for long.
    """

    def __init__(self, start: Start, agent: Agent, *, began_at: float, now: float) -> None:
        self.start = start
        self.agent = agent.session
        self.provider = agent.path.provider
        self.began_at = began_at
        self.down_at = now
        self.sent_at = -math.inf
        self.is_known = False
        self.is_stop_taken = False
        self.stop = ""
        self.why = ""
        self.was_told_serving = False
        self.absent_at = math.inf
        self.is_aside = self.has_failed = self.is_turn = False

    @property
    def model(self) -> str:
        """What it runs."""
        return self.start.model

    @property
    def gpus(self) -> int:
        """How many GPUs it holds."""
        return self.start.tp * self.start.pp

    @property
    def is_leaving(self) -> bool:
        """Whether it is to end, by our word or another's."""
        return bool(self.stop) or self.is_stop_taken

    @property
    def is_serving(self) -> bool:
        """Whether requests reach it."""
        return self.down_at == math.inf


class Engine:
    """A session that serves models.

    Attributes:
        names: That it serves, if requests reach it.
        made_by: The start that it says it was made by, if an agent runs it.
    """

    def __init__(self, claim: Claim, *, is_live: bool) -> None:
        self.provider = claim.provider
        self.site = claim.site
        self.hardware = claim.offer.hardware
        self.gpus = max(1, claim.offer.gpus)
        self.made_by = claim.offer.labels.get(command.COMMAND, "")
        offered = claim.offer.models if is_live else ()
        self.names = frozenset(name for one in offered for name in (one.name, *one.aliases))


class Fleet:
    """Everything that is known to run or to be able to.

    Args:
        names: By each name that clients use: the model.

    Attributes:
        agents: By session.
        lives: By the id of their start.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names
        self.agents: dict[SessionId, Agent] = {}
        self.lives: dict[str, Life] = {}
        self.engines: dict[SessionId, Engine] = {}
        self._ended: dict[str, None] = {}

    def life_of(self, session: SessionId) -> Life | None:
        """Return the replica whose engine has this session."""
        engine = self.engines.get(session)
        return self.lives.get(engine.made_by) if engine else None

    # Sessions

    def apply(self, now: float, changed: Iterable[SessionRecord]) -> list[tuple[Life, str]]:
        """Take in records; return replicas that ended with their agents, and why."""
        ended: list[tuple[Life, str]] = []
        for record in changed:
            claim = claim_of(record)
            if claim.offer.engine == command.ENGINE:
                ended += self._apply_agent(record, claim)
            else:
                self._apply_engine(record, claim)
        self._look_who_serves(now)
        return ended

    def _apply_agent(self, record: SessionRecord, claim: Claim) -> list[tuple[Life, str]]:
        if lifecycle_of(record) >= Lifecycle.DOWN:
            if self.agents.pop(claim.session, None) is None:
                return []
            gone = [one for one in self.lives.values() if one.agent == claim.session]
            for life in gone:
                del self.lives[life.start.command]
            return [(life, "its agent is gone") for life in gone]
        agent = self.agents.get(claim.session)
        is_live = is_routable(record)
        if agent is None:
            self.agents[claim.session] = Agent(claim, is_live=is_live)
        else:
            agent.is_live = is_live
            agent.ends_at = claim.offer.walltime_ends_at or math.inf
        return []

    def _apply_engine(self, record: SessionRecord, claim: Claim) -> None:
        if lifecycle_of(record) >= Lifecycle.DOWN:
            self.engines.pop(claim.session, None)
        else:
            self.engines[claim.session] = Engine(claim, is_live=is_routable(record))

    def _look_who_serves(self, now: float) -> None:
        serving = {(one.provider, one.made_by): one for one in self.engines.values() if one.names}
        for life in self.lives.values():
            # Of the agent's own provider: others may say what they like.
            engine = serving.get((life.provider, life.start.command))
            serves = engine is not None and any(
                self._names.get(name, name) == life.model for name in engine.names
            )
            if serves:
                life.down_at = math.inf
            elif life.is_serving:
                life.down_at = now

    # What agents say

    def hear(
        self, now: float, wall: float, agent: Agent, holding: Holding
    ) -> tuple[list[Life], list[tuple[Life, str]]]:
        """Take in what *agent* holds; return replicas that were found, and that ended, and why.

        An answer that cannot be true is none: the agent is silent then, and no place any more.
        """
        agent.fault = fault(holding)
        if agent.fault:
            return [], []
        is_first = agent.holding is None
        agent.holding, agent.heard_at = holding, now
        found: list[Life] = []
        ended: list[tuple[Life, str]] = []
        told = {one.start: one for one in holding.replicas}
        for replica in told.values():
            life = self.lives.get(replica.start)
            if replica.state in ENDED:
                if is_first and self._is_news(replica.start):
                    # It ended after whoever started it led, who can thus not have told.
                    life = _found(replica, agent, now, wall)
                self._remember_end(replica.start)
                if life is not None and life.agent == agent.session:
                    self.lives.pop(replica.start, None)
                    life.is_stop_taken = replica.state == STOPPED
                    ended.append((life, replica.reason or replica.state))
                continue
            is_news = life is None and replica.start not in self._ended
            if is_news and len(self.lives) < LIVES_MAX:
                life = self.lives[replica.start] = _found(replica, agent, now, wall)
                found.append(life)
            if life is not None and life.provider == agent.path.provider:
                # An agent that registries gave up goes on under another session.
                life.agent, life.is_known, life.absent_at = agent.session, True, math.inf
                life.is_stop_taken = replica.state == DRAINING
                life.why = life.why if life.stop else replica.reason
        ended += self._without(now, agent, told)
        self._look_who_serves(now)
        return found, ended

    def _without(
        self, now: float, agent: Agent, told: Mapping[str, Replica]
    ) -> list[tuple[Life, str]]:
        """Return what *agent* tells of no more, for long enough."""
        gone: list[tuple[Life, str]] = []
        for life in self.of_agent(agent):
            if not life.is_known or life.start.command in told:
                continue
            life.absent_at = min(life.absent_at, now)
            if now - life.absent_at >= _ABSENT_S:
                del self.lives[life.start.command]
                gone.append((life, "its agent knows nothing of it"))
        return gone

    def _is_news(self, start: str) -> bool:
        return start not in self._ended and start not in self.lives and _is_ulid(start)

    def _remember_end(self, start: str) -> None:
        self._ended[start] = None
        if len(self._ended) > ENDED_MAX:
            del self._ended[next(iter(self._ended))]

    # What follows

    def free(self, agent: Agent) -> int:
        """Return how many GPUs of *agent* nobody holds."""
        held = sum(one.gpus for one in self.lives.values() if one.agent == agent.session)
        return agent.gpus - held

    def of_agent(self, agent: Agent) -> list[Life]:
        """Return the replicas of *agent*."""
        return [one for one in self.lives.values() if one.agent == agent.session]

    def serving(self, model: str, *, besides: Life) -> int:
        """Return how many replicas serve *model* and are to go on, *besides* one."""
        ours = [
            one
            for one in self.lives.values()
            if one.model == model and one.is_serving and not one.is_leaving and one is not besides
        ]
        by_hand = sum(n for key, n in self.by_hand().items() if key[0] == model)
        return len(ours) + by_hand

    def group(self, life: Life) -> Group:
        """Return which replicas *life* is like."""
        agent = self.agents.get(life.agent)
        return Group(life.model, agent.pool if agent else "", life.start.tp, life.start.pp)

    def by_hand(self) -> dict[tuple[str, str, str, int], int]:
        """Return engines that no replica of ours is: model, site, hardware, GPUs; how many."""
        counts: dict[tuple[str, str, str, int], int] = {}
        for _, engine in sorted(self.engines.items()):
            life = self.lives.get(engine.made_by)
            if life is not None and life.provider == engine.provider:
                continue
            for model in sorted({self._names[n] for n in engine.names if n in self._names}):
                key = (model, engine.site, engine.hardware, engine.gpus)
                counts[key] = counts.get(key, 0) + 1
        return counts


def fault(holding: Holding) -> str:
    """Return why no agent can hold that; nothing when one can."""
    gpus = len(holding.gpus)
    if gpus > GPUS_MAX:
        return f"it tells of {gpus} GPUs, and a node has no more than {GPUS_MAX}"
    living = [one for one in holding.replicas if one.state not in ENDED]
    odd = next((one for one in living if one.tp not in GPUS_PER_STAGE or one.pp < 1), None)
    if odd is not None:
        return f"it tells of a replica that is divided into {odd.tp} · {odd.pp}"
    if any(not _is_ulid(one.start) for one in living):
        return "it tells of a replica that no placer started"
    held = sum(one.tp * one.pp for one in living)
    return f"it tells of replicas on {held} GPUs, and has {gpus}" if held > gpus else ""


def _is_ulid(start: str) -> bool:
    try:
        ids.born_at_ms(SessionId(start))
    except ValueError:
        return False
    return True


def _found(replica: Replica, agent: Agent, now: float, wall: float) -> Life:
    start = Start(
        command=replica.start,
        term=0,
        template=replica.template,
        model=replica.model,
        tp=replica.tp,
        pp=replica.pp,
    )
    age_s = max(0.0, wall - ids.born_at_ms(SessionId(replica.start)) / 1000)
    life = Life(start, agent, began_at=now - age_s, now=now)
    life.is_known, life.is_stop_taken = True, replica.state in {DRAINING, STOPPED}
    return life
