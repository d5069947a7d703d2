"""The end of an allocation is known, and prepared for."""

import pytest

from opentela.core.errors import ConfigError
from opentela.supervisor.config import WalltimeConfig
from opentela.supervisor.walltime import Walltime, duration_s, end, is_foreseen, plan, replan

NOON = 1_800_000_000.0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2h", 7200),
        ("90m", 5400),
        ("45s", 45),
        ("1d12h", 129_600),
        ("1h30m", 5400),
        ("0.5h", 1800),
        ("1:30:00", 5400),
        ("01:30", 5400),
        ("1-00:00", 86_400),
        ("2-03:04:05", 183_845),
    ],
)
def test_lengths_are_read_in_words_and_as_slurm_writes_them(text: str, seconds: float) -> None:
    """What people write in job scripts works."""
    assert duration_s(text, field="--walltime") == seconds


@pytest.mark.parametrize(
    "text",
    [
        *("", "2", "h", "two hours", "0m", "-1h", "1:2:3:4", "2h 3m", "nan", "inf", "1e3s"),
        *("99999999999d", "9" * 400 + "d", "9" * 5000 + ":00:00", "11-00:00:00".rjust(40, "1")),
    ],
)
def test_a_length_that_is_none_is_refused_with_the_field_and_a_remedy(text: str) -> None:
    """A bare number is refused: minutes to Slurm, seconds to others."""
    with pytest.raises(ConfigError, match="--walltime") as caught:
        duration_s(text, field="--walltime")
    assert "2h" in caught.value.remedy


def test_the_earlier_of_flag_and_slurm_counts() -> None:
    """A flag cannot prolong a job."""
    assert end("", {}, NOON) == 0.0
    assert end("1h", {}, NOON) == NOON + 3600
    slurm = {"SLURM_JOB_END_TIME": str(int(NOON) + 600)}
    assert end("", slurm, NOON) == NOON + 600
    assert end("1h", slurm, NOON) == NOON + 600
    assert end("5m", slurm, NOON) == NOON + 300


def test_an_instant_can_be_given_instead_of_a_length() -> None:
    """Whoever starts us may know the end better than how long our own start takes."""
    assert end(f"@{NOON + 60:.0f}", {}, NOON) == NOON + 60
    with pytest.raises(ConfigError, match="--walltime"):
        end("@soon", {}, NOON)


@pytest.mark.parametrize(
    "text",
    ["soon", "nan", "inf", "-inf", "-5", "1e400", "1e18", "1_790_003_600", "4294967294", "9" * 400],
)
def test_what_can_be_no_end_names_who_said_so(text: str) -> None:
    """Nothing is guessed, and no clock is asked for the year 33658."""
    with pytest.raises(ConfigError, match=r"\$SLURM_JOB_END_TIME"):
        end("", {"SLURM_JOB_END_TIME": text}, NOON)
    with pytest.raises(ConfigError, match="--walltime"):
        end(f"@{text}", {}, NOON)


def test_no_end_needs_no_plan() -> None:
    """An allocation without an end is served for ever."""
    assert plan(WalltimeConfig(), ends_at=0.0, wall=NOON) is None


def test_a_long_allocation_drains_a_fixed_margin_before_it_leaves() -> None:
    """First no new work, then gone, then the end."""
    config = WalltimeConfig(margin_s=120.0, reserve_s=15.0)
    assert plan(config, ends_at=NOON + 7200, wall=NOON) == Walltime(
        NOON + 7200 - 135, NOON + 7200 - 15, NOON + 7200
    )


def test_a_short_allocation_spends_only_a_share_on_draining() -> None:
    """Five minutes are not two for work and three for leaving."""
    config = WalltimeConfig(margin_s=120.0, margin_share_max=0.2, reserve_s=15.0)
    assert plan(config, ends_at=NOON + 115, wall=NOON) == Walltime(
        NOON + 80, NOON + 100, NOON + 115
    )


@pytest.mark.parametrize("left_s", [-5.0, 0.0, 15.0])
def test_an_allocation_that_ends_at_once_is_refused(left_s: float) -> None:
    """Nothing could be served, and the reader learns why."""
    with pytest.raises(ConfigError, match=r"walltime\.reserve_s") as caught:
        plan(WalltimeConfig(reserve_s=15.0), ends_at=NOON + left_s, wall=NOON)
    assert "more time" in caught.value.remedy


def test_an_end_that_moved_is_planned_for_however_near_it_is() -> None:
    """Nobody can be asked for more time by then: what is left is used for leaving."""
    config = WalltimeConfig(margin_s=120.0, reserve_s=15.0)
    assert replan(config, ends_at=NOON + 5, wall=NOON) == Walltime(NOON - 10, NOON - 10, NOON + 5)
    assert replan(config, ends_at=0.0, wall=NOON) is None
    far = replan(config, ends_at=NOON + 7200, wall=NOON)
    assert far == plan(config, ends_at=NOON + 7200, wall=NOON)


def test_a_warning_near_the_planned_end_tells_nothing_new() -> None:
    """Earlier it is a preemption's; without a known end it is all that there is."""
    walltime = Walltime(NOON + 1000, NOON + 1100, NOON + 1120)
    assert not is_foreseen(walltime, NOON, warned_at=0)
    assert not is_foreseen(walltime, NOON + 939, warned_at=0)
    assert is_foreseen(walltime, NOON + 940, warned_at=0)
    assert not is_foreseen(None, NOON, warned_at=0)


def test_who_repeats_a_warning_means_it() -> None:
    """An echo is no repetition, and what was long ago was about something else."""
    walltime = Walltime(NOON + 1000, NOON + 1100, NOON + 1120)
    assert is_foreseen(walltime, NOON + 950, warned_at=NOON + 949.75)
    assert not is_foreseen(walltime, NOON + 950, warned_at=NOON + 949.5)
    assert not is_foreseen(walltime, NOON + 950, warned_at=NOON + 890)
    assert is_foreseen(walltime, NOON + 950, warned_at=NOON + 889)
