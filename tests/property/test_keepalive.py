"""Whatever is sent and heard when: a live server is kept, a dead one is given up in time."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opentela.mesh.keepalive import Due, KeepAlive

EVERY_S = 2.0
LIMIT_S = 6.0
SETTLED_AFTER = 6
"""Beats; by then both connections have found their turn, wherever they began."""

TURNS_MAX = 1000
"""Of what happens in one gap: more means that a deadline which has passed is due again."""

beats = st.lists(st.floats(0.9, 1.1), min_size=20, max_size=20)
anything_sent = st.lists(st.floats(0.02, 5.0), min_size=30, max_size=30)


class Connection:
    """A keep-alive, and a server that answers every ping after *answer_s* until it is mute."""

    def __init__(self, answer_s: float, *, mute_at: float = math.inf, begin: float = 0.0) -> None:
        self.alive = KeepAlive(begin, every_s=EVERY_S)
        self.now = begin
        self.heard_at = begin
        self.alone: list[float] = []
        self.rode: list[float] = []
        self.ended_at: float | None = None
        self._answer_s = answer_s
        self._mute_at = mute_at
        self._answers: list[float] = []

    def go_to(self, when: float) -> None:
        """Let time pass, from one thing that happens to the next."""
        for _ in range(TURNS_MAX):
            if self.ended_at is not None:
                return
            answer_at = self._answers[0] if self._answers else math.inf
            self.now = min(answer_at, self.alive.wake_at, when)
            if self.now == answer_at:
                self.heard_at = self._answers.pop(0)
                self.alive.heard(self.now)
            elif self.now == self.alive.wake_at:
                self._act(self.alive.step(self.now))
            else:
                return
        raise AssertionError("time stands still")

    def send(self) -> bool:
        """Send a message; say whether a ping rode with it."""
        if not self.alive.rides(self.now):
            return False
        self.rode.append(self.now)
        self._ask()
        return True

    def _act(self, due: Due) -> None:
        if due is Due.PING:
            self.alone.append(self.now)
            self._ask()
        elif due is Due.END:
            self.ended_at = self.now

    def _ask(self) -> None:
        if self.now + self._answer_s < self._mute_at:
            self._answers.append(self.now + self._answer_s)


@given(gaps=anything_sent, answer_s=st.floats(0.0, 3.5))
def test_a_server_that_answers_is_kept(gaps: list[float], answer_s: float) -> None:
    """However slow it is within reason, and whatever we say to it."""
    connection = Connection(answer_s)
    for gap in gaps:
        connection.go_to(connection.now + gap)
        connection.send()
    assert connection.ended_at is None


@given(gaps=anything_sent, answer_s=st.floats(0.0, 1.0), mute_at=st.floats(0.0, 30.0))
def test_one_that_falls_silent_is_given_up_in_time(
    gaps: list[float], answer_s: float, mute_at: float
) -> None:
    """Six seconds after its last word: asked at least once, it had most of four to answer."""
    connection = Connection(answer_s, mute_at=mute_at)
    for gap in (*gaps, 2 * LIMIT_S + mute_at):
        connection.go_to(connection.now + gap)
        connection.send()
    assert connection.ended_at is not None
    silent_s = connection.ended_at - connection.heard_at
    assert silent_s == pytest.approx(LIMIT_S)
    asked = [at for at in connection.rode + connection.alone if at > connection.heard_at]
    assert connection.ended_at - min(asked) >= 3.75 - 1e-6


@given(gaps=beats, answer_s=st.floats(0.0, 0.3), apart_s=st.floats(0.0, 3.0))
def test_no_ping_travels_alone_while_beats_are_shared_out(
    gaps: list[float], answer_s: float, apart_s: float
) -> None:
    """Between two connections, each beat takes along the ping of one, and they take turns."""
    control, data = Connection(answer_s), Connection(answer_s, begin=-apart_s)
    now = 0.0
    carried = []
    for gap in gaps:
        now += gap
        control.go_to(now)
        data.go_to(now)
        by_data = not control.alive.is_waiting and not data.alive.is_waiting and data.send()
        carried.append((now, by_data, by_data or control.send()))
    settled_at, _, _ = carried[SETTLED_AFTER]
    assert max((*control.alone, *data.alone), default=0.0) < settled_at
    turns = carried[SETTLED_AFTER:]
    assert all(rode for _, _, rode in turns)
    assert all(one != following for (_, one, _), (_, following, _) in pairwise(turns))


@given(st.floats(7.0, 1e6), st.floats(0.0, 2.0))
def test_standing_still_ends_nothing(still_s: float, after_s: float) -> None:
    """The server is asked when we go on, and has its time to answer."""
    alive = KeepAlive(0.0, every_s=EVERY_S)
    alive.heard(after_s)
    assert alive.step(after_s + still_s) is not Due.END
    assert alive.wake_at > after_s + still_s
