"""Where the time of one answer went adds up."""

from opentela.router.stopwatch import Stopwatch
from opentela.wire.frames import Timings


def test_the_parts_are_told_in_milliseconds() -> None:
    """Two of them by other clocks than the session's."""
    watch = Stopwatch(10.0)
    watch.chosen_s = 0.001
    watch.opened_at = 10.004
    line = watch.line(10.014, Timings(end_s=0.007))
    assert line == (
        b"x-otela-timing: ingress;dur=3.000, lookup;dur=1.000, mesh;dur=3.000,"
        b" session;dur=7.000\r\n"
    )


def test_a_session_that_tells_no_times_leaves_all_to_the_mesh() -> None:
    """It may be older than the header."""
    assert b"mesh;dur=5.000, session;dur=0.000" in Stopwatch(1.0).line(1.005, None)
