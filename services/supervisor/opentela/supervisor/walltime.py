"""When an allocation ends, and what must have happened before.

::

    ──────── serve ────────▶ drain_at ── running requests finish ──▶ leave_at ── stop ──▶ ends_at
                             no new work                             session LEFT

A scheduler that ends a job sends SIGTERM to the batch shell only, or kills at once: whoever waits
for the signal is late.
"""

import math
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from opentela.core.errors import ConfigError
from opentela.supervisor.config import WalltimeConfig

_END_VARIABLE: Final = "SLURM_JOB_END_TIME"
_UNITS: Final = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
LENGTH_MAX_S: Final = 10 * 366 * 86400.0
"""No allocation is longer; what is said to be so is a slip, or a word for no end at all."""
_WORDS: Final = re.compile(
    r"(?:(\d+(?:\.\d+)?)d)?(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?"
)
_CLOCK: Final = re.compile(r"(?:(\d{1,9})-)?(\d{1,9}):(\d{1,2})(?::(\d{1,2}))?")
_SECONDS: Final = re.compile(r"\d{1,15}(?:\.\d*)?")
_SHOWN_MAX: Final = 32
"""Characters of what is no time that a message repeats."""

WARNED_BEFORE_S: Final = 180.0
"""A warning so near to the end is taken for one of the end: Slurm sends it up to a minute early."""
ECHO_S: Final = 0.5
"""A warning so soon after another is the same one, which came by two ways."""
REPEATED_S: Final = 60.0
"""A warning that is repeated within this is meant: a scheduler warns of an end once."""


class Walltime(NamedTuple):
    """Instants of an allocation's end, in Unix seconds."""

    drain_at: float
    leave_at: float
    ends_at: float


def duration_s(text: str, *, field: str) -> float:
    """Return the seconds that `2h`, `1d12h`, `90m`, `1:30:00` or `1-00:00` mean.

    Raises:
        ConfigError: It is none of these; the message names *field*.
    """
    words = _WORDS.fullmatch(text) if text else None
    if words:
        seconds = sum(
            float(part) * unit
            for part, unit in zip(words.groups(), _UNITS.values(), strict=True)
            if part
        )
    elif clock := _CLOCK.fullmatch(text):
        # Slurm's own forms; days-hours:minutes has no seconds, hours:minutes neither.
        days, hours, minutes, rest = (int(part or 0) for part in clock.groups())
        seconds = days * 86400.0 + hours * 3600.0 + minutes * 60.0 + rest
    else:
        seconds = 0.0
    if not 0 < seconds <= LENGTH_MAX_S:
        raise ConfigError(
            f"{field} = {text[:_SHOWN_MAX]!r} is not a length of time",
            remedy="write it as 2h, 90m, 1d12h or hours:minutes:seconds",
        )
    return seconds


def end(flag: str, environ: Mapping[str, str], wall: float) -> float:
    """Return when the allocation ends, in Unix seconds; 0 when nobody knows.

    The earlier of `--walltime` and the environment's word counts. The former is a length of time,
    or `@` and Unix seconds.

    Raises:
        ConfigError: Either is malformed.
    """
    ends = []
    if flag.startswith("@"):
        ends.append(_instant(flag[1:], field="--walltime", wall=wall))
    elif flag:
        ends.append(wall + duration_s(flag, field="--walltime"))
    if given := environ.get(_END_VARIABLE, ""):
        ends.append(_instant(given, field=f"${_END_VARIABLE}", wall=wall))
    return min(ends, default=0.0)


def plan(config: WalltimeConfig, *, ends_at: float, wall: float) -> Walltime | None:
    """Return what must happen when, or None for an allocation without an end.

    Raises:
        ConfigError: Nothing could be served before the end.
    """
    if not ends_at:
        return None
    left_s = ends_at - wall
    if left_s <= config.reserve_s:
        raise ConfigError(
            f"the allocation ends in {max(0.0, left_s):.0f} s, and leaving takes"
            f" walltime.reserve_s = {config.reserve_s:.0f} s of that",
            remedy="ask for more time, or set walltime.reserve_s lower",
        )
    return replan(config, ends_at=ends_at, wall=wall)


def replan(config: WalltimeConfig, *, ends_at: float, wall: float) -> Walltime | None:
    """Return what must happen when, of an end that moved: it may even be too near."""
    if not ends_at:
        return None
    leave_at = ends_at - config.reserve_s
    margin_s = min(config.margin_s, config.margin_share_max * max(0.0, leave_at - wall))
    return Walltime(leave_at - margin_s, leave_at, ends_at)


def _instant(text: str, *, field: str, wall: float) -> float:
    """Return the Unix seconds that *text* names.

    Raises:
        ConfigError: It names none at which an allocation could end.
    """
    seconds = float(text) if _SECONDS.fullmatch(text) else math.inf
    if seconds > wall + LENGTH_MAX_S:
        raise ConfigError(
            f"{field} = {text[:_SHOWN_MAX]!r} is not a Unix time",
            remedy="correct it, or omit it and give --walltime a length such as 2h",
        )
    return seconds


def is_foreseen(walltime: Walltime | None, wall: float, *, warned_at: float) -> bool:
    """Return whether a warning tells nothing new: the end is near, planned for, and told once.

    Any other is that of a preemption, of a job whose end nobody knows, or of whoever insists.

    Args:
        walltime: What is planned.
        wall: Unix seconds of now.
        warned_at: When we were warned before; 0 for never.
    """
    if walltime is None or walltime.ends_at - wall > WARNED_BEFORE_S:
        return False
    return not ECHO_S <= wall - warned_at <= REPEATED_S
