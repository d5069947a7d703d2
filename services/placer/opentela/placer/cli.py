"""The commands of the placer. Everything heavy is imported by the command that needs it."""

import json
import sys
from pathlib import Path
from typing import Any, Final

import click

from opentela.placer.amount import Amount

OBJECTIVES: Final = ("max-min", "cost", "served", "slo", "latency")
POLICIES: Final = ("static", "memory-proportional", "dynamic", "dynamic-kept", "live")

_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_FILE: Final = click.Path(path_type=Path, dir_okay=False)
_FOLDER: Final = click.Path(path_type=Path, file_okay=False)


@click.command()
@click.argument("demand", type=_FILE)
@click.option(
    "--inventory", type=_FILE, help="TOML file of GPU pools and of what runs now. [required]"
)
@click.option(
    "--objective",
    type=click.Choice(OBJECTIVES),
    default="max-min",
    show_default=True,
    help="What to optimise.",
)
@click.option(
    "--solver",
    type=click.Choice(["highs", "cp-sat"]),
    default="highs",
    show_default=True,
    help="Solver to use.",
)
@click.option(
    "--time",
    "time_s",
    type=Amount(0.1),
    default=10.0,
    show_default=True,
    help="Time limit of the solver, in seconds.",
)
@click.option(
    "--gap",
    type=Amount(0.0, 1.0),
    default=0.01,
    show_default=True,
    help="Relative gap to the bound at which to stop.",
)
@click.option(
    "--horizon",
    "horizon_s",
    type=Amount(1.0),
    default=3600.0,
    show_default=True,
    help="Seconds for which the plan should hold; moves must pay off within them.",
)
@click.option(
    "--drain",
    "drain_s",
    type=Amount(0.0),
    default=30.0,
    show_default=True,
    help="Seconds until the GPUs of a stopped replica are free.",
)
@click.option("--explain", is_flag=True, help="Give the reasons, model by model.")
@click.option("--compare", is_flag=True, help="Compare with simpler placements.")
@_json_option
def plan(
    *,
    demand: Path,
    inventory: Path | None,
    explain: bool,
    compare: bool,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Decide which models run where.

    DEMAND is a TOML file with the load of each model; docs/placement.md describes it, and
    `otela catalogue` lists models and GPUs. The printed bound is proven: no placement does better.
    Nothing is started or stopped.
    """
    from opentela.placer import plan_command  # noqa: PLC0415  # solvers take a while to import

    made = plan_command.planned(demand, inventory, compare=compare, **chosen)
    if as_json:
        sys.stdout.buffer.write(plan_command.as_json(made, explain=explain) + b"\n")
    else:
        plan_command.show(made, explain=explain)


@click.command("catalogue")
@click.argument("word", default="")
@click.option("--gpus", "kinds", flag_value="gpus", multiple=True, help="List GPUs.")
@click.option("--models", "kinds", flag_value="models", multiple=True, help="List models.")
@click.option("--engines", "kinds", flag_value="engines", multiple=True, help="List engines.")
@_json_option
def list_catalogue(*, word: str, kinds: tuple[str, ...], as_json: bool) -> None:
    """List the GPUs, models and engines that the simulator knows.

    With WORD, only those whose names contain it.
    """
    from opentela.placer import catalogue_command  # noqa: PLC0415

    found = catalogue_command.listed(kinds, word)
    if as_json:
        sys.stdout.buffer.write(catalogue_command.as_json(found) + b"\n")
    else:
        catalogue_command.show(found)


@click.command()
@click.argument("model")
@click.option(
    "--gpu", required=True, help="GPU such as h100-80g-sxm; `otela catalogue` lists them."
)
@click.option(
    "--tp",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Degree of tensor parallelism.",
)
@click.option("--pp", type=click.IntRange(1), default=1, show_default=True, help="Pipeline stages.")
@click.option(
    "--w-dtype",
    default="",
    help="Type of the weights.  [default: from config.json, or bf16]",
)
@click.option("--kv-dtype", default="bf16", show_default=True, help="Type of the KV cache.")
@click.option("--engine", default="vllm", show_default=True, help="Engine from `otela catalogue`.")
@click.option(
    "--in-tokens", type=Amount(1.0), default=512.0, show_default=True, help="Mean prompt length."
)
@click.option(
    "--out-tokens", type=Amount(1.0), default=256.0, show_default=True, help="Mean answer length."
)
@click.option(
    "--rate",
    "rates",
    type=Amount(0.0),
    multiple=True,
    help="Requests/s at the replica; repeatable. [default: shares of its capacity]",
)
@click.option(
    "--ttft",
    "ttft_s",
    type=Amount(0.0, endless=True),
    default=float("inf"),
    help="Promised mean time to first token, in seconds.",
)
@click.option(
    "--tpot",
    "tpot_s",
    type=Amount(0.0, endless=True),
    default=float("inf"),
    help="Promised mean time per output token, in seconds.",
)
@click.option(
    "--requests",
    type=click.IntRange(0, 100_000),
    default=0,
    help="Also simulate this many requests one by one.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of random numbers.")
@_json_option
def simulate(*, model: str, as_json: bool, **asked: Any) -> None:
    """Show what one replica of MODEL can do under load.

    MODEL is a name from `otela catalogue`, or a config.json from Hugging Face.
    """
    from opentela.placer import simulate_command  # noqa: PLC0415

    made = simulate_command.simulated(model, **asked)
    if as_json:
        sys.stdout.write(json.dumps(made) + "\n")
    else:
        simulate_command.show(made)


@click.command()
@click.argument("traces", metavar="TRACE...", type=_FILE, nargs=-1, required=True)
@click.option("--inventory", required=True, type=_FILE, help="TOML file of GPU pools.")
@click.option("--models", type=_FILE, help="TOML file of the trace's models and promises.")
@click.option("--clients", type=_FILE, help="CSV of the clients' lengths, for a trace of rates.")
@click.option(
    "--out", type=_FOLDER, default=Path("replay"), show_default=True, help="Folder of the report."
)
@click.option(
    "--policy",
    "policies",
    type=click.Choice(POLICIES),
    multiple=True,
    default=POLICIES,
    help="Replay only this policy; repeatable.",
)
@click.option(
    "--sizes",
    default="0.5,0.75,1,1.5",
    show_default=True,
    help="Sizes of the inventory to try, as multiples of its nodes.",
)
@click.option(
    "--train",
    type=Amount(0.05, 0.95),
    default=0.5,
    show_default=True,
    help="Share of the trace to learn from; the rest is judged.",
)
@click.option(
    "--scale",
    type=Amount(1e-6),
    default=1.0,
    show_default=True,
    help="Factor for the rate of every model.",
)
@click.option(
    "--epoch",
    "epoch_s",
    type=Amount(10.0),
    default=300.0,
    show_default=True,
    help="Seconds between plans (dynamic policies).",
)
@click.option(
    "--cool-down",
    "cool_down_s",
    type=Amount(0.0),
    default=1200.0,
    show_default=True,
    help="Seconds for which a replica is kept at least (dynamic policies).",
)
@click.option(
    "--keep",
    "keep_s",
    type=Amount(0.0),
    default=300.0,
    show_default=True,
    help="Seconds for which a model without requests keeps a replica (dynamic policies).",
)
@click.option(
    "--load-cost",
    "load_factor",
    type=Amount(0.0),
    default=1.0,
    show_default=True,
    help="Factor for the time to load a model.",
)
@click.option(
    "--placer",
    type=_FILE,
    help="Settings of the policy `live`: a placer.toml; its [[models]] are ignored.",
)
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="FIELD=VALUE",
    help="Set one field of those, such as plan.gain_min=0.1; repeatable.",
)
@click.option("--sensitivity", is_flag=True, help="Also vary load cost and cool-down.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of random numbers.")
@_json_option
def replay(
    *, traces: tuple[Path, ...], inventory: Path, out: Path, as_json: bool, **asked: Any
) -> None:
    """Replay traces under several placements, and write a report.

    A TRACE is CSV of requests (arrival_s,in_tokens,out_tokens[,model]), CSV of rates
    (client,window_s,rate_rps,cv), or JSON lines (timestamp, input_length, output_length,
    hash_ids). Several traces are replayed together, each with models of its own.
    The report has plots and one HTML page.
    """
    from opentela.placer import files, replay_command  # noqa: PLC0415

    files.writable(out)
    made = replay_command.replayed(traces, inventory, quiet=as_json, **asked)
    page = replay_command.write(made, out)
    if as_json:
        sys.stdout.buffer.write(replay_command.as_json(made) + b"\n")
    else:
        replay_command.show(made, page)


@click.command()
@click.option("--data", type=_FOLDER, help="Folder of measurements. [default: the built-in ones]")
@click.option(
    "--out",
    type=_FOLDER,
    default=Path("calibration"),
    show_default=True,
    help="Folder for the results.",
)
@click.option(
    "--cross-validate",
    "by",
    type=click.Choice(["gpu", "model", "source"]),
    help="Also leave out each of these in turn, and judge the fit on what was left out.",
)
@_json_option
def calibrate(*, data: Path | None, out: Path, by: str | None, as_json: bool) -> None:
    """Fit the simulator to measurements again.

    Writes the fit, its remaining errors, and plots of them.
    """
    from opentela.placer import calibrate_command  # noqa: PLC0415

    calibrate_command.run(data, out, by, as_json=as_json)
