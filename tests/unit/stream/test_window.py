"""Credit counts from the start, and is given again in steps of half a window."""

import pytest

from opentela.stream.window import ReceiveWindow, SendWindow


def test_only_the_greatest_promise_counts() -> None:
    """A repeated or late promise neither adds room nor takes it away."""
    window = SendWindow(10)
    window.grant(30)
    window.grant(30)
    window.grant(20)
    assert window.room == 30


def test_what_is_sent_takes_room() -> None:
    """Room is the promise less what went."""
    window = SendWindow(10)
    window.send(4)
    assert window.room == 6


def test_sending_more_than_promised_is_a_bug() -> None:
    """The window may never be exceeded by our own hand."""
    with pytest.raises(AssertionError):
        SendWindow(3).send(4)


def test_credit_is_given_again_at_half_a_window() -> None:
    """One message for many parts."""
    window = ReceiveWindow(100)
    assert window.receive(100)
    assert not window.consume(49)
    assert window.granted == 100
    assert window.consume(1)
    assert window.granted == 150


def test_more_than_promised_is_seen() -> None:
    """The peer broke its credit."""
    window = ReceiveWindow(100)
    assert window.receive(100)
    assert not window.receive(1)


def test_what_came_unasked_counts_as_promised() -> None:
    """A first part larger than the window is taken, and paid for before more may come."""
    window = ReceiveWindow(100, received=130)
    assert window.granted == 130
    assert not window.consume(79)
    assert window.consume(1)
    assert window.granted == 180


def test_consuming_what_never_came_is_a_bug() -> None:
    """Accounts balance."""
    window = ReceiveWindow(100)
    with pytest.raises(AssertionError):
        window.consume(1)


def test_a_window_of_one_byte_still_moves() -> None:
    """The step is never nothing."""
    window = ReceiveWindow(1)
    assert window.receive(1)
    assert window.consume(1)
    assert window.granted == 2
