"""What `otela plan` does and prints."""

import random
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from rich.table import Table

from opentela.core.errors import ConfigError
from opentela.placer import files
from opentela.placer.assemble import Assembled, assemble
from opentela.placer.plan import (
    BATCH_S,
    Compared,
    GroupPlan,
    Plan,
    baselines,
    compared,
    explanation,
    plan,
)
from opentela.placer.problem import Counts, Group, InfeasibleError, Problem
from opentela.placer.screen import screen
from opentela.placer.solve.infeasible import reasons, unplaceable
from opentela.placer.solve.milp import Limits
from opentela.placer.solve.result import Objective, Solved
from opentela.placer.solve.run import named, solve


class Made(NamedTuple):
    """A plan, the problem it is for, and how other placements do."""

    problem: Problem
    plan: Plan
    compared: list[Compared]


def planned(
    demand: Path,
    inventory: Path | None,
    *,
    objective: str,
    solver: str,
    time_s: float,
    gap: float,
    horizon_s: float,
    drain_s: float,
    compare: bool,
) -> Made:
    """Return the plan for the two files.

    Raises:
        ConfigError: A field of them is wrong.
        InfeasibleError: What is asked cannot be had; the message says what of it and why.
    """
    aim = Objective(objective)
    demands = files.read(demand, files.DemandFile)
    if inventory is None:
        raise ConfigError(
            "--inventory is missing: it says which GPUs there are",
            remedy="give --inventory FILE; docs/placement.md shows one",
        )
    assembled = assemble(
        demands,
        files.read(inventory, files.InventoryFile),
        aim,
        lambda name: files.read_json(demand.parent / name),
        horizon_s=horizon_s,
        drain_s=drain_s,
    )
    problem = assembled.problem
    nowhere = unplaceable(problem, assembled.notes)
    if nowhere:
        raise InfeasibleError(nowhere.values(), remedy="give GPUs that can, or leave it out")
    limits = Limits(time_s=time_s, gap=gap)
    solved = _solved(assembled, aim, limits, solver)
    others: Mapping[str, Counts] = {}
    if compare:
        others = {str(aim): solved.counts, **baselines(problem, assembled.weights_bytes)}
    return Made(
        problem,
        plan(problem, solved),
        compared(problem, others, lambda: random.Random(0)),  # noqa: S311  # repeatable
    )


def _solved(assembled: Assembled, aim: Objective, limits: Limits, solver: str) -> Solved:
    try:
        return solve(assembled.problem, aim, limits=limits, solver=solver)
    except InfeasibleError as error:
        said = reasons(assembled.problem, named(solver), assembled.notes)
        raise InfeasibleError(
            said or error.reasons, remedy="ask for less, add GPUs, or take --objective max-min"
        ) from error


def as_json(made: Made, *, explain: bool) -> bytes:
    """Return the plan as JSON."""
    told: dict[str, Any] = msgspec.to_builtins(made.plan)
    if made.compared:
        told["compared"] = msgspec.to_builtins(made.compared)
    if explain:
        told["explanation"] = explanation(made.problem, made.plan)
    return msgspec.json.encode(told)


def show(made: Made, *, explain: bool) -> None:
    """Print the plan for people."""
    console = screen()
    console.print(_placement(made.plan))
    console.print(_worth(made.plan))
    if made.plan.moves and made.problem.running:
        console.print(_moves(made.plan))
    if explain:
        console.print(_reasons(explanation(made.problem, made.plan)))
    if made.compared:
        console.print(_comparison(made.compared))
    sys.stdout.flush()


def _placement(made: Plan) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in ("MODEL", "POOL", "REPLICAS"):
        # On a narrow terminal a name goes on below: a half one names nothing.
        table.add_column(title, overflow="fold")
    for title in ("GPUS", "CAN/s", "WANTED/s", "SERVED", "USD/h"):
        table.add_column(title, justify="right", no_wrap=True)
    for model in made.models:
        rows = [group for group in made.groups if group.model == model.model]
        first = (f"{model.wanted_rps:.4g}", f"{model.served:.1%}")
        if not rows:
            table.add_row(model.model, "-", "-", "0", "0", *first, "0")
        for index, group in enumerate(rows):
            table.add_row(
                *(model.model if index == 0 else "", group.pool),
                f"{group.replicas} x {_shape(group)}",
                *(str(group.gpus), f"{group.capacity_rps:.4g}"),
                *(first if index == 0 else ("", "")),
                f"{group.usd_h:.2f}",
            )
    return table


def _shape(group: GroupPlan) -> str:
    return Group(group.model, group.pool, group.tp, group.pp).label()


def _worth(made: Plan) -> str:
    value, bound = (
        f"{one:.2%}" if made.unit == "share" else f"{one:.4g} {made.unit}"
        for one in (made.value, made.bound)
    )
    total = sum(pool.gpus for pool in made.pools)
    return (
        f"\n{made.objective}: {value}, bound {bound}, gap {made.gap:.2%} ({made.verdict},"
        f" {made.solver} {made.took_s:.2f} s)\n"
        f"{made.gpus} of {total} GPUs, {made.usd_h:.2f} USD/h"
    )


def _reasons(lines: Iterable[str]) -> Table:
    table = Table.grid(padding=(0, 1))
    for line in lines:
        table.add_row("•", line)
    return table


def _moves(made: Plan) -> Table:
    table = Table(
        title="\nMoves", title_justify="left", box=None, header_style="bold", pad_edge=False
    )
    table.add_column("WAVE", justify="right")
    for title in ("MOVE", "MODEL", "POOL", "SHAPE"):
        table.add_column(title, overflow="fold")
    table.add_column("TAKES s", justify="right")
    for move in made.moves:
        group = move.group
        table.add_row(
            *(str(move.wave + 1), f"{move.verb} {move.count}", group.model, group.pool),
            *(group.label(), f"{move.takes_s:.0f}"),
        )
    return table


def _comparison(rows: list[Compared]) -> Table:
    title = f"\nThe requests of {BATCH_S:.0f} s under one router (least load)"
    table = Table(title=title, title_justify="left", box=None, header_style="bold", pad_edge=False)
    table.add_column("PLACEMENT", overflow="fold")
    for name in ("GPUS", "USD/h", "WORST", "DONE s", "MEAN s", "P99 s", "GPU-h"):
        table.add_column(name, justify="right")
    for row in rows:
        told = row.judgement
        table.add_row(
            *(row.name, str(row.gpus), f"{row.usd_h:.2f}", f"{told.served_min:.1%}"),
            *(f"{told.makespan_s:.0f}", f"{told.mean_s:.1f}", f"{told.p99_s:.1f}"),
            f"{told.gpu_hours:.1f}",
        )
    return table
