"""`prefix_affinity`: prompts that begin alike go where their beginning is cached, within bounds.

Each session owns points on a ring of hashes, and a prompt belongs to the owner of the next point
behind its own. All routers find the same owner without a word between them, and a session that
joins or leaves moves only what belongs to it: Karger et al., "Consistent Hashing and Random Trees",
1997. An owner that has more than its share of what is under way is passed over for the next one:
Mirrokni, Thorup, Zadimoghaddam, "Consistent Hashing with Bounded Loads", 2018. A share is by speed.

A prompt is looked for where its first part belongs, which is where a long system prompt or document
is cached; when that owner is full, where its conversation belongs, which is the same at each turn.
For chats and agents of many turns, and for prompts with long common beginnings.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Final

from opentela.core.rng import Rng
from opentela.router.directory import Candidate
from opentela.router.policies.base import Call, Observed
from opentela.router.policies.counts import Counts
from opentela.router.policies.hardware import UNKNOWN_GBS, prior
from opentela.router.policies.speeds import Speeds
from opentela.router.prompt import keys_of

OVER_SHARE: Final = 1.25
"""How much more than its share of what is under way a session may have: less sends more prompts
away from their caches, more lets more of them wait."""
FREE: Final = 2
"""Requests that a session may have under way in any case: so few cost next to nothing more."""
POINTS: Final = 64
"""Points on a ring of a session of average hardware: its share then differs by some 12 % from what
it should be."""
POINTS_MIN: Final = 8
POINTS_MAX: Final = 1024
"""Of one session, however much it promises."""
RINGS_MAX: Final = 256
"""Sets of candidates whose ring is kept, 13 KB a session: one a model, more with constraints."""
LESSONS_BETWEEN: Final = 32
"""As in `hardware_weighted`."""
_HASH_BYTES: Final = 8


class Ring:
    """The points of some candidates, in order of their hashes."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        points = sorted(
            (point, number) for number, one in enumerate(candidates) for point in points_of(one)
        )
        self.candidates = candidates
        self.lessons = -LESSONS_BETWEEN
        self.shares: list[float] = []
        self._points = [point for point, _ in points]
        self._owners = [number for _, number in points]

    def owners(self, key: int) -> Iterator[int]:
        """Yield the numbers of all candidates, each once, from the owner of *key* onwards."""
        start, count = bisect_right(self._points, key), len(self._owners)
        seen: dict[int, None] = {}
        for step in range(count):
            owner = self._owners[(start + step) % count]
            if owner not in seen:
                seen[owner] = None
                yield owner


def points_of(candidate: Candidate) -> list[int]:
    """Return the points of a session: the same wherever, and whoever else is there.

    As many as its hardware lets one expect, and not as its speed is learnt to be: what moved with
    every lesson would leave its cache behind.
    """
    promised = prior(candidate.terms.hardware, candidate.terms.gpus)
    count = min(max(round(POINTS * promised / UNKNOWN_GBS), POINTS_MIN), POINTS_MAX)
    block = hashlib.blake2b(candidate.session.encode())
    data = bytearray()
    while len(data) < count * _HASH_BYTES:
        block.update(b".")
        data += block.digest()
    return [
        int.from_bytes(data[at : at + _HASH_BYTES], "big")
        for at in range(0, count * _HASH_BYTES, _HASH_BYTES)
    ]


class PrefixAffinity:
    """The owner of the prompt's beginning, unless it has more than its share."""

    def __init__(self, _rng: Rng) -> None:
        self._speeds = Speeds()
        # Of all names together: adapters of one engine share what it can do.
        self._in_flight = Counts()
        self._rings: dict[tuple[str, ...], Ring] = {}
        self._latest: dict[str, Ring] = {}

    def pick(self, call: Call, candidates: Sequence[Candidate]) -> Candidate:
        """Return the first on the ring that has room; there is always one."""
        if len(candidates) == 1:
            return candidates[0]
        ring = self._ring_of(call.model, candidates)
        room = _Room(ring, self._in_flight)
        keys = keys_of(call.body)
        if keys.lead != keys.whole:
            owner = next(ring.owners(keys.lead))
            if room.has(owner):
                return candidates[owner]
        # What all may have exceeds what is under way: somebody has room.
        return candidates[next(one for one in ring.owners(keys.whole) if room.has(one))]

    def on_request_start(self, _call: Call, chosen: Candidate) -> None:
        """One more is in flight."""
        self._in_flight.started(chosen.session)

    def on_request_end(self, call: Call, chosen: Candidate, observed: Observed) -> None:
        """One less is in flight, and its session's speed is better known."""
        self._in_flight.ended(chosen.session)
        self._speeds.learn(call.model, chosen, observed)

    def _ring_of(self, model: str, candidates: Sequence[Candidate]) -> Ring:
        ring = self._latest.get(model)
        if ring is None or ring.candidates is not candidates:
            ring = self._kept(model, candidates)
            self._latest[model] = ring
            if len(self._latest) > RINGS_MAX:
                del self._latest[next(iter(self._latest))]
        if self._speeds.lessons >= ring.lessons + LESSONS_BETWEEN:
            speeds = [self._speeds.of(model, one) for one in candidates]
            whole = sum(speeds)
            ring.shares = [speed / whole for speed in speeds]
            ring.lessons = self._speeds.lessons
        return ring

    def _kept(self, model: str, candidates: Sequence[Candidate]) -> Ring:
        key = (model, *(one.session for one in candidates))
        ring = self._rings.pop(key, None) or Ring(candidates)
        ring.candidates = candidates
        self._rings[key] = ring
        if len(self._rings) > RINGS_MAX:
            del self._rings[next(iter(self._rings))]
        return ring


class _Room:
    """Which candidates of a ring may have one more."""

    __slots__ = ("_counts", "_ring", "_spare")

    def __init__(self, ring: Ring, counts: Counts) -> None:
        self._ring = ring
        self._counts = counts
        self._spare = 0.0  # counted when somebody has more than is free

    def has(self, number: int) -> bool:
        """Return whether this one has room."""
        has = self._counts.of(self._ring.candidates[number].session)
        if has < FREE:
            return True
        if not self._spare:
            under_way = sum(self._counts.of(one.session) for one in self._ring.candidates)
            self._spare = OVER_SHARE * (under_way + 1)
        return has < self._spare * self._ring.shares[number]
