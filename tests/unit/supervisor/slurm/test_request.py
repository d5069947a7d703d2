"""What is asked for becomes a job script that a shell reads as it was meant."""

import json
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from opentela.core.errors import ConfigError
from opentela.supervisor.slurm import asked
from opentela.supervisor.slurm.job import JobSpec
from opentela.supervisor.slurm.request import (
    EngineRecipe,
    Request,
    contained,
    engine_words,
    exports,
    job_spec,
    recipes,
    script,
    service_name,
)

TEMPLATE = asked.script_template(None)
LEAST = Request(
    name="a",
    otela=("otela",),
    folder="/jobs/a b",
    start=("--access", "/me.toml"),
    command=("engine", "--port", "{port}"),
    job=JobSpec(name="a", script="", time_limit_s=600, directory="/"),
)


def test_one_replica_is_one_node_and_no_gpu_unless_asked() -> None:
    """Slurm is asked for nothing that was not."""
    spec = job_spec(LEAST, TEMPLATE)
    assert (spec.name, spec.nodes, spec.tasks_per_node, spec.gres) == ("otela-a", 1, 1, "")


@pytest.mark.parametrize(
    ("fields", "nodes", "tasks", "gres", "all_gpus"),
    [
        ({"gpus": 4}, 1, 1, "gpu:4", 4),
        ({"gpus": 1, "replicas": 8, "replicas_per_node": 4}, 2, 4, "gpu:4", 8),
        ({"gpus": 4, "gpu_type": "h200", "replicas": 3}, 3, 1, "gpu:h200:4", 12),
        (
            {"gpus": 8, "replicas": 2, "nodes_per_replica": 2, "worker": ("w",)},
            *(4, 1, "gpu:8", 32),
        ),
    ],
)
def test_nodes_and_gpus_follow_from_the_replicas(
    fields: dict[str, object], nodes: int, tasks: int, gres: str, all_gpus: int
) -> None:
    """In a form that every release of Slurm takes."""
    request = replace(LEAST, **fields)
    spec = job_spec(request, TEMPLATE)
    assert (spec.nodes, spec.tasks_per_node, spec.gres) == (nodes, tasks, gres)
    assert request.all_gpus == all_gpus


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"replicas": 2, "replicas_per_node": 2, "nodes_per_replica": 2}, "exclude each other"),
        ({"nodes_per_replica": 2}, "--worker and --nodes-per-replica go together"),
        ({"worker": ("w",)}, "--worker and --nodes-per-replica go together"),
        ({"replicas": 3, "replicas_per_node": 2}, "do not fill nodes of 2"),
    ],
)
def test_parts_that_do_not_fit_are_refused(fields: dict[str, object], words: str) -> None:
    """Before a job waits for hours to fail."""
    with pytest.raises(ConfigError, match=words):
        job_spec(replace(LEAST, **fields), TEMPLATE)


STUBS = """
export SLURM_JOB_ID=7 SLURM_PROCID=${PROCID:-0} SLURM_STEP_NODELIST=nodes
srun() { while [[ $1 == --* ]]; do shift; done; "$@"; }
scontrol() { echo first; echo second; }
otela() { python3 -c 'import json, sys; print(json.dumps(sys.argv[1:]))' otela "$@"; }
engine() { python3 -c 'import json, sys; print(json.dumps(sys.argv[1:]))' engine "$@"; }
exec() { "$@"; exit 0; }
export -f scontrol otela engine exec
"""


def said_by(request: Request, tmp_path: Path, **environ: str) -> list[list[str]]:
    """Run the job script with stand-ins for Slurm's commands, and return the argv that each saw."""
    text = script(replace(request, folder=str(tmp_path / "a b")), STUBS + TEMPLATE)
    done = subprocess.run(
        ["bash", "-c", text],
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", **environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_words_of_a_command_reach_the_engine_untouched(tmp_path: Path) -> None:
    """Quotes, blanks, dollars, braces, and what only several nodes would replace."""
    words = ("engine", "it's", 'a "b" c', "$HOME", "`id`", "{port}", "{head}", "*", "a\nb", "")
    (argv,) = said_by(replace(LEAST, command=words), tmp_path)
    ready = f"ready_file={tmp_path}/a b/job-7.0/ready-0"
    assert argv == ["otela", "start", "--access", "/me.toml", "--set", ready, "--", *words]
    assert (tmp_path / "a b" / "job-7.0" / "status").read_text() == "0\n"


def test_a_replica_of_several_nodes_has_a_head_and_workers(tmp_path: Path) -> None:
    """What only the job knows is filled in when it runs."""
    request = replace(
        LEAST,
        nodes_per_replica=2,
        gpus=4,
        command=("engine", "--at={head}:{rendezvous}", "{nodes}", "{all_gpus}", "$x"),
        worker=("engine", "--worker", "{head}", "{rank}", "{port}", "{gpus}"),
    )
    (head,) = said_by(request, tmp_path)
    assert head[-5:] == ["engine", "--at=first:20112", "2", "8", "$x"]
    assert said_by(request, tmp_path, PROCID="1") == [
        ["engine", "--worker", "first", "1", "0", "4"],
    ]


def test_each_replica_is_a_step_of_its_own_share() -> None:
    """GPUs are told apart, memory is shared."""
    text = script(replace(LEAST, gpus=2, srun=("--mpi=none",)), TEMPLATE)
    assert "srun --exact --nodes=1 --ntasks=1 --mem=0 --gres=gpu:2 --mpi=none bash -c" in text
    assert '"${otela[@]}"' not in text
    lasting = script(replace(LEAST, lasts=True, prologue=("module load a",)), TEMPLATE)
    assert '"${otela[@]}" keep "$service" &' in lasting
    assert subprocess.run(["bash", "-n", "-c", lasting], check=False).returncode == 0
    assert "\nmodule load a\n" in lasting


def test_a_keeper_that_fails_is_started_again_and_ends_with_the_replicas(tmp_path: Path) -> None:
    """Its exit is no reason for the service to end with its job."""
    stubs = STUBS.replace(
        "otela() { python3",
        "sleep() { [[ $1 == 10 ]] && touch paused; }\n"
        'otela() { if [[ $1 == keep ]]; then touch "kept-$BASHPID"; [[ -e paused ]] || return 1;'
        ' trap "touch told; builtin exit 0" TERM; until [[ -e never ]]; do command sleep 0.05; done'
        "; fi; until [[ -e paused && $(ls kept-* | wc -l) == 2 ]]; do command sleep 0.05; done"
        "; command sleep 0.2; python3",
    )
    text = script(replace(LEAST, lasts=True, folder=str(tmp_path / "f")), stubs + TEMPLATE)
    done = subprocess.run(
        ["bash", "-c", text.replace("export -f", "export -f sleep")], cwd=tmp_path,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin"}, capture_output=True, text=True,
        check=False, timeout=30,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "told").exists()


def test_a_template_of_ones_own_may_use_what_is_known() -> None:
    """And is told what is not."""
    assert script(LEAST, "x @NAME@ @REPLICAS@") == "x a 1"
    with pytest.raises(ConfigError, match="@NODE@"):
        script(LEAST, "@NODE@")


def test_every_recipe_names_the_port_and_the_model() -> None:
    """Otherwise nothing could be served."""
    for name, recipe in asked.recipes().items():
        assert {"{port}", "{model}"} <= set(recipe.serve), name


def test_engines_are_started_as_they_want_it() -> None:
    """Several GPUs, several nodes."""
    recipe = EngineRecipe(
        serve=("e", "{model}"), gpus=("--gpus", "{gpus}"), head=("--head",), worker=("--work",)
    )
    assert engine_words(recipe, "m", gpus=1, nodes=1) == (("e", "m"), ())
    assert engine_words(recipe, "m", gpus=2, nodes=1) == (("e", "m", "--gpus", "{gpus}"), ())
    assert engine_words(recipe, "m", gpus=1, nodes=2) == (
        ("e", "m", "--gpus", "{gpus}", "--head"),
        ("e", "m", "--gpus", "{gpus}", "--work"),
    )
    with pytest.raises(ConfigError, match="--nodes-per-replica"):
        engine_words(EngineRecipe(serve=("e",)), "m", gpus=1, nodes=2)
    assert recipes('[x]\nserve = ["a"]')["x"].serve == ("a",)


def test_a_container_is_put_around_the_command() -> None:
    """With the GPUs, if there are any and nobody said how; the engine within is spared warnings."""
    assert contained((), "i.sif", options=(), gpus=1) == ()
    plain = contained(("e", "x y"), "i.sif", options=(), gpus=0)
    assert plain[:4] == ("apptainer", "exec", "i.sif", "sh")
    assert plain[-2:] == ("e", "x y")
    assert contained(("e",), "i.sif", options=("-B", "/s"), gpus=1)[2:6] == (
        *("--nv", "-B", "/s", "i.sif"),
    )
    assert "--nv" not in contained(("e",), "i.sif", options=("--rocm",), gpus=1)


def test_what_runs_in_a_container_does_not_hear_warnings() -> None:
    """Its words stay as they are."""
    code = "import signal, sys; print(signal.getsignal(10), signal.getsignal(1), sys.argv[1:])"
    words = contained(("python3", "-c", code, "a  b", "$x"), "i", options=(), gpus=0)[3:]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert said == "1 1 ['a  b', '$x']\n"


def test_a_name_is_made_from_the_model_or_refused() -> None:
    """Jobs are found by it."""
    assert service_name("", "Qwen/Qwen3-8B") == "qwen3-8b"
    assert service_name("", "/scratch/models/A b/") == "a-b"
    assert service_name("mine", "x") == "mine"
    for wrong in ("A", "a/b", "../x", "-a", "a" * 49):
        with pytest.raises(ConfigError, match="--name"):
            service_name(wrong, "x")
    with pytest.raises(ConfigError, match="--name"):
        service_name("", "…")


def test_variables_are_given_or_passed_on() -> None:
    """A secret need not stand in a command line."""
    assert exports(["A=b=c", "TOKEN", "E="], {"TOKEN": "t"}) == {"A": "b=c", "TOKEN": "t", "E": ""}
    for wrong in ("1A=b", "", "A B=c", "UNSET"):
        with pytest.raises(ConfigError, match="--env"):
            exports([wrong], {})
