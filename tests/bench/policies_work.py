"""Work for the routers of a simulation: conversations, and questions on shared documents.

Lengths have heavy tails, systems prompts and documents are asked for unequally (Zipf), people think
between turns. Everything is drawn beforehand from one seed, so that every policy gets the same.
"""

import math
import random
from collections.abc import Sequence
from typing import Final, NamedTuple

BYTES_PER_TOKEN: Final = 4
SYSTEMS: Final = 20
DOCUMENTS: Final = 400
DOCUMENT_SHARE: Final = 0.3
"""Conversations that are one question on a document."""
TURNS_MEAN: Final = 4.0
TURNS_MAX: Final = 20
THINK_S: Final = 15.0
SPREAD: Final = 1.0
"""Sigma of the logarithm of lengths: the longest of a hundred is ten times the middle one."""
CONTEXT_MAX: Final = 16_000
"""Tokens after which a conversation ends: what the smallest engine can hold."""


class Turn(NamedTuple):
    """One request: tokens that are new in it, tokens of its answer, and the pause before it."""

    fresh: int
    answer: int
    think_s: float


class Talk(NamedTuple):
    """One conversation.

    Attributes:
        starts_at: Seconds.
        shared: What its prompts begin with, and others' too.
        shared_tokens: Length of that.
        body: Of its first request.
    """

    number: int
    starts_at: float
    shared: str
    shared_tokens: int
    turns: tuple[Turn, ...]
    body: bytes


def talks(rng: random.Random, *, requests_s: float, lasts_s: float) -> list[Talk]:
    """Return conversations whose requests come at about *requests_s* for *lasts_s*."""
    mean = DOCUMENT_SHARE + (1 - DOCUMENT_SHARE) * TURNS_MEAN
    systems = [_length(rng, 500, 4000) for _ in range(SYSTEMS)]
    documents = [_length(rng, 3000, 8000) for _ in range(DOCUMENTS)]
    found: list[Talk] = []
    at = -2 * THINK_S * TURNS_MEAN  # so that conversations of every age are under way at 0
    while (at := at + rng.expovariate(requests_s / mean)) < lasts_s:
        if rng.random() < DOCUMENT_SHARE:
            found.append(_question(rng, len(found), at, documents))
        else:
            found.append(_conversation(rng, len(found), at, systems))
    return found


def _question(rng: random.Random, number: int, at: float, documents: Sequence[int]) -> Talk:
    which = _zipf(rng, len(documents))
    turn = Turn(_length(rng, 40, 400), _length(rng, 150, 1000), 0.0)
    text = f"document {which} " * (documents[which] * BYTES_PER_TOKEN // 12)
    body = b'{"model":"m","messages":[{"role":"user","content":"%b question %d"}]}'
    name = f"document {which}"
    return Talk(number, at, name, documents[which], (turn,), body % (text.encode(), number))


def _conversation(rng: random.Random, number: int, at: float, systems: Sequence[int]) -> Talk:
    which = _zipf(rng, len(systems))
    count = min(int(rng.expovariate(1 / TURNS_MEAN)) + 1, TURNS_MAX)
    turns: list[Turn] = []
    context = systems[which]
    for index in range(count):
        think_s = rng.lognormvariate(math.log(THINK_S), SPREAD) if index else 0.0
        turn = Turn(_length(rng, 60, 3000), _length(rng, 200, 2000), think_s)
        context += turn.fresh + turn.answer
        if turns and context > CONTEXT_MAX:
            break
        turns.append(turn)
    text = f"system {which} " * (systems[which] * BYTES_PER_TOKEN // 10)
    body = (
        b'{"model":"m","messages":[{"role":"system","content":"%b"},'
        b'{"role":"user","content":"talk %d"}]}'
    )
    name = f"system {which}"
    return Talk(number, at, name, systems[which], tuple(turns), body % (text.encode(), number))


def _length(rng: random.Random, middle: int, most: int) -> int:
    return min(max(int(rng.lognormvariate(math.log(middle), SPREAD)), 1), most)


def _zipf(rng: random.Random, count: int) -> int:
    """Return a number below *count*, small ones oftener: the n-th 1/n times as often."""
    return min(int(count ** rng.random()) - 1, count - 1)
