"""Measurements of latency, throughput, CPU and memory that any target can be put to."""

import asyncio
import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from tests.bench import procfs
from tests.bench.load import Measured, Sample, Target, closed_loop, open_loop, percentile

WARM_UP: Final = 60
WARM_UP_AT_ONCE: Final = 4
"""So many requests, so many at a time: Python specialises code that has run a few dozen times."""
MS: Final = 1e3


class Round(NamedTuple):
    """How many requests a second, and how many of them for each target."""

    rate: float
    requests: int


ROUNDS: Final = (Round(1, 40), Round(4, 80), Round(16, 240), Round(64, 640))
QUICK_ROUNDS: Final = (Round(4, 24), Round(16, 96), Round(64, 256))


class Added(NamedTuple):
    """What a target adds to the direct way, in milliseconds."""

    p50_ms: float
    p99_ms: float


def total_ms(sample: Sample) -> float:
    """Return how long the whole answer took."""
    return (sample.done_at - sample.sent_at) * MS


def first_ms(sample: Sample) -> float:
    """Return how long the first token took."""
    return (sample.first_at - sample.sent_at) * MS


def added(
    target: Sequence[Sample], direct: Sequence[Sample], what: Callable[[Sample], float]
) -> Added:
    """Return the difference of percentiles, which is what published figures are."""
    ours, theirs = [what(s) for s in target], [what(s) for s in direct]
    return Added(
        percentile(ours, 50) - percentile(theirs, 50),
        percentile(ours, 99) - percentile(theirs, 99),
    )


async def warmed(targets: Sequence[Measured]) -> None:
    """Let interpreters, caches and connections of *targets* settle before anything is measured."""
    for target in targets:
        for _ in range(WARM_UP):
            await asyncio.gather(*(target.once() for _ in range(WARM_UP_AT_ONCE)))


async def paced(targets: Sequence[Measured], round_: Round) -> None:
    """Fill the samples of *targets*, taken in turn at the pace of *round_*."""
    for target in targets:
        target.samples.clear()
        for _ in range(2):
            await target.once()
    with no_gc():
        await open_loop(targets, rate=round_.rate, count=round_.requests)


class Saturation(NamedTuple):
    """What a target does when clients never pause.

    Attributes:
        cpu_us: Microseconds of CPU a request, for each process that was watched.
    """

    rps: float
    p50_ms: float
    cpu_us: dict[str, float]


async def saturated(
    target: Target, pids: Mapping[str, int], *, concurrency: int, seconds: float
) -> Saturation:
    """Return what *target* does with *concurrency* clients that never pause."""
    await closed_loop(target, concurrency=concurrency, seconds=seconds / 4)
    target.samples.clear()
    before = {name: procfs.cpu_s(pid) for name, pid in pids.items()}
    with no_gc():
        rps = await closed_loop(target, concurrency=concurrency, seconds=seconds)
    count = len(target.samples)
    return Saturation(
        rps,
        percentile([total_ms(s) for s in target.samples], 50),
        {name: (procfs.cpu_s(pid) - before[name]) * 1e6 / count for name, pid in pids.items()},
    )


@contextmanager
def no_gc() -> Iterator[None]:
    """Keep the collector of the load generator out of what is measured."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()
