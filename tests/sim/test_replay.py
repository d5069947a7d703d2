"""A seed replays a run byte for byte, and a failure says how."""

import os
import re
import subprocess
import sys

import pytest

from opentela.testing.sim.checkers import Violation
from opentela.testing.sim.cluster import Cluster
from opentela.testing.sim.run import Run, Scenario, SimFailedError
from opentela.testing.sim.scenarios import SWARM, mesh

COMMAND = (sys.executable, "-m", "opentela.testing.sim")


def run(*arguments: str, hash_seed: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PYTHONHASHSEED": hash_seed}
    return subprocess.run(
        [*COMMAND, *arguments], env=environ, capture_output=True, text=True, check=False
    )


def test_a_run_depends_on_its_seed_alone() -> None:
    """Two processes whose sets and dicts of strings are ordered differently see the same."""
    outputs = [
        run("--seed", "3", "--seeds", "6", hash_seed=one).stdout.splitlines()[:-1]
        for one in ("0", "1", "random")
    ]
    assert outputs[0] == outputs[1] == outputs[2]
    assert len(outputs[0]) == 6
    assert len({re.search(r"trace (\w+)", line)[1] for line in outputs[0]}) == 6  # type: ignore[index]


def test_a_run_leaves_nothing_behind_for_the_next() -> None:
    """The same seed after others in one process leaves the same trace."""
    alone = Run(SWARM, 5).result()
    for seed in (6, 7):
        Run(SWARM, seed).result()
    assert Run(SWARM, 5).result() == alone


def _crash(cluster: Cluster, _rng: object) -> float:
    cluster.crash("gpu-0")
    return 2.0


def _complain(_run: Run) -> None:
    raise Violation("expected: the moon")


BROKEN = Scenario(name="swarm", form=lambda _rng: mesh(), faults=_crash, expect=_complain)


def test_a_failure_prints_seed_replay_and_diagram() -> None:
    """Whoever sees it needs nothing else."""
    with pytest.raises(SimFailedError) as failure:
        Run(BROKEN, 4).result()
    lines = str(failure.value).splitlines()
    assert re.fullmatch(r"seed 4 of swarm at \d+\.\d{3} s:", lines[0])
    assert "expected: the moon" in lines[1]
    assert lines[2] == "replay: python -m opentela.testing.sim --scenario swarm --seed 4 --trace"
    diagram = [line for line in lines[3:] if re.match(r" *\d+\.\d{4}  \S+ +[<>x!.] ", line)]
    assert len(diagram) == len(lines) - 3 > 10


def test_the_replay_line_prints_every_message() -> None:
    """Columns are time, node, message; the sum stands last."""
    done = run("--scenario", "swarm", "--seed", "2", "--trace", hash_seed="0")
    assert done.returncode == 0, done.stdout
    lines = done.stdout.splitlines()
    assert sum(" beat " in line for line in lines) > 50
    assert sum("claim" in line for line in lines) > 10
    assert lines[-1].startswith("1 runs held, 0 broke")
