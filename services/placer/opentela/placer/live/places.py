"""Where there is room, while several replicas are placed at once."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from opentela.core.ids import SessionId
from opentela.placer.live.fleet import Agent, Fleet, Life
from opentela.placer.problem import Group


class Surplus(NamedTuple):
    """What may be given up.

    Attributes:
        spare: By group of which there are too many: all of its replicas.
        demanded: Models whose last replica stays.
        target: How many of each group are to stay.
    """

    spare: Mapping[Group, list[Life]]
    demanded: Collection[str]
    target: Mapping[Group, int]

    def left(self, group: Group) -> int:
        """Return how many of *group* are too much."""
        lives = self.spare.get(group, ())
        return sum(not one.is_leaving for one in lives) - self.target.get(group, 0)


class Places:
    """What is free, what is promised, and what could be given up.

    Args:
        fleet: What there is.
        agents: At which something may be started.
        may_start: Whether a model may be started at an agent.
        failures: How often it failed there of late; where it did not is better.
        stoppable: Those of some replicas that may be stopped, in the order in which they should.
    """

    def __init__(
        self,
        fleet: Fleet,
        agents: Iterable[Agent],
        *,
        may_start: Callable[[Agent, str], bool],
        failures: Callable[[Agent, str], int],
        stoppable: Callable[[Collection[Life]], list[Life]],
    ) -> None:
        self._fleet = fleet
        self._agents = sorted(agents, key=lambda one: one.session)
        self._may_start = may_start
        self._failures = failures
        self._stoppable = stoppable
        self._promised: dict[SessionId, int] = {}

    def free(self, group: Group) -> Agent | None:
        """Return the agent with the least room that is enough; the one that lasts longest."""
        fitting = [
            one for one in self._able(group) if self._room(one, with_leaving=False) >= group.gpus
        ]
        return min(
            fitting,
            key=lambda one: (
                *(self._failures(one, group.model), self._fleet.free(one)),
                *(-one.ends_at, one.session),
            ),
            default=None,
        )

    def room(self, group: Group, surplus: Surplus) -> list[Life] | None:
        """Return what to stop so that one of *group* has room; None when nothing helps.

        Nothing is to be stopped where enough is draining already.
        """
        best: tuple[int, int, SessionId, list[Life]] | None = None
        for agent in self._able(group):
            lacking = group.gpus - self._room(agent, with_leaving=True)
            victims = self._victims(agent, lacking, surplus)
            if victims is None:
                continue
            rank = (self._failures(agent, group.model), len(victims), agent.session)
            if best is None or rank < best[:3]:
                best = (*rank, victims)
        if best is None:
            return None
        *_, session, victims = best
        self._promised[session] = self._promised.get(session, 0) + group.gpus
        return victims

    def is_gathering(self, pool: str) -> bool:
        """Return whether something in *pool* leaves, or comes so that another of its kind can."""
        return any(
            one.is_leaving or (one.is_aside and not one.is_serving)
            for one in self._fleet.lives.values()
            if self._fleet.group(one).pool == pool
        )

    def aside(self, group: Group) -> tuple[Group, Agent] | None:
        """Return what to start where, so that *group* has room once others have moved.

        The GPUs are there, but not at one agent. Of all agents at which that would do, the one is
        taken where the fewest have to move; None when there is none.
        """
        plans = [self._moved(agent, group) for agent in self._able(group)]
        possible = [plan for plan in plans if plan]
        return min(possible, key=len)[0] if possible else None

    def dispensable(self, pool: str, surplus: Surplus) -> Life | None:
        """Return a replica in *pool* that is too much and may go; None when there is none."""
        for group, lives in surplus.spare.items():
            if group.pool != pool or surplus.left(group) <= 0:
                continue
            for life in self._stoppable(lives):
                if self._may_stop(life, [], surplus):
                    return life
        return None

    def why_not(self, group: Group, surplus: Surplus) -> str:
        """Return why nothing makes room for *group*, for people."""
        here = [one for one in self._agents if one.pool == group.pool]
        able = self._able(group)
        if not able:
            return "it failed there lately" if here else "no agent there takes commands"
        spare = [
            life
            for kind, lives in surplus.spare.items()
            if kind.pool == group.pool and surplus.left(kind) > 0
            for life in lives
            if not life.is_leaving
        ]
        last = dict.fromkeys(one.model for one in spare if not self._may_stop(one, [], surplus))
        if last:
            return f"{', '.join(last)} would have to go from there, and serves nowhere else"
        if spare:
            return "what is to go from there was started too short a while ago"
        return "nothing that runs there is to be given up"

    def _moved(self, agent: Agent, group: Group) -> list[tuple[Group, Agent]]:
        """Return what must run elsewhere so that *group* fits at *agent*; nothing if it cannot."""
        lacking = group.gpus - self._room(agent, with_leaving=True)
        taken: dict[SessionId, int] = {}
        plan: list[tuple[Group, Agent]] = []
        here = self._stoppable([one for one in self._fleet.of_agent(agent) if one.is_serving])
        for life in sorted(here, key=lambda one: -one.gpus):
            if lacking <= 0:
                break
            kind = self._fleet.group(life)
            others = [one for one in self._able(kind) if one is not agent]
            fitting = [
                one
                for one in others
                if self._room(one, with_leaving=False) - taken.get(one.session, 0) >= life.gpus
            ]
            if fitting:
                other = min(fitting, key=lambda one: (self._fleet.free(one), one.session))
                taken[other.session] = taken.get(other.session, 0) + life.gpus
                plan.append((kind, other))
                lacking -= life.gpus
        return plan if lacking <= 0 else []

    def _able(self, group: Group) -> list[Agent]:
        return [
            one
            for one in self._agents
            if one.pool == group.pool and self._may_start(one, group.model)
        ]

    def _room(self, agent: Agent, *, with_leaving: bool) -> int:
        leaving = sum(one.gpus for one in self._fleet.of_agent(agent) if one.is_leaving)
        free = self._fleet.free(agent) + (leaving if with_leaving else 0)
        # What drains is promised first; what is free now is enough if the rest of it is.
        return free - max(
            0, self._promised.get(agent.session, 0) - (0 if with_leaving else leaving)
        )

    def _victims(self, agent: Agent, lacking: int, surplus: Surplus) -> list[Life] | None:
        chosen: list[Life] = []
        for group, lives in surplus.spare.items():
            left = surplus.left(group)
            for life in self._stoppable(lives):
                if lacking <= 0:
                    return chosen
                if left <= 0:
                    break
                if life.agent == agent.session and self._may_stop(life, chosen, surplus):
                    chosen.append(life)
                    left -= 1
                    lacking -= life.gpus
        return chosen if lacking <= 0 else None

    def _may_stop(self, life: Life, chosen: list[Life], surplus: Surplus) -> bool:
        if life.model not in surplus.demanded:
            return True
        doomed = sum(one.model == life.model and one.is_serving for one in chosen)
        return self._fleet.serving(life.model, besides=life) - doomed > 0
