"""A request is as long as its answer: what it asks for, and what those before it came to."""

import pytest

from opentela.core.forecast import (
    KEPT,
    PACE_GUESS_S,
    TRUSTED_MIN,
    Forecast,
    tokens_asked,
)


@pytest.mark.parametrize(
    ("body", "tokens"),
    [
        (b'{"max_tokens": 500}', 500),
        (b'{"max_completion_tokens":7,"max_tokens":500}', 7),
        (b'{"max_output_tokens":9}', 9),
        (b'{"max_tokens":null}', 0),
        (b'{"max_tokens":-1}', 0),
        (b'{"max_tokens":"500"}', 0),
        (b'{"max_tokens":true}', 0),
        (b'{"max_tokens":5e9}', 0),
        (b'{"messages":[{"content":"\\"max_tokens\\":5"}]}', 0),
        (b'{"tool":{"max_tokens":5}}', 0),
        (b"[1]", 0),
        (b"{", 0),
        (b'{"max_tokens":' + b"[" * 100_000, 0),
        (b'{"model":"\xff"}', 0),
    ],
)
def test_the_bound_of_an_answer_is_read_where_the_request_sets_one(
    body: bytes, tokens: int
) -> None:
    """Any other body has none, and is no error: the engine will judge it."""
    assert tokens_asked(body) == tokens


@pytest.mark.parametrize(
    ("part", "tokens"),
    [
        (b'{"max_tokens" : 500, "messages":[{"content":"and so on', 500),
        (b'{"max_new_tokens":6,"x', 6),
        (b'{"messages":[{"content":"say \\"max_tokens\\":5 and', 0),
        (b'{"messages":[{"content":"and so on', 0),
        (b'{"max_tokens":5.5,', 0),
        (b'{"max_tokens":12345678901234567890,', 0),
    ],
)
def test_the_beginning_of_a_body_is_searched_for_it(part: bytes, tokens: int) -> None:
    """A large body comes in parts; words in a prompt are not taken for the bound."""
    assert tokens_asked(part, is_whole=False) == tokens


def test_before_any_answer_the_bound_counts_at_a_guessed_pace() -> None:
    """Without a bound nothing is known, and nothing held against a request."""
    forecast = Forecast()
    assert forecast.lasts_s() == 0.0
    assert forecast.lasts_s(1000) == pytest.approx(1000 * PACE_GUESS_S)


def test_the_pace_is_learned_from_answers_whose_tokens_were_counted() -> None:
    """The slowest but for a few; an answer of unknown length says only how long it took."""
    forecast = Forecast()
    forecast.learn(10.0, 100)
    forecast.learn(50.0, 0)
    assert forecast.lasts_s(1000) == pytest.approx(100.0)
    assert forecast.lasts_s() == 50.0


def test_a_bound_set_by_habit_gives_way_to_what_answers_come_to() -> None:
    """Once enough were seen; until then the bound is all that there is."""
    forecast = Forecast()
    for _ in range(TRUSTED_MIN - 1):
        forecast.learn(2.0, 100)
    assert forecast.lasts_s(32_768) > 600
    forecast.learn(2.0, 100)
    assert forecast.lasts_s(32_768) == pytest.approx(4.0)
    assert forecast.lasts_s(10) == pytest.approx(0.2)


def test_a_few_long_answers_do_not_decide_and_old_ones_are_forgotten() -> None:
    """One in twenty may be longer than the forecast."""
    forecast = Forecast()
    for number in range(KEPT):
        forecast.learn(100.0 if number % 32 == 0 else 1.0, 10)
    assert forecast.lasts_s() == 1.0
    for _ in range(KEPT):
        forecast.learn(30.0, 10)
    assert forecast.lasts_s() == 30.0
