"""How long requests are, heard of or in a trace."""

import numpy as np
import pytest

from opentela.placer.lengths import HIT_MAX, Means, Sums


def sums(*requests: tuple[float, float, float]) -> Sums:
    made = Sums()
    for one in requests:
        made.add(*one)
    return made


def test_means_and_spreads_are_those_of_the_requests() -> None:
    """A prompt counts whole, with the share of it that was cached beside."""
    prompts, answers = np.array([100.0, 300.0, 200.0]), np.array([10.0, 10.0, 40.0])
    told = sums(*((p, p / 4, a) for p, a in zip(prompts, answers, strict=True))).means()
    assert told == pytest.approx(
        Means(
            in_len=200.0,
            out_len=20.0,
            in_cv=prompts.std() / prompts.mean(),
            out_cv=answers.std() / answers.mean(),
            prefix_hit=0.25,
        )
    )


def test_parts_merge_to_the_whole() -> None:
    """Windows are summed from their steps."""
    one, two = (10.0, 1.0, 5.0), (30.0, 20.0, 2.0)
    both = sums(one)
    both.merge(sums(two))
    assert both == sums(one, two)


def test_nothing_is_like_nothing() -> None:
    """And of a prompt the end at least is worked on, whatever an engine says."""
    assert Sums().means() is None
    empty = sums((0.0, 0.0, 3.0)).means()
    assert empty is not None
    assert empty.prefix_hit == 0.0
    whole = sums((50.0, 50.0, 3.0)).means()
    assert whole is not None
    assert whole.prefix_hit == HIT_MAX
