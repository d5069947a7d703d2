"""A request is as long as its answer: what it asks for, and what others like it came to."""

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
        (b'{"max_tokens" :\n500,"messages":[]}', 500),
        (b'{"max_completion_tokens":7,"max_tokens":500}', 500),
        (b'{"max_output_tokens":9}', 9),
        (b'{"max_tokens":null}', 0),
        (b'{"max_tokens":-1}', 0),
        (b'{"max_tokens":"500"}', 0),
        (b'{"max_tokens":5e9}', 0),
        (b'{"max_tokens":5.5}', 0),
        (b'{"max_tokens":12345678901234567890}', 0),
        (b'{"messages":[{"content":"\\"max_tokens\\":5"}]}', 0),
        (b"", 0),
        (b"\xff{", 0),
    ],
)
def test_the_bound_of_an_answer_is_read_where_the_request_sets_one(
    body: bytes, tokens: int
) -> None:
    """Words in a prompt are not taken for it; any other body has none, and is no error."""
    assert tokens_asked(body) == tokens


def test_of_a_large_body_both_ends_are_searched() -> None:
    """The middle is a prompt or an image."""
    much = b'"x":"' + b"y" * 100_000 + b'",'
    assert tokens_asked(b'{"max_tokens":5,' + much) == 5
    assert tokens_asked(b"{" + much + b'"max_tokens":5}') == 5
    assert tokens_asked(b"{" + much + b'"max_tokens":5,' + much + b"}") == 0


def test_before_any_answer_the_bound_counts_at_a_guessed_pace() -> None:
    """Without a bound nothing is known, and nothing held against a request."""
    forecast = Forecast()
    assert forecast.lasts_s() == 0.0
    assert forecast.lasts_s(1000) == pytest.approx(1000 * PACE_GUESS_S)
    assert not forecast.is_trusted


def test_the_pace_is_learned_from_answers_whose_tokens_were_counted() -> None:
    """The slowest but for a few; an answer of unknown length says only how long it took."""
    forecast = Forecast()
    forecast.learn(10.0, tokens=100)
    forecast.learn(50.0)
    assert forecast.lasts_s(1000) == pytest.approx(100.0)
    assert forecast.lasts_s() == 50.0


def test_a_bound_set_by_habit_gives_way_to_what_such_requests_came_to() -> None:
    """Once enough were seen; until then the bound is all that there is."""
    forecast = Forecast()
    for _ in range(TRUSTED_MIN - 1):
        forecast.learn(2.0, tokens=100, tokens_max=32_768)
    assert forecast.lasts_s(32_768) > 600
    forecast.learn(2.0, tokens=100, tokens_max=32_768)
    assert forecast.is_trusted
    assert forecast.lasts_s(40_000) == pytest.approx(4.0)
    assert forecast.lasts_s(10) == pytest.approx(0.2)


def test_a_request_for_more_than_the_usual_is_as_long_as_it_asks() -> None:
    """Short answers to requests for little say nothing about it."""
    forecast = Forecast()
    for _ in range(TRUSTED_MIN):
        forecast.learn(2.0, tokens=100, tokens_max=100)
    assert forecast.lasts_s(5000) == pytest.approx(100.0)


def test_a_request_without_a_bound_takes_what_such_requests_took() -> None:
    """Of bounded ones only as long as no other was seen."""
    forecast = Forecast()
    for _ in range(TRUSTED_MIN):
        forecast.learn(2.0, tokens_max=100)
    assert forecast.lasts_s() == 2.0
    for _ in range(TRUSTED_MIN):
        forecast.learn(30.0)
    assert forecast.lasts_s() == 30.0


def test_a_few_long_answers_do_not_decide_and_old_ones_are_forgotten() -> None:
    """One in twenty may be longer than the forecast."""
    forecast = Forecast()
    for number in range(KEPT):
        forecast.learn(100.0 if number % 32 == 0 else 1.0)
    assert forecast.lasts_s() == 1.0
    for _ in range(KEPT):
        forecast.learn(30.0)
    assert forecast.lasts_s() == 30.0
