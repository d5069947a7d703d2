"""What a decision is made from: the demands of now, and what there is."""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from opentela.placer.live.config import PlacerConfig
from opentela.placer.live.decide import Question
from opentela.placer.live.demand import Asked, Demands
from opentela.placer.live.experience import MINUTE_S, MINUTES, Experience, Seen
from opentela.placer.live.fleet import Agent, Fleet, Life
from opentela.placer.live.mover import Mover
from opentela.placer.live.pools import pools_of
from opentela.placer.problem import Group
from opentela.wire.usage import UsageRecord

COUNTED_S: Final = 0.25
"""Demands are counted so often at most; many records come in between."""


class Survey:
    """Asks the questions of one placer."""

    def __init__(
        self, config: PlacerConfig, demands: Demands, fleet: Fleet, mover: Mover, now: float
    ) -> None:
        self._config = config
        self._demands = demands
        self._fleet = fleet
        self._mover = mover
        self._counted_at = now
        self._counted: list[Asked] = []
        self._models = {model.name: model for model in config.models}
        self._experience = Experience()
        self._steady: dict[Group, tuple[int, float]] = {}

    def used(self, now: float, wall: float, records: Iterable[UsageRecord]) -> None:
        """Take note of requests that have ended."""
        told = tuple(records)
        self._demands.add(now, told, wall)
        for record in told:
            life = self._fleet.life_of(record.session) if record.session else None
            if life is not None and life.model in self._models:
                group, model = self._fleet.group(life), self._models[life.model]
                self._experience.add(now, group, record, model)

    def _seen(self, now: float, serving: Mapping[Group, int]) -> dict[Group, Seen]:
        """Return what replicas did where as many served for as long as is looked back at."""
        self._steady = {
            group: self._steady[group] if self._steady.get(group, (0,))[0] == n else (n, now)
            for group, n in serving.items()
        }
        back_s = (MINUTES + 1) * MINUTE_S
        return self._experience.seen(
            now, {group: n for group, (n, since) in self._steady.items() if now - since >= back_s}
        )

    def question(self, now: float, wall: float) -> Question:
        """Return what is to be decided at *now* (monotonic) and *wall* (Unix)."""
        serving: dict[Group, int] = {}
        for life in self._fleet.lives.values():
            if life.is_serving and not life.is_leaving:
                group = self._fleet.group(life)
                serving[group] = serving.get(group, 0) + 1
        return msgspec.structs.replace(
            self.glance(now, wall), asked=tuple(self.asked(now)), seen=self._seen(now, serving)
        )

    def glance(self, now: float, wall: float) -> Question:
        """Return the same as far as it is cheap: of demands only whether there are any."""
        running: dict[Group, int] = {}
        locked: dict[Group, int] = {}
        learnt = self._demands.has_learnt(now)
        nodes = self._nodes(now, wall)
        places = {one.session: one for one in nodes}
        for life in self._lasting(now, wall):
            agent = places.get(life.agent)
            if agent is None or life.gpus > agent.gpus:
                continue  # its agent has said since that it has less
            group = self._fleet.group(life)
            running[group] = running.get(group, 0) + 1
            locked[group] = locked.get(group, 0) + (not learnt or self._mover.locked(now, life))
        self._mover.forget(now)
        return Question(
            asked=tuple(
                Asked(model=model.name, rate_rps=float(self._demands.is_asked(now, model.name)))
                for model in self._config.models
            ),
            pools=pools_of(nodes),
            running=running,
            locked=locked,
            by_hand=self._fleet.by_hand(),
            shut=tuple(sorted(self._mover.shut)),
            stopped=tuple(sorted(self._mover.stopped)),
            idle=self._idle(now) if learnt else (),
            owed=self._owed(now, running),
            guests=tuple(sorted({one.model for one in self._fleet.lives.values() if one.is_turn})),
        )

    def running(self, now: float, wall: float) -> dict[Group, int]:
        """Return what runs and is to go on."""
        counts: dict[Group, int] = {}
        for life in self._lasting(now, wall):
            group = self._fleet.group(life)
            counts[group] = counts.get(group, 0) + 1
        return counts

    def asked(self, now: float) -> list[Asked]:
        """Return what is asked of each model."""
        if not self._counted or now - self._counted_at >= COUNTED_S:
            self._counted = [self._demands.of(now, model.name) for model in self._config.models]
            self._counted_at = now
        return self._counted

    def demanded(self, now: float) -> set[str]:
        """Return models whose last replica is not to be stopped."""
        kept = {model.name for model in self._config.models if model.replicas_min}
        if not self._demands.has_learnt(now):
            return kept | {life.model for life in self._fleet.lives.values()}
        models = (model.name for model in self._config.models)
        return kept | {model for model in models if self._demands.is_asked(now, model)}

    def _owed(self, now: float, running: dict[Group, int]) -> tuple[str, ...]:
        """Return who was stopped to run elsewhere and does not yet, as long as anybody asks."""
        owed = self._mover.owed
        back = {group.model for group in running}
        for model in [m for m in owed if m in back or not self._demands.is_asked(now, m)]:
            del owed[model]
        return tuple(owed)

    def _idle(self, now: float) -> tuple[str, ...]:
        idle_s = self._config.plan.idle_s
        return tuple(
            model.name
            for model in self._config.models
            if idle_s and self._demands.quiet_s(now, model.name) >= idle_s
        )

    def _nodes(self, now: float, wall: float) -> list[Agent]:
        margin_s = self._config.moves.ends_s
        return [
            one
            for one in sorted(self._fleet.agents.values(), key=lambda one: one.session)
            if one.gpus and one.ends_at - wall > margin_s and self._mover.answers(now, one)
        ]

    def _lasting(self, now: float, wall: float) -> list[Life]:
        lives = self._fleet.lives.values()
        return [one for one in lives if self._mover.is_lasting(now, wall, one)]


def signature(question: Question) -> tuple[object, ...]:
    """Return what does not wait for the next regular decision when it changes."""
    served = {group.model for group in question.running} | {key[0] for key in question.by_hand}
    waiting = sorted(
        one.model for one in question.asked if one.rate_rps and one.model not in served
    )
    return (waiting, question.pools, question.shut) if waiting else (question.pools,)
