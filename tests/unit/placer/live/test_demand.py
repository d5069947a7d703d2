"""What is asked is counted over a window, for the models that may be placed."""

import random

import msgspec
import pytest
from tests.unit.placer.live import parts

from opentela.placer.live.config import DemandConfig
from opentela.placer.live.demand import TOKENS_MAX, UNKNOWN_RPS, Demands

CONFIG = DemandConfig(window_s=600.0, fast_s=60.0, learn_s=120.0)


def demands(**changes: float) -> Demands:
    """Return what has been heard since the beginning of time: nothing."""
    return Demands(DemandConfig(**changes) if changes else CONFIG, {"a": "a", "A": "a"}, 0.0)


def test_names_that_nobody_placed_are_not_counted() -> None:
    """Clients may make up as many as they like."""
    one = demands()
    one.add(0.0, [parts.used(name) for name in ("a", "A", "made-up")])
    assert one.of(1.0, "a").rate_rps == pytest.approx(3 / 10, rel=0.4)
    assert one.of(1.0, "made-up").rate_rps == 0


def test_a_rise_is_seen_at_once_and_a_fall_after_the_window() -> None:
    """The greater of the long and the short mean counts."""
    one = demands()
    for second in range(600):
        one.add(second, [parts.used("a")])
    for second in range(600, 660):
        one.add(second, [parts.used("a")] * 5)
    assert one.of(660.0, "a").rate_rps == pytest.approx(5.0, rel=0.1)
    assert one.of(900.0, "a").rate_rps == pytest.approx(1.0, rel=0.2)
    assert one.of(1300.0, "a").rate_rps == 0
    assert one.quiet_s(1300.0, "a") == pytest.approx(641.0)


def test_requests_that_were_turned_away_are_demand_too() -> None:
    """They are all that a model without a replica has; how many they are says little."""
    one = demands()
    for second in range(100):
        one.add(second, [parts.used("a", status=404 if second % 2 else 503)] * 50)
    told = one.of(100.0, "a")
    assert told.rate_rps == UNKNOWN_RPS
    assert told.refused_rps == pytest.approx(50, rel=0.2)
    assert told.out_tokens == 0


def test_who_is_turned_away_beside_others_counts_as_much_as_they() -> None:
    """At most: clients try again."""
    one = demands()
    for second in range(600):
        refused = [parts.used("a", status=503)] * 9
        one.add(second, [parts.used("a"), *refused])
    assert one.of(600.0, "a").rate_rps == pytest.approx(2.0, rel=0.2)


def test_lengths_and_their_spread_are_those_of_answered_requests() -> None:
    """And what caches held of prompts."""
    one = demands()
    long, short = parts.used("a", tokens_in=300), parts.used("a", tokens_in=100, tokens_out=10)
    one.add(100.0, [long, short, parts.used("a", status=503)])
    told = one.of(100.0, "a")
    assert (told.in_tokens, told.out_tokens) == (200, 30)
    assert told.in_cv == pytest.approx(0.5)
    assert told.prefix_hit == 0


@pytest.mark.parametrize(("together", "least", "most"), [(1, 1.0, 1.3), (40, 4.0, 8.0)])
def test_requests_that_come_in_bursts_are_told_from_those_that_do_not(
    together: int, least: float, most: float
) -> None:
    """A Poisson stream has 1, one of clumps more; no more than the greatest that is believed."""
    rng = random.Random(1)
    one = demands()
    for second in range(600):
        if rng.random() < 0.5 / together * 10:
            one.add(second, [parts.used("a")] * together)
    assert least <= one.of(600.0, "a").cv <= most


def test_it_knows_when_it_has_listened_for_long_enough() -> None:
    """Before, nobody can say that nobody asks."""
    one = demands()
    assert not one.has_learnt(119.0)
    assert one.has_learnt(120.0)


@pytest.mark.parametrize(
    "counted",
    [
        {"tokens_in": 10**18, "tokens_out": 10**18},
        {"tokens_in": 100, "tokens_out": TOKENS_MAX + 1},
        {"tokens_in": -5, "tokens_out": 7},
        {"tokens_in": 5, "tokens_out": -7},
    ],
)
def test_lengths_that_nothing_can_have_are_not_believed(counted: dict[str, int]) -> None:
    """The request is demand all the same; the mean stays that of the others."""
    one = demands()
    one.add(1.0, [parts.used("a"), parts.used("a", **counted)])
    told = one.of(2.0, "a")
    assert (told.in_tokens, told.out_tokens) == (100, 50)
    assert told.rate_rps == pytest.approx(0.2)


def test_what_an_engine_does_not_find_was_not_turned_away() -> None:
    """It serves the model, and somebody asked it for a path that it does not have."""
    one = demands()
    asked = msgspec.structs.replace(parts.used("a", status=404), session=parts.session(1))
    one.add(1.0, [asked])
    assert one.of(2.0, "a").refused_rps == 0


def test_who_always_comes_back_is_worth_more_than_who_came_once() -> None:
    """The mean of lately and of long ago counts, also when nobody has asked lately."""
    one = demands(window_s=600.0, base_s=21600.0)
    for second in range(0, 7200, 2):
        one.add(float(second), [parts.used("a")])
    told = one.of(7200.0, "a")
    assert told.expected_rps == pytest.approx(0.5, rel=0.1)
    assert sum(level.weight for level in told.levels) == pytest.approx(told.expected_rps)
    quiet = one.of(9000.0, "a")
    assert quiet.rate_rps == 0
    # Half of a long mean that has begun to fade.
    assert 0.15 < quiet.expected_rps < 0.25


def test_a_placer_that_has_just_begun_expects_what_it_has_heard() -> None:
    """A memory of hours is not divided by before there were any."""
    one = demands(base_s=21600.0)
    for second in range(120):
        one.add(float(second), [parts.used("a")])
    assert one.of(120.0, "a").expected_rps == pytest.approx(1.0, rel=0.1)


def test_without_a_long_memory_lately_is_all_that_counts() -> None:
    """As the operator wants it."""
    one = demands(base_s=0.0)
    one.add(1.0, [parts.used("a")] * 5)
    told = one.of(2.0, "a")
    assert told.expected_rps == told.rate_rps == 0.5
    assert one.of(2000.0, "a").expected_rps == 0


def test_who_is_turned_away_again_and_again_is_expected_as_one() -> None:
    """Clients repeat themselves: a hundred at once are one more."""
    one = demands(base_s=21600.0)
    for second in range(0, 600, 10):
        one.add(float(second), [parts.used("a", status=503)] * 100)
    assert one.of(600.0, "a").expected_rps == pytest.approx(UNKNOWN_RPS, rel=0.1)


def test_what_is_told_late_counts_at_its_time() -> None:
    """A link that was cut tells of ten minutes at once: nobody asks that much now."""
    wall = 1_800_000_000.0
    prompt, late = demands(base_s=21600.0), demands(base_s=21600.0)
    records = [
        (float(at), msgspec.structs.replace(parts.used("a"), at_ms=round((wall + at) * 1000)))
        for at in range(0, 500, 2)
    ]
    for at, record in records:
        prompt.add(at, [record], wall + at)
    first, *rest = records
    late.add(first[0], [first[1]], wall + first[0])
    late.add(500.0, [record for _, record in rest], wall + 500.0)
    told = late.of(501.0, "a")
    assert told == prompt.of(501.0, "a")
    assert told.rate_rps < 0.6
    # What is older than the window is no demand of now, and yet remembered.
    older = demands(base_s=21600.0)
    older.add(0.0, [records[0][1]], wall)
    older.add(3000.0, [record for _, record in rest], wall + 3000.0)
    assert not older.is_asked(3000.0, "a")
    assert older.of(3000.0, "a").expected_rps > 0


def test_late_news_of_who_was_turned_away_is_not_newer_than_an_answer() -> None:
    """Nor is a late answer an answer of now."""
    wall = 1_800_000_000.0
    one = demands()

    def tell(now: float, at: float, status: int) -> None:
        record = parts.used("a", status=status)
        one.add(now, [msgspec.structs.replace(record, at_ms=round((wall + at) * 1000))], wall + now)

    tell(0.0, 0.0, 200)
    tell(50.0, 50.0, 503)
    tell(100.0, 20.0, 200)
    assert one.of(100.0, "a").waits_s == pytest.approx(50.0)
    tell(110.0, 110.0, 200)
    assert one.of(110.0, "a").waits_s == 0.0


def test_it_is_known_whether_somebody_asks() -> None:
    """Within the window, whether it was answered or not."""
    one = demands()
    assert not one.is_asked(0.0, "a")
    one.add(1.0, [parts.used("a", status=503)])
    assert one.is_asked(500.0, "a")
    assert not one.is_asked(700.0, "a")


def test_who_is_turned_away_waits_until_anybody_is_answered() -> None:
    """Or until nobody asks any more: who asks next waits anew."""
    one = demands()
    one.add(10.0, [parts.used("a")])
    assert one.of(20.0, "a").waits_s == 0
    for second in range(100, 900, 100):
        one.add(second, [parts.used("a", status=503)])
    assert one.of(900.0, "a").waits_s == 800.0
    one.add(900.0, [parts.used("a")])
    assert one.of(901.0, "a").waits_s == 0
    one.add(1000.0, [parts.used("a", status=503)])
    assert one.of(1700.0, "a").waits_s == 0
    one.add(2000.0, [parts.used("a", status=503)])
    assert one.of(2010.0, "a").waits_s == 10.0
