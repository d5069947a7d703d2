"""From what runs to what is to run, step by step, each of which fits."""

import enum
from collections.abc import Mapping

import msgspec

from opentela.placer.baselines.room import Blocks
from opentela.placer.problem import Counts, Group, Problem


class Verb(enum.StrEnum):
    """What is done to a replica."""

    START = "start"
    STOP = "stop"


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """One step: so many replicas of one group are started or stopped.

    Attributes:
        wave: Moves of one wave may run at once; a wave begins when the one before is done.
        takes_s: Until they serve, or until their GPUs are free.
    """

    verb: Verb
    group: Group
    count: int
    wave: int
    takes_s: float


def moves(problem: Problem, target: Counts) -> list[Move]:
    """Return the steps from what runs to *target*.

    What has room is started first. Only then is something stopped, no more than the next start
    needs, so that as little as possible is missing while models move.
    """
    state = {group: count for group, count in problem.running.items() if count}
    starts = _missing(target, state)
    stops = _missing(state, target)
    made: list[Move] = []
    wave = 0
    while starts or stops:
        begun = _start_what_fits(problem, state, starts)
        if begun:
            made += [_move(problem, Verb.START, group, n, wave) for group, n in begun.items()]
            wave += 1
            continue
        ended = _stop_for_one(problem, state, starts, stops)
        made += [_move(problem, Verb.STOP, group, n, wave) for group, n in ended.items()]
        wave += 1
    return made


def apply(running: Counts, steps: list[Move]) -> dict[Group, int]:
    """Return what runs after *steps*."""
    state = dict(running)
    for step in steps:
        sign = 1 if step.verb is Verb.START else -1
        state[step.group] = state.get(step.group, 0) + sign * step.count
    return {group: count for group, count in state.items() if count}


def _missing(wanted: Counts, have: Mapping[Group, int]) -> dict[Group, int]:
    more = {group: count - have.get(group, 0) for group, count in wanted.items()}
    return {group: more[group] for group in sorted(more) if more[group] > 0}


def _start_what_fits(
    problem: Problem, state: dict[Group, int], starts: dict[Group, int]
) -> dict[Group, int]:
    begun: dict[Group, int] = {}
    rooms = _rooms(problem, state)
    # Large ones first: small ones would take a whole node's room from them.
    for group in sorted(starts, key=lambda one: (-one.tp, one)):
        while starts.get(group) and rooms[group.pool].fits(group):
            rooms[group.pool].add(group)
            begun[group] = begun.get(group, 0) + 1
            state[group] = state.get(group, 0) + 1
            _less(starts, group)
    return begun


def _stop_for_one(
    problem: Problem, state: dict[Group, int], starts: dict[Group, int], stops: dict[Group, int]
) -> dict[Group, int]:
    """Stop until one of *starts* fits; everything that is too much if none waits for it."""
    wanted = next(iter(sorted(starts, key=lambda one: (-one.tp, one))), None)
    ended: dict[Group, int] = {}
    here = [group for group in stops if wanted is None or group.pool == wanted.pool]
    assert here, "a target that fits leaves something to stop where a start has no room"
    for group in sorted(here, key=lambda one: (-one.gpus, one)):
        while stops.get(group):
            if wanted is not None and _rooms(problem, state)[wanted.pool].fits(wanted):
                return ended
            ended[group] = ended.get(group, 0) + 1
            state[group] -= 1
            _less(stops, group)
    return ended


def _rooms(problem: Problem, state: Mapping[Group, int]) -> dict[str, Blocks]:
    rooms = {pool.name: Blocks(pool) for pool in problem.pools}
    for group, count in state.items():
        for _ in range(count):
            rooms[group.pool].add(group)
    return rooms


def _less(counts: dict[Group, int], group: Group) -> None:
    counts[group] -= 1
    if not counts[group]:
        del counts[group]


def _move(problem: Problem, verb: Verb, group: Group, count: int, wave: int) -> Move:
    options = problem.candidates()
    takes_s = problem.drain_s
    if verb is Verb.START:
        takes_s = options[group].load_s
    return Move(verb=verb, group=group, count=count, wave=wave, takes_s=takes_s)
