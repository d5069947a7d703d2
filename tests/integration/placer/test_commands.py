"""The placer's commands on the inputs that documentation shows."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples" / "placement"


def otela(*arguments: str, cwd: Path = EXAMPLES) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "opentela.cli", *arguments],
        cwd=cwd,
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )


def test_the_published_case_is_planned_and_compared() -> None:
    """Its own placement comes out, with a bound, beside what the baseline does."""
    ended = otela(
        *("plan", "published.toml", "--inventory", "published-inventory.toml"),
        *("--gap", "0", "--compare", "--explain", "--json"),
    )
    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout)
    replicas = {(one["model"], one["pool"]): one["replicas"] for one in told["groups"]}
    assert replicas == {
        ("llama-2-13b", "a100"): 6,
        ("codellama-34b", "a100"): 5,
        ("codellama-34b", "gh200"): 8,
        ("llama-3.3-70b", "a100"): 2,
        ("llama-3.3-70b", "gh200"): 4,
    }
    assert told["gap"] < 2e-5
    worst = {one["name"]: min(one["judgement"]["served"].values()) for one in told["compared"]}
    assert worst["max-min"] > 3.7 * worst["memory-proportional"]
    assert "what limits" in told["explanation"][1]


@pytest.mark.parametrize("objective", ["max-min", "cost", "served", "slo", "latency"])
def test_a_plan_is_a_table_with_a_bound_and_moves(objective: str) -> None:
    """For every objective; what is locked is kept."""
    ended = otela(
        *("plan", "demand.toml", "--inventory", "inventory.toml", "--objective", objective)
    )
    assert ended.returncode == 0, ended.stderr
    assert f"{objective}: " in ended.stdout
    assert "bound" in ended.stdout
    assert "Moves" in ended.stdout
    assert "qwen3-32b" in ended.stdout


def test_what_cannot_be_met_is_one_line(tmp_path: Path) -> None:
    """It names the model, what it asks and what there is; nothing is printed on stdout."""
    demand = (EXAMPLES / "demand.toml").read_text().replace("rate_rps = 20.0", "rate_rps = 9e5")
    (tmp_path / "demand.toml").write_text(demand)
    inventory = str(EXAMPLES / "inventory.toml")
    ended = otela(
        *("plan", "demand.toml", "--inventory", inventory, "--objective", "cost"), cwd=tmp_path
    )
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert ended.stderr.startswith(
        "otela plan: llama-3.1-8b: 9.01e+05 requests/s are asked, at most"
    )
    assert ended.stderr.count("\n") == 1


def test_a_replica_is_simulated() -> None:
    """Times rise with load; events agree about the mean within a third."""
    ended = otela(
        *("simulate", "llama-3.1-8b", "--gpu", "h100-80g-sxm", "--rate", "2", "--rate", "8"),
        *("--requests", "300", "--json"),
    )
    assert ended.returncode == 0, ended.stderr
    low, high = json.loads(ended.stdout)["loads"]
    assert low["e2e_s"] < high["e2e_s"]
    assert low["discrete"]["e2e_s"] == pytest.approx(low["e2e_s"], rel=0.33)
    wrong = otela("simulate", "llama-3.3-70b", "--gpu", "h100-80g-sxm")
    assert wrong.returncode == 2
    assert "cannot run on 1 of h100-80g-sxm" in wrong.stderr


@pytest.mark.parametrize("option", ["--w-dtype", "--kv-dtype"])
def test_a_width_that_nobody_knows_is_named(option: str) -> None:
    """With those that there are."""
    wrong = otela("simulate", "llama-3.1-8b", "--gpu", "h100-80g-sxm", option, "nope")
    assert wrong.returncode == 2
    assert wrong.stderr.startswith(f"otela simulate: {option}: there is no number type 'nope'")
    assert "fp8" in wrong.stderr


def test_a_trace_is_replayed_into_a_page(tmp_path: Path) -> None:
    """Figures, plots and one page; the same seed gives the same figures."""
    arguments = (
        *("replay", "conversation.csv", "--inventory", "replay-inventory.toml"),
        *("--sizes", "0.5", "--json", "--out", str(tmp_path)),
    )
    ended = otela(*arguments)
    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout)
    assert {run["way"] for run in told["runs"]} == {
        "static",
        "memory-proportional",
        "dynamic",
        "dynamic-kept",
        "live",
    }
    assert (tmp_path / "frontier.png").read_bytes().startswith(b"\x89PNG")
    assert "data:image/png" in (tmp_path / "index.html").read_text()
    assert json.loads(otela(*arguments).stdout) == told


def test_what_two_sizes_have_in_common_is_said_once(tmp_path: Path) -> None:
    """Nodes are whole, so that near sizes may come to the same."""
    ended = otela(
        *("replay", "conversation.csv", "--inventory", "replay-inventory.toml"),
        *("--sizes", "0.5,0.51", "--policy", "static", "--policy", "dynamic"),
        *("--out", str(tmp_path)),
    )
    assert ended.returncode == 0, ended.stderr
    said = [line for line in ended.stdout.splitlines() if line.startswith(("At ", "For "))]
    assert said
    assert len(said) == len(set(said))
    assert all(" 0 GPU-hours" not in line for line in said)


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (("replay", "demand.toml", "--inventory", "inventory.toml"), "no known format"),
        (("replay", "none.csv", "--inventory", "inventory.toml"), ": none.csv cannot be read"),
        (
            ("replay", "rates.csv", "--inventory", "inventory.toml", "--sizes", "x"),
            "--sizes x",
        ),
        (
            ("replay", "rates.csv", "--inventory", "inventory.toml", "--set", "plan.gain=1"),
            "did you mean plan.gain_min?",
        ),
        (
            ("replay", "rates.csv", "--inventory", "inventory.toml", "--placer", "none.toml"),
            "none.toml cannot be read",
        ),
        (
            ("replay", "rates.csv", "--inventory", "inventory.toml", "--out", "rates.csv/x"),
            "nothing can be written to rates.csv/x: Not a directory; choose another --out",
        ),
        (
            ("replay", "rates.csv", "--inventory", "inventory.toml", "--clients", "rates.csv"),
            "rates.csv: line 1: there is no column pool, in_tokens_mean, out_tokens_mean",
        ),
        (("plan", "rates.csv", "--inventory", "inventory.toml"), "rates.csv is not TOML"),
        (("plan", "none.toml"), "none.toml cannot be read: No such file or directory; give"),
        (
            ("plan", "demand.toml"),
            "--inventory is missing: it says which GPUs there are; give --inventory FILE",
        ),
        (("simulate", "none.json", "--gpu", "x"), "none.json cannot be read: No such file"),
    ],
)
def test_wrong_input_is_one_line(arguments: tuple[str, ...], fault: str) -> None:
    """With the file or the option, and what to give."""
    ended = otela(*arguments)
    assert ended.returncode == 2
    assert fault in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_no_name_is_cut_in_a_table(tmp_path: Path) -> None:
    """Where it goes to a file it is as wide as it must be; half a name names nothing."""
    name = "a-name-that-somebody-gave-to-a-model-which-was-tuned-for-the-law-of-some-country"
    demand = (EXAMPLES / "demand.toml").read_text()
    (tmp_path / "demand.toml").write_text(demand.replace("llama-70b-law", name))
    ended = otela("plan", str(tmp_path / "demand.toml"), "--inventory", "inventory.toml")
    assert ended.returncode == 0, ended.stderr
    assert f"{name} " in ended.stdout


def test_the_names_that_plans_take_are_listed() -> None:
    """By kind, or by a word in them; what is unknown is said, and nothing fails."""
    told = json.loads(otela("catalogue", "--json").stdout)
    assert sorted(told) == ["engines", "gpus", "models"]
    assert ("h100-80g-sxm", 80) in [(one["gpu"], one["memory_gib"]) for one in told["gpus"]]
    ended = otela("catalogue", "--models", "Qwen3-32B")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "qwen3-32b" in ended.stdout
    assert "llama" not in ended.stdout
    assert "Nothing of that name" in otela("catalogue", "abacus").stdout
