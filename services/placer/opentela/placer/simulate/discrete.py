"""A fleet of replicas under a trace, event by event: who gets each request, and when it is done.

Seeded and deterministic. One model a fleet; replicas come and go at the instants that they bear.
"""

import heapq
import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from opentela.placer.fit import Fit, shipped
from opentela.placer.shapes import (
    Outcome,
    Replica,
    ReplicaShape,
    Requests,
    Role,
    RoutePolicy,
)
from opentela.placer.simulate import columns, steady
from opentela.placer.simulate.engine import Engine, Job
from opentela.placer.simulate.steady import Lengths
from opentela.placer.simulate.table import StepTable

KV_TRANSFER_BYTES_S: Final = 25e9
"""KV cache from a prefilling replica to a decoding one: one 200 Gb/s network card."""
_NOBODY: Final = -1


def simulate(
    requests: Requests,
    replicas: Sequence[Replica],
    policy: RoutePolicy = RoutePolicy.LEAST_LOAD,
    seed: int = 0,
    *,
    fit: Fit | None = None,
) -> Outcome:
    """Return what becomes of *requests*.

    A request that arrives while no replica takes any waits for the next one that will; one that
    fits into no replica is never done.
    """
    fleet = _Fleet(requests, replicas, policy, seed, fit or shipped())
    return fleet.run()


class _Fleet:
    def __init__(
        self,
        requests: Requests,
        replicas: Sequence[Replica],
        policy: RoutePolicy,
        seed: int,
        fit: Fit,
    ) -> None:
        tables: dict[ReplicaShape, StepTable] = {}
        for replica in replicas:
            if replica.shape not in tables:
                tables[replica.shape] = StepTable(replica.shape, fit)
        self._requests, self._replicas, self._policy = requests, replicas, policy
        self._engines = [Engine(tables[replica.shape]) for replica in replicas]
        self._random = np.random.default_rng(seed)
        self._speeds = _speeds(requests, replicas, fit)
        self._turn = 0
        count = len(requests)
        self._replica = np.full(count, _NOBODY, dtype=np.int64)
        self._first = [float("nan")] * count
        self._done = [float("nan")] * count
        self._preemptions = np.zeros(count, dtype=np.int64)
        # Whatever happens next: instant, replica, and what. Steps of an engine that was given more
        # to do in the meantime end earlier than was written; then that is another event.
        self._events: list[tuple[float, int, int, Job | None]] = []
        self._written = 0
        self._count = 0

    def run(self) -> Outcome:
        """Work through all arrivals and steps."""
        r = self._requests
        rows = zip(
            r.arrival_s.tolist(),
            r.in_tokens.tolist(),
            r.out_tokens.tolist(),
            r.prefix_hit_tokens.tolist(),
            strict=True,
        )
        for index, (at, prompt, answer, hit) in enumerate(rows):
            self._until(at)
            fresh = max(prompt - min(hit, prompt - 1), 1)
            self._arrive(at, Job(index, fresh, max(prompt - fresh, 0), max(answer, 1)))
        self._until(float("inf"))
        return Outcome(
            replica=self._replica,
            first_s=np.array(self._first),
            done_s=np.array(self._done),
            preemptions=self._preemptions,
            events=self._count,
        )

    def _until(self, at: float) -> None:
        """Let everything happen that happens before *at*."""
        events = self._events
        while events and events[0][0] <= at:
            now, _, number, job = heapq.heappop(events)
            engine = self._engines[number]
            if job is not None:
                self._count += 1
                self._give(now, number, job)
            elif now == engine.ends_at:
                self._count += 1
                self._step(now, number, engine)

    def _step(self, now: float, number: int, engine: Engine) -> None:
        done = engine.finish_step()
        wait = engine.table.request_s
        for job in done.first:
            if math.isnan(self._first[job.index]):
                self._first[job.index] = now + wait
        for job in done.ended:
            if job.later:
                self._hand_over(now, engine, job)
            else:
                self._done[job.index] = now + wait
                self._replica[job.index] = number
        for job in done.preempted:
            self._preemptions[job.index] += 1
        self._write(engine.ends_at, number)

    def _write(self, at: float, number: int, job: Job | None = None) -> None:
        if at < float("inf"):
            self._written += 1
            heapq.heappush(self._events, (at, self._written, number, job))

    def _arrive(self, at: float, job: Job) -> None:
        """Give *job* to a replica, now or when the next one takes requests."""
        self._count += 1
        self._send(at, job, (Role.BOTH, Role.PREFILL))

    def _send(self, at: float, job: Job, roles: Sequence[Role]) -> None:
        chosen = self._choose(at, job, roles)
        if chosen is not None:
            self._give(at, chosen, job)
            return
        later = [
            (replica.from_s, number)
            for number, replica in enumerate(self._replicas)
            if replica.from_s > at and replica.role in roles and self._engines[number].fits(job)
        ]
        if later:
            self._write(*min(later), job)

    def _give(self, now: float, number: int, job: Job) -> None:
        engine = self._engines[number]
        if self._replicas[number].role is Role.PREFILL:
            job.later, job.left = job.left - 1, 1
        before = engine.ends_at
        engine.add(now, job)
        if engine.ends_at != before:
            self._write(engine.ends_at, number)

    def _hand_over(self, now: float, engine: Engine, job: Job) -> None:
        """Send the KV cache of *job* to a replica that only decodes."""
        tokens = job.prompt + job.cached
        there = Job(job.index, tokens, 0, job.later)
        there.todo = 0
        sent_s = tokens * engine.table.kv_bytes / KV_TRANSFER_BYTES_S
        self._send(now + sent_s, there, (Role.DECODE,))

    def _choose(self, at: float, job: Job, roles: Sequence[Role]) -> int | None:
        """Return the replica that gets *job*, or None if none takes it now."""
        able = [
            number
            for number, replica in enumerate(self._replicas)
            if replica.from_s <= at < replica.until_s
            and replica.role in roles
            and self._engines[number].fits(job)
        ]
        if not able:
            return None
        if len(able) == 1:
            return able[0]
        match self._policy:
            case RoutePolicy.LEAST_LOAD:
                return min(able, key=self._load)
            case RoutePolicy.ROUND_ROBIN:
                self._turn += 1
                return able[self._turn % len(able)]
            case RoutePolicy.RANDOM:
                return able[int(self._random.integers(len(able)))]
            case RoutePolicy.WEIGHTED:
                speeds = np.cumsum([self._speeds[number] for number in able])
                return able[int(np.searchsorted(speeds, self._random.random() * speeds[-1]))]

    def _load(self, number: int) -> float:
        return (self._engines[number].outstanding + 1) / self._speeds[number]


def _speeds(requests: Requests, replicas: Sequence[Replica], fit: Fit) -> list[float]:
    """Return what each replica can do of such requests, the measure of a fair share."""
    if not len(requests) or not replicas:
        return [1.0] * len(replicas)
    c, z = columns.of([replica.shape for replica in replicas], fit)
    answers = requests.out_tokens.astype(np.float64)
    means = (
        float(requests.in_tokens.mean()),
        float((requests.in_tokens - requests.prefix_hit_tokens).mean()),
        float(answers.mean()),
        float((answers**2).mean() / max(2 * answers.mean(), 1.0)),
    )
    lengths = Lengths(*(np.full((len(replicas), 1), max(mean, 1.0)) for mean in means))
    rates: list[float] = steady.saturated(c, z, lengths).rps[:, 0].tolist()
    return [max(rate, 1e-9) for rate in rates]
