"""Slurm's numbers of errors that mean something to us; they are the same in all releases."""

from typing import Final

UNKNOWN_JOB: Final = 2017
"""ESLURM_INVALID_JOB_ID."""
ALREADY_DONE: Final = 2021
"""ESLURM_ALREADY_DONE."""
GONE: Final = (UNKNOWN_JOB, ALREADY_DONE)
"""What a job need not be ended for."""
UNREACHABLE: Final = frozenset({1800, 1801, 1802, 1803, 1804, 1805, 1806, 1900, 2018, 5004})
"""Of a controller that is away, in standby or too busy; connections, time-outs, start-up."""
