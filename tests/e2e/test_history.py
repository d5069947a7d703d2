"""The checker itself: it accepts what is right and names what is wrong."""

from pathlib import Path

import msgspec
import pytest
from tests.e2e import history
from tests.e2e.history import Exchange

WHOLE = "one two three"
UNARY = Exchange(
    number=0, stream=False, started_at=1.0, ended_at=2.0, status=200, text=WHOLE, finish=("stop",)
)
STREAM = msgspec.structs.replace(UNARY, number=1, stream=True, is_done=True)
BROKEN_STREAM = msgspec.structs.replace(
    STREAM, number=2, text="one ", finish=(), is_done=False, error="engine_lost"
)


def violations(*exchanges: Exchange) -> list[str]:
    """Return what the checker says of a history."""
    return history.check(exchanges, expected=lambda _: WHOLE, longest_s=5.0)


def test_good_answers_and_honest_ends_are_right() -> None:
    """Whole answers, and streams that end with an error event, violate nothing."""
    assert violations(UNARY, STREAM, BROKEN_STREAM) == []


@pytest.mark.parametrize(
    ("exchange", "changes", "rule"),
    [
        (UNARY, {"status": 503, "text": "", "finish": ()}, "failed although nothing had begun"),
        (UNARY, {"cut": "reset"}, "failed although nothing had begun"),
        (UNARY, {"ended_at": 7.0}, "took too long"),
        (UNARY, {"text": "one two"}, "claims success with another text"),
        (STREAM, {"status": 502, "text": "", "finish": (), "is_done": False}, "failed although"),
        (STREAM, {"is_done": False}, "ended neither well nor with an error"),
        (STREAM, {"finish": ()}, "ended neither well nor with an error"),
        (STREAM, {"text": "one three"}, "claims success with another text"),
        (BROKEN_STREAM, {"is_done": True}, "claims success after an error"),
        (BROKEN_STREAM, {"finish": ("stop",)}, "claims success after an error"),
        (BROKEN_STREAM, {"error": ""}, "ended neither well nor with an error"),
        (BROKEN_STREAM, {"error": "", "cut": "reset"}, "was cut without a word"),
        (BROKEN_STREAM, {"text": "two"}, "has text that nobody wrote"),
    ],
)
def test_each_violation_is_named(exchange: Exchange, changes: dict[str, object], rule: str) -> None:
    """Every way to be wrong is found, and the report says which it was."""
    wrong = msgspec.structs.replace(exchange, **changes)
    assert any(found.startswith(rule) for found in violations(wrong))


def test_a_request_ends_once() -> None:
    """Two ends of one request are a violation."""
    assert "a request ended twice" in violations(UNARY, UNARY)


def test_a_history_that_is_still_written_reads_up_to_the_last_whole_line(tmp_path: Path) -> None:
    """A reader may come at any time."""
    file = tmp_path / "history"
    assert history.read(file) == []
    file.write_bytes(history.to_line(UNARY) + history.to_line(STREAM)[:-9])
    assert history.read(file) == [UNARY]


def test_a_long_report_is_cut_with_a_word() -> None:
    """A failing run stays readable."""
    assert history.report(["x"] * 14).endswith("and 2 more")
