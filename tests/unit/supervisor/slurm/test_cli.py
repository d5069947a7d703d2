"""What `otela submit` makes of its options, before Slurm is asked anything."""

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from opentela.core.errors import OtelaError
from opentela.mesh import access as accesses
from opentela.mesh import setup
from opentela.mesh.layout import MeshLayout
from opentela.supervisor.slurm import cli

NOW = 1_800_000_000.0


@pytest.fixture(scope="module")
def access(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a provider's access file."""
    folder = tmp_path_factory.mktemp("mesh")
    listeners = setup.Listeners(hosts=("127.0.0.1",), port=1, leaf_port=2, websocket_port=3)
    setup.init_mesh(folder, listeners, name="m", now=NOW, has_jetstream=False)
    path = folder / "me.toml"
    accesses.write(path, setup.invite(MeshLayout(folder), provider="ethz", now=NOW))
    return str(path)


def submitted(access: str, *options: str) -> str:
    done = CliRunner().invoke(cli.submit, ["--access", access, "--dry-run", *options])
    if isinstance(done.exception, OtelaError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


def test_a_dry_run_prints_a_script_that_bash_and_sbatch_take(
    access: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And leaves no trace."""
    monkeypatch.setenv("OTELA_JOBS", str(tmp_path / "jobs"))
    told = submitted(
        access,
        *("--model", "Qwen/Qwen3-8B", "--gpus", "2", "--time", "8h", "--lasting"),
        *("--module", "cuda/12", "--partition", "gpu", "--sbatch=--exclusive"),
    )
    lines = told.splitlines()
    assert lines[0] == "#!/bin/bash"
    for wanted in (
        *("#SBATCH --job-name=otela-qwen3-8b", "#SBATCH --time=0-08:00:00"),
        *("#SBATCH --gres=gpu:2", "#SBATCH --partition=gpu", "#SBATCH --exclusive"),
        *("#SBATCH --signal=USR1@60", "module load cuda/12"),
    ):
        assert wanted in lines
    assert "vllm serve Qwen/Qwen3-8B --port '{port}' --tensor-parallel-size 2" in told
    assert subprocess.run(["bash", "-n", "-c", told], check=False).returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_a_short_job_is_not_warned(access: str) -> None:
    """It would be while it starts."""
    assert "--signal" not in submitted(access, "--time", "4m", "--", "engine")
    assert "--signal" in submitted(access, "--time", "5m", "--", "engine")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--time", "2h"], "nothing to run"),
        (["--time", "2h", "--model", "m", "--", "e"], "both a model and a command were given"),
        (["--time", "two", "--model", "m"], "--time = 'two'"),
        (["--time", "10s", "--model", "m"], "walltime.reserve_s"),
        (["--time", "2h", "--model", "m", "--name", "A B"], "--name 'A B'"),
        (["--time", "2h", "--model", "m", "--env", "1=2"], "--env '1=2'"),
        (["--time", "2h", "--model", "m", "--sbatch", "x"], "--sbatch 'x'"),
        (["--time", "2h", "--model", "m", "--set", "beat=1"], "unknown field beat"),
        (["--time", "2h", "--model", "m", "--template", "/no/such"], "--template /no/such"),
        (["--time", "2h", "--model", "m", "--template", sys.executable], "no text"),
        (["--time", "2h", "--model", "m", "--label", "x"], "--label 'x'"),
        (
            ["--time", "2h", "--model", "m", "--account", "a\n#SBATCH --wrap=b"],
            "not an option of sbatch",
        ),
        (["--time", "9" * 400 + "d", "--model", "m"], "is not a length of time"),
    ],
)
def test_what_does_not_fit_is_one_line_before_a_job_waits_for_hours(
    access: str, options: list[str], words: str
) -> None:
    """With the option's name, and what to do."""
    with pytest.raises(OtelaError) as caught:
        submitted(access, *options)
    assert words in str(caught.value)
    assert caught.value.remedy


def test_a_job_can_run_an_agent(access: str, tmp_path: Path) -> None:
    """It gets the same surroundings and no engine; its configuration is an agent's."""
    told = submitted(access, "--agent", "--gpus", "4", "--time", "8h", "--set", "replicas_max=3")
    assert "#SBATCH --job-name=otela-agent" in told
    assert "#SBATCH --gres=gpu:4" in told
    assert f"agent --access {access} --set replicas_max=3 --set supervisor.ready_file=" in told
    assert "opentela.cli start" not in told
    assert subprocess.run(["bash", "-n", "-c", told], check=False).returncode == 0
    for wrong, remedy in (
        (("--model", "m"), "--agent and --model"),
        (("--image", "x.sif"), "--agent and --image"),
        (("--gpus", "0"), "needs GPUs"),
        (("--set", "beat_s=1"), "beat_s"),
    ):
        with pytest.raises(OtelaError, match=remedy):
            submitted(access, "--agent", "--time", "8h", *wrong)
    assert submitted(access, "--agent", "--time", "8h", "--gpus", "0", "--set", "slots=2")
    assert list(tmp_path.iterdir()) == []
