"""Requests through a server whose speed changes."""

import numpy as np
import pytest

from opentela.placer.replay.queue import Speed, drain
from opentela.placer.shapes import Floats


def test_requests_wait_for_those_before_them() -> None:
    """One a second, three at once: they end after one, two and three seconds."""
    steady = Speed(np.zeros(1), np.ones(1))
    served = drain(np.array([0.0, 0.0, 0.0, 10.0]), np.ones(4), steady)
    assert served.began_s == pytest.approx([0, 1, 2, 10])
    assert served.done_s == pytest.approx([1, 2, 3, 11])


def test_a_server_that_stands_still_is_waited_for() -> None:
    """What comes meanwhile begins when it runs again; what was begun goes on."""
    speed = Speed(np.array([0.0, 1.5, 10.0]), np.array([1.0, 0.0, 2.0]))
    served = drain(np.array([0.0, 1.0, 2.0, 50.0]), np.ones(4), speed)
    assert served.began_s == pytest.approx([0, 1, 10.25, 50], abs=1e-6)
    assert served.done_s == pytest.approx([1, 10.25, 10.75, 50.5])


def test_what_is_never_served_never_ends() -> None:
    """A server that has stopped for good."""
    speed = Speed(np.array([0.0, 2.0]), np.array([1.0, 0.0]))
    served = drain(np.array([0.0, 0.5, 3.0]), np.ones(3), speed)
    assert served.done_s[1] == 2.0
    assert np.isinf(served.done_s[2])
    assert np.isinf(served.began_s[2])


def _one_by_one(arrival_s: Floats, work: Floats, speed: Speed) -> list[float]:
    now, ended = 0.0, []
    for arrival, wanted in zip(arrival_s, work, strict=True):
        now, left = max(now, float(arrival)), float(wanted)
        while True:
            at = int(np.searchsorted(speed.at_s, now, side="right")) - 1
            until = speed.at_s[at + 1] if at + 1 < len(speed.at_s) else np.inf
            if speed.value[at] > 0 and (until - now) * speed.value[at] >= left:
                now += left / speed.value[at]
                break
            if np.isinf(until):
                now = np.inf
                break
            left -= (until - now) * speed.value[at]
            now = float(until)
        ended.append(float(now))
    return ended


@pytest.mark.parametrize("seed", range(20))
def test_arrays_say_what_one_by_one_says(seed: int) -> None:
    """The running maximum is the recursion."""
    draw = np.random.default_rng(seed)
    arrivals = np.sort(draw.random(200)) * 100
    work = draw.random(200) + 0.05
    at = np.concatenate([[0.0], np.sort(draw.random(6)) * 120])
    speed = Speed(at, draw.choice([0.0, 0.5, 3.0, 8.0], size=7))
    assert drain(arrivals, work, speed).done_s == pytest.approx(_one_by_one(arrivals, work, speed))
