"""From what runs to what is to run, step by step, each of which fits."""

import enum
from collections.abc import Mapping

import msgspec

from opentela.placer.baselines.room import Blocks, filled
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
    load_s = {group: option.load_s for group, option in problem.candidates().items()}
    state = {group: count for group, count in problem.running.items() if count}
    rooms = filled(problem, state)
    starts, stops = _missing(target, state), _missing(state, target)
    made: list[Move] = []
    wave = 0
    while starts or stops:
        done, verb = _start_what_fits(rooms, starts), Verb.START
        if not done:
            done, verb = _stop_for_one(rooms, starts, stops), Verb.STOP
        made += [
            Move(
                verb=verb,
                group=group,
                count=count,
                wave=wave,
                takes_s=load_s[group] if verb is Verb.START else problem.drain_s,
            )
            for group, count in done.items()
        ]
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


def _start_what_fits(rooms: dict[str, Blocks], starts: dict[Group, int]) -> dict[Group, int]:
    begun: dict[Group, int] = {}
    # Large ones first: small ones would take a whole node's room from them.
    for group in sorted(starts, key=lambda one: (-one.tp, one)):
        while starts.get(group) and rooms[group.pool].fits(group):
            rooms[group.pool].add(group)
            begun[group] = begun.get(group, 0) + 1
            _less(starts, group)
    return begun


def _stop_for_one(
    rooms: dict[str, Blocks], starts: dict[Group, int], stops: dict[Group, int]
) -> dict[Group, int]:
    """Stop until one of *starts* fits; everything that is too much if none waits for it."""
    wanted = min(starts, key=lambda one: (-one.tp, one), default=None)
    ended: dict[Group, int] = {}
    here = [group for group in stops if wanted is None or group.pool == wanted.pool]
    assert here, "a target that fits leaves something to stop where a start has no room"
    for group in sorted(here, key=lambda one: (-one.gpus, one)):
        while stops.get(group):
            if wanted is not None and rooms[wanted.pool].fits(wanted):
                return ended
            ended[group] = ended.get(group, 0) + 1
            rooms[group.pool].add(group, -1)
            _less(stops, group)
    return ended


def _less(counts: dict[Group, int], group: Group) -> None:
    counts[group] -= 1
    if not counts[group]:
        del counts[group]
