"""Restarts back off, recover, and end."""

import random

from opentela.supervisor.config import RestartConfig
from opentela.supervisor.restart import Backoff, RestartRule


class NoJitter:
    """Draws the least, so that waits are the longest."""

    def random(self) -> float:
        return 0.0

    def randrange(self, stop: int, /) -> int:
        return 0

    def randbytes(self, n: int, /) -> bytes:
        return bytes(n)


def rule(**fields: float) -> RestartRule:
    return RestartRule(RestartConfig(**fields), NoJitter())  # type: ignore[arg-type]


def test_waits_double_up_to_a_limit_and_start_over() -> None:
    """1, 2, 4 ... and never more than the limit."""
    backoff = Backoff(RestartConfig(delay_s=1.0, delay_max_s=5.0), NoJitter())
    assert [backoff.next() for _ in range(5)] == [1.0, 2.0, 4.0, 5.0, 5.0]
    backoff.reset()
    assert backoff.next() == 1.0


def test_jitter_takes_off_half_at_most() -> None:
    """Engines that fell together do not rise together."""
    backoff = Backoff(RestartConfig(delay_s=8.0, delay_max_s=8.0), random.Random(7))
    waits = [backoff.next() for _ in range(200)]
    assert 4.0 <= min(waits) < 4.2
    assert 7.8 < max(waits) <= 8.0


def test_an_engine_that_never_served_is_given_up_after_few_failures() -> None:
    """Its command is wrong; more of the same is no use."""
    never = rule(unserved_max=2)
    assert never.failed(10.0) == 1.0
    assert never.failed(11.0) is None


def test_an_engine_that_has_served_is_given_up_after_many_failures_within_the_window() -> None:
    """Failures older than the window are forgotten."""
    served = rule(failures_max=3, window_s=100.0)
    served.served(0.0)
    assert served.failed(1.0) == 1.0
    assert served.failed(2.0) == 2.0
    assert served.failed(103.0) == 4.0
    assert served.failed(104.0) == 8.0
    assert served.failed(105.0) is None


def test_a_long_good_life_makes_the_next_wait_short_again() -> None:
    """Recovered is recovered."""
    steady = rule(failures_max=100, steady_s=50.0)
    steady.served(0.0)
    assert steady.failed(49.0) == 1.0
    steady.served(60.0)
    assert steady.failed(70.0) == 2.0
    steady.served(80.0)
    assert steady.failed(130.0) == 1.0


def test_restarts_can_be_switched_off() -> None:
    """With no failure allowed the first one is the last."""
    once = rule(failures_max=0)
    once.served(0.0)
    assert once.failed(1e6) is None
