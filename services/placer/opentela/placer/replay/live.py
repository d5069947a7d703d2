"""The placer of `otela placer` at work on a trace: its own machine, planner and settings.

Requests reach it as usage records when they end, and its commands go to agents that take as long
as loading and draining do. Only the mesh between them is left out: nothing is lost or late.
"""

import math
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

import msgspec
import numpy as np

from opentela.core.record import SessionRecord
from opentela.placer.live import messages as m
from opentela.placer.live.config import LeaseConfig, ModelConfig, PlacerConfig
from opentela.placer.live.decide import Planner
from opentela.placer.live.machine import PlacerMachine
from opentela.placer.load_cost import measured
from opentela.placer.options import Wanted
from opentela.placer.problem import Counts, Group, Pool
from opentela.placer.replay.fleet import Change, Known
from opentela.placer.replay.flow import Asked, Flow
from opentela.placer.replay.stand import TEMPLATE, WALL_S, Stand, Times
from opentela.placer.replay.trace import Trace
from opentela.placer.shapes import Floats

TURN_S: Final = 10.0
"""Between two looks at what has happened; the service looks more often, which only takes time."""
LOOK_S: Final = 60.0
_MIDDLE: Final = 2
"""Which of the utilisations the time of an answer is taken at."""

Progress = Callable[[float], None]


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """Where a placer is put to work.

    Attributes:
        wanted: Each model as the simulator sees it, in the order of the trace's models.
        models: What is known of each.
        pools: Each node of them is an agent.
        load_s: How long each group loads.
        load_factor: The same over what was measured.
        drain_s: Until a stopped replica's GPUs are free.
    """

    wanted: tuple[Wanted, ...]
    models: tuple[Known, ...]
    pools: tuple[Pool, ...]
    load_s: Mapping[Group, float]
    load_factor: float
    drain_s: float


def settings(given: PlacerConfig, wanted: tuple[Wanted, ...]) -> PlacerConfig:
    """Return the settings that were *given* for the models of a trace."""
    return msgspec.structs.replace(
        given,
        dry_run=False,
        # Nothing is lost on the way: to ask agents more often would tell nothing new.
        moves=msgspec.structs.replace(given.moves, look_s=LOOK_S, silent_s=10 * LOOK_S),
        lease=LeaseConfig(kind="none"),
        hardware={},
        models=tuple(
            ModelConfig(
                name=one.name,
                template=TEMPLATE,
                ttft_s=one.slo.ttft_s,
                tpot_s=one.slo.tpot_s,
                e2e_s=one.slo.e2e_s,
            )
            for one in wanted
        ),
    )


class _Noise:
    """Randomness that is the same in every run; ids are made of it."""

    def __init__(self) -> None:
        self._draw = np.random.default_rng(0)

    def random(self) -> float:
        """Return a float in [0, 1)."""
        return float(self._draw.random())

    def randrange(self, stop: int, /) -> int:
        """Return an int in [0, stop)."""
        return int(self._draw.integers(stop))

    def randbytes(self, n: int, /) -> bytes:
        """Return *n* random bytes."""
        return self._draw.bytes(n)


class Live:
    """One placer, its agents and its clients.

    Args:
        stage: Where.
        config: The settings of the placer.
        running: What runs at the beginning.
    """

    def __init__(self, stage: Stage, config: PlacerConfig, running: Counts, began_s: float) -> None:
        self._stage = stage
        self._kinds = {pool.name: pool.gpu for pool in stage.pools}
        self._index = {one.name: i for i, one in enumerate(stage.models)}
        self._number = 0
        self._stands = self._made()
        self._place(running)
        self._by_session = {one.session: one for one in self._stands}
        self._flows = [Flow(one.name) for one in stage.models]
        made = settings(config, stage.wanted)
        self._planner = Planner(
            made,
            {one.name: one for one in stage.wanted},
            load_cost=measured().scaled(stage.load_factor),
        )
        self._machine = PlacerMachine(
            made,
            name="placer",
            instance="replay",
            rng=_Noise(),
            now=began_s,
            wall=self._wall(began_s),
        )

    # What runs it

    def hear(self, past: Trace, work: Floats) -> None:
        """Have the placer hear of requests that others have served before it begins."""
        every = dict.fromkeys(range(len(self._flows)), math.inf)
        for until_s, came in _turns(past, work, self._stage, past.duration_s):
            self._pass(until_s - TURN_S, until_s, every, came)

    def run(self, future: Trace, work: Floats, until_s: float, progress: Progress) -> list[Change]:
        """Return everything that is started and stopped while *future* asks."""
        begin = float(future.requests.arrival_s[0])
        records = tuple(one.record for one in self._stands)
        self._turn(begin)
        self._feed(begin, m.Changed(records=records, is_whole=True))
        for now, came in _turns(future, work, self._stage, until_s):
            self._pass(now - TURN_S, now, self._speeds(now - TURN_S), came)
            self._turn(now)
            self._feed(now, m.Tick())
            progress(min(1.0, (now - begin) / max(until_s - begin, TURN_S)))
        return [change for stand in self._stands for change in stand.changes]

    # Parts of it

    def _made(self) -> list[Stand]:
        times = Times(self._stage.load_s, self._stage.drain_s)
        return [
            Stand(self._next(), pool, times)
            for pool in self._stage.pools
            for _ in range(pool.nodes)
        ]

    def _place(self, running: Counts) -> None:
        # The largest first: then what fits by count fits into nodes.
        for group in sorted(running, key=lambda one: (-one.gpus, one)):
            for _ in range(running[group]):
                stand = next(one for one in self._stands if one.has_room(group))
                stand.found(group, self._next())

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _wall(self, now: float) -> float:
        return WALL_S + now

    def _turn(self, now: float) -> None:
        """Tell the placer of engines that have come or gone."""
        records: list[SessionRecord] = []
        for stand in self._stands:
            records += stand.turn(now, self._next)
        if records:
            self._feed(now, m.Changed(records=tuple(records)))

    def _speeds(self, now: float) -> dict[int, float]:
        speeds: dict[int, float] = {}
        for stand in self._stands:
            for group in stand.serving(now):
                index = self._index[group.model]
                manner = self._stage.models[index].manners[
                    self._kinds[group.pool], group.tp, group.pp
                ]
                speeds[index] = speeds.get(index, 0.0) + manner.capacity_rps
        return speeds

    def _pass(
        self, from_s: float, until_s: float, speeds: Mapping[int, float], came: list[list[Asked]]
    ) -> None:
        records = tuple(
            record
            for index, flow in enumerate(self._flows)
            for record in flow.pass_by(from_s, until_s, speeds.get(index, 0.0), came[index])
        )
        if records:
            self._feed(until_s, m.Used(records=records))

    def _feed(self, now: float, event: m.Event) -> None:
        events: deque[m.Event] = deque([event])
        while events:
            for action in self._machine.step(now, self._wall(now), events.popleft()):
                match action:
                    case m.Plan(number=number, question=question):
                        decided = self._planner.answer(question)
                        events.append(m.Planned(number=number, decided=decided))
                    case m.Tell(epoch=epoch, path=path, command=command):
                        holding = self._by_session[path.session].take(now, command)
                        events.append(
                            m.Held(
                                epoch=epoch,
                                provider=path.provider,
                                agent=path.session,
                                holding=holding,
                            )
                        )
                    case _:
                        pass


def _turns(
    trace: Trace, work: Floats, stage: Stage, until_s: float
) -> list[tuple[float, list[list[Asked]]]]:
    """Return the requests of each turn, by model."""
    requests = trace.requests
    begin = float(requests.arrival_s[0])
    count = math.ceil((until_s - begin) / TURN_S) + 1
    takes = [_takes(one) for one in stage.models]
    made: list[tuple[float, list[list[Asked]]]] = [
        (begin + (turn + 1) * TURN_S, [[] for _ in stage.models]) for turn in range(count)
    ]
    turns = np.minimum(((requests.arrival_s - begin) / TURN_S).astype(np.int64), count - 1)
    columns = zip(
        *(
            values.tolist()
            for values in (
                *(turns, trace.model, requests.arrival_s, work),
                *(requests.in_tokens, requests.prefix_hit_tokens, requests.out_tokens),
            )
        ),
        strict=True,
    )
    for turn, model, arrival_s, size, in_tokens, cached, out_tokens in columns:
        ttft_s, tpot_s = takes[model]
        takes_s = ttft_s + out_tokens * tpot_s
        asked = Asked(arrival_s, size, takes_s, in_tokens, cached, out_tokens)
        made[turn][1][model].append(asked)
    return made


def _takes(model: Known) -> tuple[float, float]:
    """Return the time to the first token, and of each, of a replica that has some work."""
    manners = list(model.manners.values())
    if not manners:
        return 0.0, 0.0
    count = len(manners)
    return (
        sum(one.ttft_s for one in manners) / count,
        sum(one.tpot_s[_MIDDLE] for one in manners) / count,
    )
