"""A whole mesh in one thread: many processes, one virtual clock, one seed.

A `World` holds `Node`s (simulated processes), the `Network` between them and a queue of what
happens next. Nothing here knows what the processes do; they are given as programs that call the
real pure machines. Every source of chance is forked from the seed by name, so that a run is
replayed byte for byte by its seed alone, and adding a draw in one place shifts no other.

After the simulators of FoundationDB ("Testing Distributed Systems w/ Deterministic Simulation",
Wilson, 2014) and TigerBeetle (VOPR).
"""

import heapq
import itertools
import random
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from opentela.testing.world_network import Network
from opentela.testing.world_node import ClockForm, Node, Observer
from opentela.testing.world_trace import Trace

EVENTS_AT_ONCE_MAX: Final = 20_000
"""Events in one instant; more means that a machine asks for what it has just done, for ever."""

_Entry: TypeAlias = tuple[float, int, Callable[..., None], tuple[Any, ...]]


class RunawayError(AssertionError):
    """More happens in one instant than ever should."""


class World:
    """Virtual time and all that lives in it.

    Attributes:
        seed: What replays this run.
        now: Virtual seconds since the beginning; only the world itself and checkers look at it.
        epoch: Unix seconds at the beginning, by a perfect clock.
        events: How many things have happened.
    """

    def __init__(
        self, seed: int, *, epoch: float = 1_800_000_000.0, trace: Trace | None = None
    ) -> None:
        self.seed = seed
        self.now = 0.0
        self.epoch = epoch
        self.events = 0
        self.trace = Trace() if trace is None else trace
        self.network = Network(self)
        self.nodes: dict[str, Node] = {}
        self.observers: list[Observer] = []
        self._queue: list[_Entry] = []
        self._order = itertools.count()

    def fork(self, name: str) -> random.Random:
        """Return a source of chance of its own for *name*."""
        # A string is seeded through SHA-512: independent streams, equal under every hash seed.
        return random.Random(f"{self.seed}/{name}")  # noqa: S311 (replay, not secrecy)

    def add_node(self, name: str, *, site: str, clock: ClockForm | None = None) -> Node:
        """Return a new node at *site*; it does nothing until it is started."""
        assert name not in self.nodes, name
        node = Node(self, name, site=site, clock=clock or ClockForm())
        self.nodes[name] = node
        return node

    def at(self, when: float, call: Callable[..., None], *args: Any) -> None:
        """Call *call* at virtual time *when*; ties keep the order in which they were asked."""
        assert when >= self.now, f"{when} is before {self.now}"
        heapq.heappush(self._queue, (when, next(self._order), call, args))

    def after(self, delay_s: float, call: Callable[..., None], *args: Any) -> None:
        """Call *call* when *delay_s* virtual seconds have passed."""
        self.at(self.now + delay_s, call, *args)

    def run(self, until: float) -> None:
        """Let everything happen that happens up to virtual time *until*."""
        queue = self._queue
        began = self.events
        while queue and queue[0][0] <= until:
            at, _, call, args = heapq.heappop(queue)
            if at > self.now:
                self.now, began = at, self.events
            self.events += 1
            if self.events - began > EVENTS_AT_ONCE_MAX:
                raise RunawayError(f"{EVENTS_AT_ONCE_MAX} events at {at:.6f} s without an end")
            call(*args)
        self.now = until

    def run_until(self, holds: Callable[[], bool], *, within_s: float, step_s: float = 0.1) -> bool:
        """Run until *holds*, looked at every *step_s*; return whether it did within *within_s*."""
        end = self.now + within_s
        while not holds():
            if self.now >= end:
                return False
            self.run(min(end, self.now + step_s))
        return True
