"""What Slurm's commands say where there is no Slurm, or one that is away, and what to do then."""

from pathlib import Path

import pytest

from opentela.supervisor.slurm.command_line import CommandLine
from opentela.supervisor.slurm.job import SlurmRefusedError, SlurmUnavailableError


def saying(folder: Path, words: str) -> CommandLine:
    """Return a Slurm whose squeue complains in these words."""
    program = folder / "squeue"
    program.write_text(f"#!/bin/sh\necho '{words}' >&2\nexit 1\n")
    program.chmod(0o755)
    return CommandLine({"PATH": f"{folder}:/usr/bin:/bin"})


@pytest.mark.parametrize(
    "words",
    [
        "squeue: error: _establish_config_source: failed to fetch config",
        "squeue: fatal: Could not establish a configuration source",
    ],
)
async def test_where_slurm_is_not_configured_nobody_is_told_to_wait(
    tmp_path: Path, words: str
) -> None:
    """But where to go, or what to set."""
    with pytest.raises(SlurmUnavailableError, match="finds no Slurm configuration") as caught:
        await saying(tmp_path, words).jobs()
    for wanted in ("login node", "SLURM_CONF", "--slurm-url"):
        assert wanted in caught.value.remedy


async def test_a_controller_that_is_away_is_waited_for(tmp_path: Path) -> None:
    """It is there, and will be again."""
    words = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"
    with pytest.raises(SlurmUnavailableError, match="Unable to contact") as caught:
        await saying(tmp_path, words).jobs()
    assert caught.value.remedy == "try again later"


async def test_any_other_complaint_is_passed_on(tmp_path: Path) -> None:
    """In Slurm's words."""
    with pytest.raises(SlurmRefusedError, match="Access denied"):
        await saying(tmp_path, "squeue: error: Access denied").jobs()


async def test_without_the_command_the_remedy_is_a_login_node(tmp_path: Path) -> None:
    """Not a number of the system."""
    with pytest.raises(SlurmUnavailableError, match="squeue: command not found") as caught:
        await CommandLine({"PATH": str(tmp_path)}).jobs()
    assert "login node" in caught.value.remedy
