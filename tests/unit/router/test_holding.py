"""What an attempt has brought of its answer is held until it is taken."""

import pytest
from tests.unit.router.requests import EVENTS, JSON

from opentela.router.answers import Answer
from opentela.router.holding import Holding


def test_what_is_held_is_given_away_once() -> None:
    """In order; what comes later is held anew."""
    holding = Holding(200, JSON)
    holding.add(b"one ")
    holding.add(b"two")
    assert holding.size == len(b"one two")
    assert holding.taken() == b"one two"
    assert (holding.size, holding.taken()) == (0, b"")
    holding.add(b"three")
    assert holding.answer() == Answer(200, JSON, b"three")


@pytest.mark.parametrize("status", [204, 304])
def test_nothing_is_held_of_an_answer_without_a_body(status: int) -> None:
    """It would be read as the next answer."""
    holding = Holding(status, JSON)
    holding.add(b"stray")
    assert holding.is_bodiless
    assert holding.answer() == Answer(status, JSON, b"")


def test_events_can_be_read_unless_they_are_compressed() -> None:
    """An error is none, whatever it says of itself."""
    assert Holding(200, EVENTS).is_readable
    coded = Holding(200, (*EVENTS, ("Content-Encoding", "gzip")))
    assert (coded.is_stream, coded.is_readable) == (True, False)
    assert not Holding(200, JSON).is_stream
    assert not Holding(500, EVENTS).is_stream
