"""How long requests are: the one notion of it, whether they were heard of or stand in a trace.

What a cache holds of a prompt is not worked on again, and lies in memory as long as the request
runs. So a prompt counts whole, beside the share of it that was cached; whoever counts only what is
fresh believes in batches that no engine has room for.
"""

import math
from typing import Final, NamedTuple

import msgspec

HIT_MAX: Final = 0.99
"""Share of prompts that may be cached: of each at least its end is worked on."""


class Means(NamedTuple):
    """What requests are like, as a `Workload` has it.

    Attributes:
        in_len: Tokens of a prompt, those in the cache included.
        prefix_hit: Share of them that a cache held.
    """

    in_len: float
    out_len: float
    in_cv: float
    out_cv: float
    prefix_hit: float


class Sums(msgspec.Struct, kw_only=True):
    """Sums over requests: how many, their tokens, and the squares of those."""

    count: float = 0.0
    prompt: float = 0.0
    prompt2: float = 0.0
    cached: float = 0.0
    answer: float = 0.0
    answer2: float = 0.0

    def add(self, prompt: float, cached: float, answer: float) -> None:
        """Count one more."""
        self.count += 1
        self.prompt += prompt
        self.prompt2 += prompt * prompt
        self.cached += cached
        self.answer += answer
        self.answer2 += answer * answer

    def merge(self, other: "Sums") -> None:
        """Count what *other* has."""
        self.count += other.count
        self.prompt += other.prompt
        self.prompt2 += other.prompt2
        self.cached += other.cached
        self.answer += other.answer
        self.answer2 += other.answer2

    def means(self) -> Means | None:
        """Return what they come to; None when there are none."""
        if not self.count:
            return None
        return Means(
            in_len=self.prompt / self.count,
            out_len=self.answer / self.count,
            in_cv=_spread(self.prompt2, self.prompt, self.count),
            out_cv=_spread(self.answer2, self.answer, self.count),
            prefix_hit=min(HIT_MAX, self.cached / self.prompt) if self.prompt else 0.0,
        )


def _spread(squares: float, total: float, count: float) -> float:
    mean = total / count
    return math.sqrt(max(0.0, squares / count - mean * mean)) / mean if mean else 1.0
