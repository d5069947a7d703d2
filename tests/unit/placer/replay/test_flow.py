"""Requests on their way tell of themselves when they end."""

from opentela.placer.replay.flow import AGAIN_MAX, AGAIN_S, Asked, Flow


def asked(*arrival_s: float, work: float = 1.0, takes_s: float = 2.0) -> list[Asked]:
    """Return requests of equal size."""
    return [Asked(at, work, takes_s, 300, 100, 50) for at in arrival_s]


def test_an_answered_request_is_told_of_when_it_ends() -> None:
    """With its lengths, and as somebody's answer."""
    flow = Flow("m")
    assert list(flow.pass_by(0.0, 10.0, 1.0, asked(8.5))) == []
    (record,) = flow.pass_by(10.0, 20.0, 1.0, [])
    assert (record.model, record.status, bool(record.session)) == ("m", 200, True)
    assert (record.tokens_in, record.tokens_cached, record.tokens_out) == (300, 100, 50)


def test_requests_begin_no_faster_than_they_are_served() -> None:
    """Ten at once at half a request a second: five begin in ten seconds, and four have ended."""
    flow = Flow("m")
    assert len(list(flow.pass_by(0.0, 10.0, 0.5, asked(*[0.0] * 10)))) == 5
    assert len(list(flow.pass_by(10.0, 20.0, 5.0, []))) == 5


def test_one_that_is_longer_than_a_turn_goes_on_in_the_next() -> None:
    """What was done of it counts."""
    flow = Flow("m")
    assert list(flow.pass_by(0.0, 10.0, 0.1, asked(5.0, work=1.0, takes_s=0.0))) == []
    assert len(list(flow.pass_by(10.0, 15.5, 0.1, []))) == 1


def test_the_shorter_answer_ends_first() -> None:
    """Though it began later."""
    flow = Flow("m")
    both = [Asked(0.0, 0.1, 9.0, 1, 0, 900), Asked(1.0, 0.1, 2.0, 1, 0, 200)]
    first, second = flow.pass_by(0.0, 10.0, 1.0, both)
    assert (first.tokens_out, second.tokens_out) == (200, 900)


def test_who_meets_no_replica_is_turned_away_and_asks_again() -> None:
    """Each minute, until there is one; then all are answered."""
    flow = Flow("m")
    refused = list(flow.pass_by(90.0, 100.0, 0.0, asked(95.0, 96.0)))
    assert [(one.status, one.session) for one in refused] == [(503, "")] * 2
    assert list(flow.pass_by(100.0, 110.0, 0.0, [])) == []
    assert len(list(flow.pass_by(110.0, 100.0 + AGAIN_S, 0.0, []))) == 2
    answered = list(flow.pass_by(160.0, 170.0, 1.0, []))
    assert [one.status for one in answered] == [200, 200]


def test_a_crowd_that_waits_is_not_told_of_one_by_one() -> None:
    """How many repeat a request says little."""
    flow = Flow("m")
    crowd = asked(*[99.0] * (2 * AGAIN_MAX))
    assert len(list(flow.pass_by(90.0, 100.0, 0.0, crowd))) == AGAIN_MAX
