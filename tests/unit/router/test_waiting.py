"""Who came first is asked first, and a session that has room again is theirs before anybody's."""

from opentela.core.ids import SessionId
from opentela.router.config import WaitConfig
from opentela.router.waiting import Waiting

A, B = SessionId("a"), SessionId("b")


class Someone:
    """A request that waits."""

    wants = ()

    def recheck(self) -> None:
        """Do nothing."""


def made(**config: int) -> Waiting:
    """Return one in which two requests fill a session, and three may wait."""
    return Waiting(WaitConfig(**{"session_requests_max": 2, "depth_max": 3, **config}))


def test_a_session_is_full_with_as_many_as_it_may_have() -> None:
    """And no longer when one of them has ended."""
    waiting = made()
    waiting.started(A)
    assert not waiting.full
    waiting.started(A)
    waiting.started(B)
    assert list(waiting.full) == [A]
    assert waiting.ended(A) is False
    assert not waiting.full


def test_room_is_kept_for_who_waits() -> None:
    """Until they have been asked."""
    waiting = made()
    waiting.join("m", Someone())
    for _ in "ab":
        waiting.started(A)
    assert waiting.ended(A) is True
    assert list(waiting.full) == [A]
    assert waiting.free(A)
    assert not waiting.full
    waiting.started(A)
    assert list(waiting.full) == [A]
    assert not waiting.free(A)
    assert list(waiting.full) == [A]


def test_nobody_is_asked_about_a_session_that_was_not_full() -> None:
    """Who waits could have gone there."""
    waiting = made()
    waiting.join("m", Someone())
    waiting.started(A)
    assert waiting.ended(A) is False


def test_lines_are_in_order_of_arrival_and_bounded() -> None:
    """Whoever is there already keeps its place."""
    waiting, three = made(), [Someone() for _ in range(3)]
    for one in (*three, three[0]):
        waiting.join("m", one)
    other = Someone()
    waiting.join("n", other)
    assert [waiting.line(model) for model in ("m", "n", "x")] == [three, [other], []]
    assert [waiting.waits(model, other) for model in ("m", "n", "x")] == [False, True, False]
    assert [waiting.has_room(model) for model in ("m", "n", "x")] == [False, True, True]
    assert (waiting.depth("m"), waiting.depth("x"), len(waiting)) == (3, 0, 4)


def test_who_leaves_is_forgotten() -> None:
    """Also a model that nobody waits for."""
    waiting, one = made(), Someone()
    waiting.leave("m", one)
    waiting.join("m", one)
    assert waiting.models() == ["m"]
    waiting.leave("m", one)
    assert (len(waiting), waiting.models()) == (0, [])
