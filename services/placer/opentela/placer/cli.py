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
@click.option("--inventory", type=_FILE, help="Pools of GPUs, and what runs now. [required]")
@click.option(
    "--objective",
    type=click.Choice(OBJECTIVES),
    default="max-min",
    show_default=True,
    help="What to be best at.",
)
@click.option(
    "--solver", type=click.Choice(["highs", "cp-sat"]), default="highs", show_default=True
)
@click.option(
    "--time",
    "time_s",
    type=Amount(0.1),
    default=10.0,
    show_default=True,
    help="Seconds that the solver may take.",
)
@click.option(
    "--gap",
    type=Amount(0.0, 1.0),
    default=0.01,
    show_default=True,
    help="Stop when the bound is this near.",
)
@click.option(
    "--horizon",
    "horizon_s",
    type=Amount(1.0),
    default=3600.0,
    show_default=True,
    help="Seconds that the plan is expected to hold; moves must pay within it.",
)
@click.option(
    "--drain",
    "drain_s",
    type=Amount(0.0),
    default=30.0,
    show_default=True,
    help="Seconds until a stopped replica's GPUs are free.",
)
@click.option("--explain", is_flag=True, help="Say why, model by model.")
@click.option("--compare", is_flag=True, help="Judge simpler placements beside it.")
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

    DEMAND is a TOML file of what is asked of which model. The bound that is printed is proven: no
    placement whatever does better.
    """
    from opentela.placer import plan_command  # noqa: PLC0415  # solvers take a while to import

    made = plan_command.planned(demand, inventory, compare=compare, **chosen)
    if as_json:
        sys.stdout.buffer.write(plan_command.as_json(made, explain=explain) + b"\n")
    else:
        plan_command.show(made, explain=explain)


@click.command()
@click.argument("model")
@click.option("--gpu", required=True, help="A GPU of the catalogue.")
@click.option(
    "--tp", type=click.IntRange(1), default=1, show_default=True, help="Tensor parallelism."
)
@click.option("--pp", type=click.IntRange(1), default=1, show_default=True, help="Pipeline stages.")
@click.option(
    "--w-dtype",
    default="",
    help="How weights are stored.  [default: as config.json says, or bf16]",
)
@click.option("--kv-dtype", default="bf16", show_default=True, help="How the KV cache is stored.")
@click.option("--engine", default="vllm", show_default=True, help="An engine of the catalogue.")
@click.option("--in-tokens", type=Amount(1.0), default=512.0, show_default=True)
@click.option("--out-tokens", type=Amount(1.0), default=256.0, show_default=True)
@click.option(
    "--rate",
    "rates",
    type=Amount(0.0),
    multiple=True,
    help="Requests/s at one replica; repeatable. [default: shares of what it can do]",
)
@click.option(
    "--ttft", "ttft_s", type=Amount(0.0, endless=True), default=float("inf"), help="Promise, s."
)
@click.option(
    "--tpot", "tpot_s", type=Amount(0.0, endless=True), default=float("inf"), help="Promise, s."
)
@click.option(
    "--requests",
    type=click.IntRange(0, 100_000),
    default=0,
    help="Also simulate so many requests one by one.",
)
@click.option("--seed", type=int, default=0, show_default=True)
@_json_option
def simulate(*, model: str, as_json: bool, **asked: Any) -> None:
    """Say what one replica of MODEL does under load.

    MODEL is a model of the catalogue or a config.json of Hugging Face.
    """
    from opentela.placer import simulate_command  # noqa: PLC0415

    made = simulate_command.simulated(model, **asked)
    if as_json:
        sys.stdout.write(json.dumps(made) + "\n")
    else:
        simulate_command.show(made)


@click.command()
@click.argument("traces", metavar="TRACE...", type=_FILE, nargs=-1, required=True)
@click.option("--inventory", required=True, type=_FILE, help="Pools of GPUs.")
@click.option(
    "--models", type=_FILE, help="What the models of the trace are, and what is promised."
)
@click.option("--clients", type=_FILE, help="Lengths of clients, for a trace of rates.")
@click.option("--out", type=_FOLDER, default=Path("replay"), show_default=True, help="The report.")
@click.option(
    "--policy",
    "policies",
    type=click.Choice(POLICIES),
    multiple=True,
    default=POLICIES,
    help="Only these; repeatable.",
)
@click.option(
    "--sizes",
    default="0.5,0.75,1,1.5",
    show_default=True,
    help="Inventories to try, as multiples of the nodes.",
)
@click.option(
    "--train",
    type=Amount(0.05, 0.95),
    default=0.5,
    show_default=True,
    help="Share of the trace that placements may learn from; the rest is judged.",
)
@click.option(
    "--scale",
    type=Amount(1e-6),
    default=1.0,
    show_default=True,
    help="Multiplies the rate of every model.",
)
@click.option(
    "--epoch",
    "epoch_s",
    type=Amount(10.0),
    default=300.0,
    show_default=True,
    help="Seconds between two plans.",
)
@click.option(
    "--cool-down",
    "cool_down_s",
    type=Amount(0.0),
    default=1200.0,
    show_default=True,
    help="Seconds that a replica is kept at least.",
)
@click.option(
    "--keep",
    "keep_s",
    type=Amount(0.0),
    default=300.0,
    show_default=True,
    help="Seconds that a model which nobody asks for keeps a replica.",
)
@click.option(
    "--load-cost",
    "load_factor",
    type=Amount(0.0),
    default=1.0,
    show_default=True,
    help="Multiplies the time to load a model.",
)
@click.option(
    "--placer",
    type=_FILE,
    help="Settings of `live`: placer.toml, of which [[models]] do not count.",
)
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="FIELD=VALUE",
    help="One of them, such as plan.gain_min=0.1; repeatable.",
)
@click.option("--sensitivity", is_flag=True, help="Also vary load cost and cool-down.")
@click.option("--seed", type=int, default=0, show_default=True)
@_json_option
def replay(
    *, traces: tuple[Path, ...], inventory: Path, out: Path, as_json: bool, **asked: Any
) -> None:
    """Replay traces under static and dynamic placement.

    Several are replayed at once, each as the demand for models of its own.
    A TRACE is CSV (arrival_s,in_tokens,out_tokens[,model]), CSV of rates
    (client,window_s,rate_rps,cv) or JSON lines (timestamp, input_length, output_length, hash_ids).
    Writes plots and one HTML page.
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
@click.option("--data", type=_FOLDER, help="Measurements. [default: those that come with it]")
@click.option("--out", type=_FOLDER, default=Path("calibration"), show_default=True)
@click.option(
    "--cross-validate",
    "by",
    type=click.Choice(["gpu", "model", "source"]),
    help="Also fit without each of these in turn, and judge on what was left out.",
)
@_json_option
def calibrate(*, data: Path | None, out: Path, by: str | None, as_json: bool) -> None:
    """Fit the simulator to measurements anew.

    Writes the fit, what it leaves unexplained, and plots of that.
    """
    from opentela.placer import calibrate_command  # noqa: PLC0415

    calibrate_command.run(data, out, by, as_json=as_json)
