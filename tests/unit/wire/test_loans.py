"""Words about loans: what goes in comes out, and rubbish is refused in one way."""

import pytest

from opentela.core.errors import WireError
from opentela.wire import frames, loans
from opentela.wire.loans import Account, Borrow, Lend, Lendable, Recall, Word

# Frozen for ever: a peer of any later version must read what this one sends.
GOLDEN: list[tuple[Word, str]] = [
    (Lendable("ab"), "92a86c656e6461626c65a26162"),
    (Borrow("cd"), "92a6626f72726f77a26364"),
    (
        Lend(1, "127.0.0.1", 8000, "k", 4, 9, 1.5),
        "98a46c656e6401a93132372e302e302e31cd1f40a16b0409cb3ff8000000000000",
    ),
    (Recall(1, "gone", at_once=True), "94a6726563616c6c01a4676f6e65c3"),
    (
        Account(1, 3, {"ended": 2}, 100, is_closed=True),
        "96a76163636f756e74010381a5656e64656402" + "64c3",
    ),
]


@pytest.mark.parametrize(("word", "encoded"), GOLDEN)
def test_words_stay_as_they_are(word: Word, encoded: str) -> None:
    """Both ways, within a frame of no stream."""
    frame = frames.decode(loans.encode(word))
    assert isinstance(frame, frames.Loan)
    assert (frame.stream, frame.word.hex()) == (0, encoded)
    assert loans.decode(frame) == word


NO_PORT = bytes.fromhex(GOLDEN[2][1].replace("cd1f40", "ce00010000"))


@pytest.mark.parametrize("word", [b"", b"\xc1", b"\x91\xa4wish", b"\x92\xa6recall\x01", NO_PORT])
def test_what_is_no_word_is_refused(word: bytes) -> None:
    """Neither rubbish, nor a kind that is not known, nor one that is too short."""
    with pytest.raises(WireError, match="no word about a loan"):
        loans.decode(frames.Loan(0, word))


@pytest.mark.parametrize("count", [-1, 2**53 + 1, 2**64 - 1])
def test_books_that_cannot_be_are_refused(count: int) -> None:
    """Less than nothing, or more than could be added up or told to others."""
    for word in (
        Account(1, count, {}, 0),
        Account(1, 0, {"ended": count}, 0),
        Account(1, 0, {}, count),
        Lend(1, "127.0.0.1", 1, "", count, 1),
        Lend(1, "127.0.0.1", 1, "", 1, count),
        Lend(1, "127.0.0.1", 1, "", 1, 1, float("nan")),
        Recall(count, ""),
    ):
        frame = frames.decode(loans.encode(word))
        assert isinstance(frame, frames.Loan)
        with pytest.raises(WireError, match="no word about a loan"):
            loans.decode(frame)


def test_a_newer_peer_may_say_more() -> None:
    """What follows the fields that are known is passed over."""
    longer = bytes.fromhex("93a6626f72726f77a26364" + "01")
    assert loans.decode(frames.Loan(0, longer)) == Borrow("cd")


def test_tokens_are_for_one_end_of_one_session_and_process() -> None:
    """A token of one says nothing of another."""
    words = {
        loans.token_words(of, session, instance)
        for of in ("router", "session")
        for session in "st"
        for instance in "ij"
    }
    assert len(words) == 8
