"""The books of a loan: what the router counts, and what the session may conclude from it."""

from hypothesis import given
from hypothesis import strategies as st

from opentela.stream.loan import ENDED, REST_S, STALE_S, Borrowed, Lent
from opentela.wire.frames import FailKind
from opentela.wire.loans import Account

NOW = 100.0


def test_no_more_begins_than_was_lent_for() -> None:
    """The next one takes the channel, until one has ended."""
    book = Borrowed(1, streams_max=2)
    for _ in range(2):
        assert book.may_begin(NOW)
        book.begin()
    assert not book.may_begin(NOW)
    book.end(NOW, ENDED)
    assert book.may_begin(NOW)


def test_nothing_begins_on_a_loan_that_is_closed() -> None:
    """It is over once what runs has ended."""
    book = Borrowed(1, streams_max=2)
    book.begin()
    book.is_closed = True
    assert not book.may_begin(NOW)
    assert not book.is_over
    book.end(NOW, ENDED)
    assert book.is_over


def test_a_loan_rests_after_its_engine_was_not_there() -> None:
    """Whose port that is now, the session knows; other failures are no reason."""
    book = Borrowed(1, streams_max=9)
    for kind in (FailKind.ENGINE_LOST, FailKind.ENGINE_UNREACHABLE):
        book.begin()
        book.end(NOW, kind)
        assert not book.may_begin(NOW + REST_S - 0.1)
        assert book.may_begin(NOW + REST_S)
    book.begin()
    book.end(NOW + REST_S, FailKind.DEADLINE)
    assert book.may_begin(NOW + REST_S)


def test_there_is_news_while_something_runs_or_was_not_told() -> None:
    """A session that hears nothing may take that for nothing."""
    book = Borrowed(1, streams_max=9)

    def has_news(*, after_telling: bool) -> bool:
        if after_telling:
            book.told(book.account())
        return book.has_news

    assert not has_news(after_telling=True)
    book.begin()
    assert has_news(after_telling=True)
    book.end(NOW, ENDED)
    assert has_news(after_telling=False)
    assert not has_news(after_telling=True)


def test_what_is_new_in_an_account_is_counted_once() -> None:
    """Repeated or late ones change nothing."""
    lent = Lent(1, NOW)
    first = Account(1, 3, {ENDED: 1}, 100)
    assert lent.take(NOW, first) == first
    assert lent.running == 2
    second = Account(1, 4, {ENDED: 2, "deadline": 1}, 150)
    assert lent.take(NOW, second) == Account(1, 1, {ENDED: 1, "deadline": 1}, 50)
    for late in (second, first):
        news = lent.take(NOW, late)
        assert (news.begun, news.ended, news.received) == (0, {}, 0)
    assert lent.running == 1


def test_a_recalled_loan_binds_until_the_router_has_said_the_last_word() -> None:
    """Something may have begun since it last told."""
    lent = Lent(1, NOW)
    assert lent.running == 0
    lent.is_recalled = True
    assert lent.running == 1
    lent.take(NOW, Account(1, 2, {}, 0, is_closed=True))
    assert lent.running == 2
    assert not lent.is_over
    lent.take(NOW, Account(1, 2, {ENDED: 2}, 9, is_closed=True))
    assert lent.running == 0
    assert lent.is_over


def test_word_from_before_the_last_one_opens_nothing_again() -> None:
    """It may come over the mesh, behind what the channel had brought."""
    lent = Lent(1, NOW)
    lent.take(NOW, Account(1, 2, {ENDED: 2}, 9, is_closed=True))
    lent.take(NOW, Account(1, 2, {ENDED: 2}, 9))
    assert lent.is_over


def test_a_router_that_knows_no_such_loan_has_closed_it() -> None:
    """Its last word was lost with the channel; nothing runs, and nothing is counted twice."""
    lent = Lent(1, NOW)
    lent.take(NOW, Account(1, 3, {ENDED: 2}, 100))
    lent.is_recalled = True
    news = lent.take(NOW, Account(1, 0, {}, 0, is_closed=True))
    assert (news.begun, news.ended, news.received) == (0, {}, 0)
    assert lent.is_over


def test_old_word_of_what_runs_is_stale() -> None:
    """The engine is not judged by it; where nothing runs, nothing is to be told."""
    lent = Lent(1, NOW)
    assert not lent.is_stale(NOW + 10 * STALE_S)
    lent.take(NOW, Account(1, 1, {}, 0))
    assert not lent.is_stale(NOW + STALE_S)
    assert lent.is_stale(NOW + STALE_S + 0.1)


@given(st.lists(st.sampled_from(["begin", "end", "tell", "lose", "close"]), max_size=60))
def test_both_books_agree_after_the_last_word(deeds: list[str]) -> None:
    """Whatever was told in between, or got lost."""
    ours, theirs = Borrowed(7, streams_max=1000), Lent(7, NOW)
    total = 0
    for deed in deeds:
        match deed:
            case "begin" if ours.may_begin(NOW):
                ours.begin()
            case "end" if ours.running:
                ours.received += 10
                ours.end(NOW, ENDED)
            case "tell":
                total += theirs.take(NOW, ours.account()).received
            case "close":
                ours.is_closed = theirs.is_recalled = True
            case _:
                pass  # lost on its way, or nothing to do
    ours.is_closed = theirs.is_recalled = True
    total += theirs.take(NOW, ours.account()).received
    assert (theirs.running, total, theirs.is_over) == (ours.running, ours.received, ours.is_over)
