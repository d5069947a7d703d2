"""Whether a router is gone, or we are cut off, by what the servers of the mesh say."""

from opentela.stream.hearing import CONFIRM_S, Hearers, Hearing


def test_a_router_that_is_not_there_twice_is_gone() -> None:
    """If somebody else was there meanwhile."""
    hearers = Hearers()
    assert hearers.missed(0.0, "r") is Hearing.ASK_AGAIN
    assert hearers.missed(CONFIRM_S / 2, "r") is Hearing.WAIT
    assert hearers.missed(CONFIRM_S, "r") is Hearing.GONE


def test_nobody_is_gone_while_we_are_cut_off() -> None:
    """However often we ask; once somebody hears us again, it counts."""
    hearers = Hearers()
    now = 0.0
    for _ in range(5):
        assert hearers.missed(now, "r") is Hearing.ASK_AGAIN
        hearers.nobody_hears(now + 0.005)
        now += CONFIRM_S
    assert hearers.missed(now, "r") is Hearing.ASK_AGAIN
    assert hearers.missed(now + CONFIRM_S, "r") is Hearing.GONE


def test_two_misses_far_apart_are_two_firsts() -> None:
    """Between them it may have heard a thousand frames."""
    hearers = Hearers()
    assert hearers.missed(0.0, "r") is Hearing.ASK_AGAIN
    assert hearers.missed(60.0, "r") is Hearing.ASK_AGAIN


def test_routers_are_judged_apart() -> None:
    """And one for which nothing runs is forgotten."""
    hearers = Hearers()
    hearers.missed(0.0, "r")
    assert hearers.missed(CONFIRM_S, "q") is Hearing.ASK_AGAIN
    hearers.forget("r")
    assert hearers.missed(CONFIRM_S, "r") is Hearing.ASK_AGAIN
