"""Who gives up its last replica, for whom: turns of those who wait, and moves without a free GPU.

Nobody who is asked for loses the last replica but for one of two reasons. A model has waited for as
long as anybody is to wait: then whoever is expected to use its GPUs least makes room, and waits in
turn. Or two replicas had better change places, which cannot be done without one of them being gone
for as long as the other's GPUs take to be free and loaded.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from opentela.placer.baselines.room import Blocks, filled
from opentela.placer.problem import Counts, Demand, Group, Problem

HOLD: Final = 4.0
"""Who has not waited for long must be worth so many times what those are who would make room."""


class Turn(NamedTuple):
    """One model whose turn it is.

    Attributes:
        group: Where it finds room, if not somewhere better.
        losers: Models that give up their last replica for that.
        is_late: Whether it has waited for long enough; else it is worth more than they are.
    """

    model: str
    group: Group
    losers: tuple[str, ...]
    is_late: bool = True


class Gaps(NamedTuple):
    """What has to stop before it runs elsewhere.

    Attributes:
        models: Which.
        share: Of all that is expected until the horizon, which is not served meanwhile.
        longest_s: For how long the slowest of them is gone.
    """

    models: tuple[str, ...] = ()
    share: float = 0.0
    longest_s: float = 0.0


def turns(
    problem: Problem,
    kept: Counts,
    last: Collection[Group],
    late: Sequence[str],
    others: Sequence[str] = (),
    *,
    guests: Collection[str] = (),
) -> list[Turn]:
    """Return for whom room can be made, and by whom.

    Args:
        problem: What is asked, and what each replica can do.
        kept: What stays in any case; what runs besides may be stopped.
        last: Groups in *kept* of which one is the last replica of a model, and may be given up.
        late: Models that run nowhere and have waited for long enough, the first in turn first.
        others: Those that run nowhere and have not, most valuable first.
        guests: Models that run for their turn: they give way to whoever is worth more at all.
    """
    rooms = filled(problem, kept)
    worth = _worth(problem.demands)
    options = problem.candidates()
    yielding = sorted(last, key=lambda group: (worth[group.model] / group.gpus, group))
    found: list[Turn] = []
    for model in (*late, *others):
        plans = [
            (sum(worth[one.model] for one in losers), -option.capacity_rps, group, losers)
            for group, option in options.items()
            if group.model == model
            if (losers := _losers(rooms[group.pool], group, yielding)) is not None
        ]
        if not plans:
            continue
        lost, _, group, losers = min(plans)
        held = sum(worth[one.model] * (one.model not in guests) for one in losers) * (HOLD - 1)
        if model not in late and (not losers or lost + held > worth[model]):
            continue  # there is room, or it is no better
        for one in losers:
            rooms[one.pool].add(one, -1)
            yielding.remove(one)
        rooms[group.pool].add(group)
        gone = tuple(one.model for one in losers)
        found.append(Turn(model, group, gone, is_late=model in late))
    return found


def _losers(room: Blocks, group: Group, yielding: Sequence[Group]) -> tuple[Group, ...] | None:
    """Return what has to go so that *group* fits; None when nothing makes it fit."""
    gone: list[Group] = []
    here = iter([one for one in yielding if one.pool == group.pool])
    while not room.fits(group):
        one = next(here, None)
        if one is None:
            break
        room.add(one, -1)
        gone.append(one)
    fits = room.fits(group)
    # Those that were thought of first may not be needed after all.
    for one in list(gone):
        room.add(one)
        if fits and room.fits(group):
            gone.remove(one)
        else:
            room.add(one, -1)
    for one in gone:
        room.add(one)
    return tuple(gone) if fits else None


def gaps(problem: Problem, target: Counts, asked: Collection[str]) -> Gaps:
    """Return whose last replica must stop before *target* can be reached.

    What has room is started first, and what is too much and not the last is stopped, over and over.
    Whenever nothing more can be done so, the model that costs least is taken for a gap.

    Args:
        problem: What runs, which GPUs there are, how long loading takes.
        target: What shall run.
        asked: Models that lose requests when nothing serves them.
    """
    state = {group: n for group, n in problem.running.items() if n}
    rooms = filled(problem, state)
    stopped: list[str] = []
    while True:
        _settle(state, target, rooms, {*asked} - {*stopped})
        missing = [group for group, n in target.items() if n > state.get(group, 0)]
        pools = {group.pool for group in missing}
        stuck = sorted(
            {
                group.model
                for group, n in state.items()
                if n > target.get(group, 0) and group.pool in pools and group.model in asked
            }
            - {*stopped}
        )
        if not stuck:
            return _gaps(problem, target, stopped)
        stopped.append(min(stuck, key=lambda model: (_lost(problem, target, model), model)))


def _settle(
    state: dict[Group, int], target: Counts, rooms: Mapping[str, Blocks], asked: Collection[str]
) -> None:
    """Do to *state* and *rooms* whatever can be done without a gap of a model that is *asked*."""
    has_changed = True
    while has_changed:
        has_changed = False
        for group in sorted(target, key=lambda one: (-one.gpus, one)):
            while target[group] > state.get(group, 0) and rooms[group.pool].fits(group):
                rooms[group.pool].add(group)
                state[group] = state.get(group, 0) + 1
                has_changed = True
        for group in sorted(state):
            while state[group] > target.get(group, 0) and (
                group.model not in asked or _replicas(state, group.model) > 1
            ):
                rooms[group.pool].add(group, -1)
                state[group] -= 1
                has_changed = True


def _gaps(problem: Problem, target: Counts, models: Iterable[str]) -> Gaps:
    worth = _worth(problem.demands)
    total = sum(worth.values())
    # Who is not to come back loses more than that, and that is counted elsewhere.
    back = [model for model in models if _replicas(target, model)]
    lost = sum(_lost(problem, target, model) for model in back)
    return Gaps(
        models=tuple(models),
        share=lost / total if total else 0.0,
        longest_s=max((_load_s(problem, target, model) for model in back), default=0.0),
    )


def _lost(problem: Problem, target: Counts, model: str) -> float:
    """Return what of *model*'s worth until the horizon is lost while it loads elsewhere."""
    share = min(1.0, _load_s(problem, target, model) / problem.horizon_s)
    return _worth(problem.demands).get(model, 0.0) * share


def _load_s(problem: Problem, target: Counts, model: str) -> float:
    options = problem.candidates()
    places = [group for group, n in target.items() if n and group.model == model]
    known = [options[group].load_s for group in places if group in options]
    return min(known, default=problem.horizon_s)


def _replicas(counts: Counts, model: str) -> int:
    return sum(n for group, n in counts.items() if group.model == model)


def _worth(demands: Iterable[Demand]) -> dict[str, float]:
    return {one.model: one.rate_rps * one.weight for one in demands}
