"""When a server is asked whether it is there, and when it counts as gone."""

from opentela.mesh.keepalive import Due, KeepAlive

EVERY_S = 2.0


def test_a_silent_server_is_asked_and_asked_again_and_given_up() -> None:
    """After three intervals without a word, and not before."""
    alive = KeepAlive(0.0, every_s=EVERY_S)
    seen: list[tuple[float, Due]] = []
    while not seen or seen[-1][1] is not Due.END:
        now = alive.wake_at
        seen.append((now, alive.step(now)))
    assert seen == [(2.25, Due.PING), (4.5, Due.PING), (6.0, Due.END)]


def test_a_server_that_is_heard_is_not_asked() -> None:
    """Whatever it says by itself is a sign of life."""
    alive = KeepAlive(0.0, every_s=EVERY_S)
    alive.heard(2.0)
    assert alive.step(alive.wake_at) is Due.NOTHING
    assert alive.wake_at == 4.25
    alive.heard(4.0)
    assert not alive.rides(5.0)
    assert alive.step(alive.wake_at) is Due.NOTHING


def test_a_ping_that_rode_is_not_sent_alone() -> None:
    """With every second beat, and none in between."""
    alive = KeepAlive(0.0, every_s=EVERY_S)
    asked = []
    for beat in range(1, 9):
        if alive.wake_at <= beat:
            assert alive.step(alive.wake_at) is Due.NOTHING
        if alive.rides(float(beat)):
            asked.append(beat)
            alive.heard(beat + 0.01)
    assert asked == [2, 4, 6, 8]


def test_a_ping_that_travelled_alone_puts_the_next_beat_in_step() -> None:
    """It takes one along at once; or the one after the next would again come too late."""
    alive = KeepAlive(0.0, every_s=EVERY_S)
    assert alive.step(2.25) is Due.PING
    alive.heard(2.26)
    assert alive.rides(3.0)
    alive.heard(3.01)
    assert not alive.rides(4.0)
    assert alive.rides(5.0)


def test_one_that_was_asked_is_waited_for_until_it_is_heard() -> None:
    """Also if the answer comes in the same instant of a coarse clock."""
    alive = KeepAlive(0.0, every_s=EVERY_S)
    waits = [alive.is_waiting]
    assert alive.rides(2.0)
    waits.append(alive.is_waiting)
    alive.heard(2.0)
    waits.append(alive.is_waiting)
    assert waits == [False, True, False]


def test_messages_to_a_silent_server_do_not_keep_it() -> None:
    """Each takes a ping along when one is due; none counts as an answer."""
    alive = KeepAlive(0.0, every_s=EVERY_S)
    now = 0.0
    while alive.step(now) is not Due.END:
        now += 0.1
        alive.rides(now)
    assert 6.0 <= now < 6.2


def test_time_in_which_we_stood_still_is_not_its_silence() -> None:
    """It is asked first, and has its time to answer."""
    alive = KeepAlive(0.0, every_s=EVERY_S)
    assert alive.step(100.0) is Due.PING
    alive.heard(100.1)
    assert alive.step(alive.wake_at) is Due.NOTHING


def test_a_wake_up_that_is_a_little_late_forgives_nothing() -> None:
    """A loop is never quite in time, and would wait for ever."""
    alive = KeepAlive(0.0, every_s=EVERY_S)
    now = 0.0
    while alive.step(now) is not Due.END:
        now = alive.wake_at + 0.4
    assert now < 7.0
