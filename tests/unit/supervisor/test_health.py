"""What the evidence says of an engine, at literal times."""

import pytest

from opentela.supervisor.config import WatchConfig
from opentela.supervisor.health import Condition, Finding, Health

CONFIG = WatchConfig(
    failures_max=3,
    timeouts_max=2,
    hang_s=5.0,
    stall_s=60.0,
    blind_stall_s=600.0,
    load_stall_s=300.0,
    pause_s=30.0,
)


def loaded(now: float = 0.0) -> Health:
    health = Health(CONFIG, now)
    health.answered(now)
    return health


class TestLoading:
    """Between its start and its first good answer."""

    def test_takes_as_long_as_it_writes(self) -> None:
        """45 minutes are no failure while there is progress."""
        health = Health(CONFIG, 0.0)
        for minute in range(1, 46):
            health.failed(minute * 60.0 - 30, "connection refused")
            assert health.judge_loading(minute * 60.0 - 20).condition is Condition.UNKNOWN
            health.wrote(minute * 60.0)
        health.answered(2710.0)
        assert health.judge_loading(2710.0) == Finding(Condition.HEALTHY)

    def test_ends_when_it_was_silent_for_too_long(self) -> None:
        """The limit is on silence, and the reason says what the last probe met."""
        health = Health(CONFIG, 0.0)
        for second in range(1, 300):
            health.failed(float(second), "connection refused")
        assert health.judge_loading(299.9).condition is Condition.UNKNOWN
        assert health.judge_loading(300.0) == Finding(
            Condition.UNHEALTHY, "loading, and silent for 300 s (connection refused)"
        )

    def test_silence_without_a_failed_probe_is_reported_without_one(self) -> None:
        """Nothing is invented."""
        health = Health(CONFIG, 0.0)
        for second in range(0, 301, 10):
            health.timed_out(float(second))
        assert health.judge_loading(300.0).reason == "loading, and silent for 300 s"


class TestReady:
    """After its first good answer."""

    def test_bad_answers_in_a_row_are_illness(self) -> None:
        """One or two are not; a good one in between starts the count again."""
        health = loaded()
        health.failed(1.0, "status 503")
        health.failed(2.0, "status 503")
        assert health.judge_ready(2.0) == Finding(Condition.HEALTHY)
        health.answered(3.0)
        for now in (4.0, 5.0, 6.0):
            health.failed(now, "status 503")
        assert health.judge_ready(6.0) == Finding(
            Condition.UNHEALTHY, "3 health probes in a row failed (status 503)"
        )

    def test_unanswered_probes_and_no_sign_of_life_are_a_hang(self) -> None:
        """Both are needed: the number, and the time."""
        health = loaded()
        health.timed_out(3.0)
        assert health.judge_ready(5.5).condition is Condition.HEALTHY
        health.timed_out(5.9)
        assert health.judge_ready(5.9) == Finding(Condition.HUNG, "no sign of life for 5.9 s")

    def test_many_quick_time_outs_are_no_hang_before_their_time(self) -> None:
        """A short probe time-out must not shorten the hang limit."""
        health = loaded()
        for now in (1.0, 2.0, 3.0, 4.0):
            health.timed_out(now)
        assert health.judge_ready(4.9).condition is Condition.HEALTHY
        assert health.judge_ready(5.0).condition is Condition.HUNG

    def test_a_token_proves_life_while_probes_go_unanswered(self) -> None:
        """A busy engine answers probes late."""
        health = loaded()
        health.carried(0.5, running=4, received=100)
        for now in (3.0, 6.0, 9.0):
            health.timed_out(now)
            health.carried(now, running=4, received=int(100 + now))
        assert health.judge_ready(9.0).condition is Condition.HEALTHY
        health.timed_out(12.0)
        assert health.judge_ready(14.0).condition is Condition.HUNG

    def test_refusals_and_time_outs_count_beside_each_other(self) -> None:
        """An engine that alternates between two kinds of death is not alive."""
        health = loaded()
        for now in (1.0, 3.0, 5.0):
            health.timed_out(now)
            health.failed(now + 1, "connection reset")
        assert health.judge_ready(6.0).condition is Condition.UNHEALTHY


class TestProgress:
    """Probes are answered, but what comes out?"""

    def test_no_token_for_too_long_with_requests_running_is_a_hang(self) -> None:
        """Good answers to probes do not help."""
        health = loaded()
        health.counted(0.0, 1000.0)
        health.carried(0.0, running=2, received=0)
        for second in range(1, 60):
            health.answered(float(second))
        assert health.judge_ready(59.9).condition is Condition.HEALTHY
        assert health.judge_ready(60.0) == Finding(
            Condition.HUNG, "no token for 60 s with 2 requests running"
        )

    @pytest.mark.parametrize("how", ["bytes", "tokens"])
    def test_a_byte_or_a_token_starts_the_time_again(self, how: str) -> None:
        """Either witness will do."""
        health = loaded()
        health.counted(0.0, 1000.0)
        health.carried(0.0, running=1, received=0)
        for now in range(10, 200, 10):
            if how == "bytes":
                health.carried(float(now), running=1, received=now)
                health.counted(float(now), 1000.0)
            else:
                health.counted(float(now), 1000.0 + now)
            assert health.judge_ready(float(now)).condition is Condition.HEALTHY

    def test_an_idle_engine_owes_no_token(self) -> None:
        """Without requests nothing can stall."""
        health = loaded()
        health.counted(0.0, 1000.0)
        for second in range(0, 3600, 10):
            health.answered(float(second))
        assert health.judge_ready(3600.0).condition is Condition.HEALTHY

    def test_requests_that_were_given_up_do_not_wind_the_clock_back(self) -> None:
        """Routers cancel after their own time-out; the stall is older than any request."""
        health = loaded()
        health.counted(0.0, 1.0)
        now = 0.0
        while health.judge_ready(now).condition is Condition.HEALTHY:
            health.carried(now, running=1, received=0)
            now += 20.0
            health.carried(now, running=0, received=0)
            now += 20.0
            health.answered(now)
            assert now < 400.0
        assert now == 120.0  # three times twenty seconds of waiting

    def test_an_engine_that_counts_no_tokens_gets_more_time(self) -> None:
        """An answer in one piece shows nothing until it is complete."""
        health = loaded()
        health.carried(0.0, running=1, received=0)
        for second in range(10, 600, 10):
            health.answered(float(second))
        assert health.judge_ready(599.0).condition is Condition.HEALTHY
        assert health.judge_ready(600.0).condition is Condition.HUNG


class TestOurOwnPauses:
    """A supervisor that was stopped or starved has seen nothing."""

    def test_a_pause_is_no_evidence_of_a_hang(self) -> None:
        """After it, the engine gets its full time again."""
        health = loaded()
        health.timed_out(2.0)
        health.timed_out(100.0)
        assert health.judge_ready(100.0).condition is Condition.HEALTHY
        assert health.judge_ready(103.1).condition is Condition.HUNG

    def test_a_pause_is_no_stall(self) -> None:
        """Only time in which a token could have been seen counts."""
        health = loaded()
        health.counted(0.0, 1.0)
        health.carried(0.0, running=1, received=0)
        health.answered(1000.0)
        assert health.judge_ready(1000.0).condition is Condition.HEALTHY

    def test_a_pause_is_no_silence_while_loading(self) -> None:
        """Its output waits in the pipe."""
        health = Health(CONFIG, 0.0)
        assert health.judge_loading(1000.0).condition is Condition.UNKNOWN

    def test_time_never_goes_back(self) -> None:
        """A shell that mixes clocks up is found at once."""
        health = loaded(5.0)
        with pytest.raises(AssertionError, match="time went back"):
            health.answered(4.0)
