"""What each policy makes of a simulated fleet of 100 unequal engines, and of equal ones.

Nothing is timed but what a pick costs: latencies are the simulator's, the same for a seed wherever
it runs. `--page FILE` puts the table into a document, `--plot FILE` draws it.
"""

import argparse
import json
import random
import re
import time
import timeit
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Final, NamedTuple

from tests.bench.policies_fleet import Fleet, Make, Outcome, Setting, Told, fleet
from tests.bench.policies_plot import drawn
from tests.bench.report import Figure

from opentela.router.outcomes import Result
from opentela.router.plugins import policy
from opentela.router.policies.base import Call, Observed

NAMES: Final = ("random", "round_robin", "least_load", "hardware_weighted", "prefix_affinity")
TOLD: Final = "least_load, if told of queues"
SETTINGS: Final = {
    "unequal, 100 requests/s": Setting(requests_s=100.0),
    "unequal, 400 requests/s": Setting(requests_s=400.0),
    "equal, 400 requests/s": Setting(requests_s=400.0, alike=True),
}
PICKS: Final = 5_000
_HEAD: Final = (
    "| {} | p50 s | p99 s | TTFT p50 ms | TTFT p99 ms | fullest / mean | prefix hits | pick µs |"
)
_PROMPT_BYTES: Final = 4_000
_TABLE: Final = re.compile(r"(<!-- measured: policies -->\n).*?(<!-- end -->)", re.DOTALL)


class Row(NamedTuple):
    """One policy in one setting; means over the seeds."""

    setting: str
    name: str
    p50_s: float
    p99_s: float
    first_p50_s: float
    first_p99_s: float
    imbalance: float
    hit_ratio: float


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this area."""
    parser.add_argument("--quick", action="store_true", help="one seed, 30 engines")
    parser.add_argument("--page", type=Path, help="document whose table is rewritten")
    parser.add_argument("--plot", type=Path, help="picture that is drawn, such as x.svg")


def run(options: argparse.Namespace) -> list[Figure]:
    """Simulate every policy in every setting."""
    rows = [
        _row(title, name, [Fleet(one, _maker(name)).run() for one in _seeds(setting, options)])
        for title, setting in SETTINGS.items()
        for name in (*NAMES, TOLD)
    ]
    costs = {name: _pick_us(name) for name in NAMES}
    if options.page:
        text = options.page.read_text(encoding="utf-8")
        table = _markdown(rows, costs)
        options.page.write_text(_TABLE.sub(lambda part: f"{part[1]}{table}{part[2]}", text))
    if options.plot:
        drawn([row for row in rows if row.name != TOLD], options.plot)
    return [*_figures(rows), *(Figure(f"a pick, {name}", us, "us") for name, us in costs.items())]


def _maker(name: str) -> Make:
    return Told if name == TOLD else partial(policy, name)


def _seeds(setting: Setting, options: argparse.Namespace) -> list[Setting]:
    if not options.quick:
        return [setting._replace(seed=seed) for seed in (1, 2)]
    share = 30 / setting.engines
    return [setting._replace(engines=30, requests_s=setting.requests_s * share, lasts_s=40.0)]


def _row(title: str, name: str, outcomes: Sequence[Outcome]) -> Row:
    return Row(
        title,
        name,
        fmean(one.latency(0.5) for one in outcomes),
        fmean(one.latency(0.99) for one in outcomes),
        fmean(one.first(0.5) for one in outcomes),
        fmean(one.first(0.99) for one in outcomes),
        fmean(one.imbalance for one in outcomes),
        fmean(one.hit_ratio for one in outcomes),
    )


def _figures(rows: Sequence[Row]) -> list[Figure]:
    found = []
    for row in rows:
        where = f"{row.name}, {row.setting}"
        base = next(one for one in rows if one.setting == row.setting and one.name == "random")
        if row.name == "least_load":
            random_s = f"{base.p99_s:.1f} s by random"
            found.append(Figure.below(f"p99, {where}", row.p99_s, "s", base.p99_s, random_s))
        else:
            found.append(Figure(f"p99, {where}", row.p99_s, "s"))
        found.append(Figure(f"p50, {where}", row.p50_s, "s"))
        found.append(Figure(f"TTFT p50, {where}", row.first_p50_s * 1e3, "ms"))
        found.append(Figure(f"TTFT p99, {where}", row.first_p99_s * 1e3, "ms"))
        found.append(Figure(f"fullest by mean, {where}", row.imbalance, "x"))
        found.append(Figure(f"prefix hits, {where}", 100 * row.hit_ratio, "%"))
    return found


def _pick_us(name: str) -> float:
    """Return what one request costs a policy, start and end included, among 100 sessions."""
    candidates, _ = fleet(Setting())
    said = [
        {"role": "system", "content": "x" * _PROMPT_BYTES},
        {"role": "user", "content": "hello"},
    ]
    call = Call("m", "r", json.dumps({"model": "m", "messages": said}).encode())
    chooser, observed = policy(name, random.Random(1)), Observed(Result.ANSWERED, 1.0, 100, 0, 100)

    def once() -> None:
        chosen = chooser.pick(call, candidates)
        chooser.on_request_start(call, chosen)
        chooser.on_request_end(call, chosen, observed)

    once()
    taken_s = timeit.repeat(once, timer=time.process_time, number=PICKS, repeat=5)
    return min(taken_s) / PICKS * 1e6


def _markdown(rows: Sequence[Row], costs: dict[str, float]) -> str:
    lines = []
    for title in SETTINGS:
        lines += [_HEAD.format(title), "|---|--:|--:|--:|--:|--:|--:|--:|"]
        for row in rows:
            if row.setting == title:
                cost = f"{costs[row.name]:.1f}" if row.name in costs else ""
                lines.append(
                    f"| {row.name} | {row.p50_s:.2f} | {row.p99_s:.1f}"
                    f" | {row.first_p50_s * 1e3:.0f} | {row.first_p99_s * 1e3:.0f}"
                    f" | {row.imbalance:.2f}"
                    f" | {100 * row.hit_ratio:.0f} % | {cost} |"
                )
        lines.append("")
    return "\n".join(lines)
