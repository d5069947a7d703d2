"""Campaigns as tables for people."""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from opentela.testing.sim.campaign.ground import MEMBERS
from opentela.testing.sim.campaign.harms import CELLS, DEATHS
from opentela.testing.sim.campaign.rows import Row
from opentela.testing.sim.campaign.settings import PRODUCT, knobs
from opentela.testing.sim.campaign.statistics import Found, Sum, found, summed, undisturbed
from opentela.testing.sim.split import Spoken

Rows = Sequence[Row]
_NOTHING: Final = "-"
_PART: Final = re.compile(r"(<!-- measured: (?P<name>[\w ]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def compared(campaigns: Mapping[str, Rows]) -> str:
    """Return all settings side by side: what is found how soon, and who else is taken for dead."""
    head = ["setting", "trials", "removed alive", "left out, nothing befell", *_heads()]
    lines = [_line(head), _line("---" for _ in head)]
    for name, rows in campaigns.items():
        sum_ = summed(rows, MEMBERS)
        cells = [name, f"{sum_.trials:,}", _removed(name, sum_), _share(sum_)]
        lines.append(_line([*cells, *_found(undisturbed(rows))]))
    return "\n".join(lines)


def _heads() -> list[str]:
    return [f"{how}: p50, p99 [s]" for how in DEATHS]


def _found(rows: Rows) -> list[str]:
    return [_times(found(rows, how)) for how in DEATHS]


def _times(of: Found) -> str:
    return f"{_seconds(of.quantile(0.5))}, {_seconds(of.quantile(0.99))}"


def _seconds(value: float) -> str:
    if math.isnan(value):
        return _NOTHING
    return "later" if math.isinf(value) else f"{value:.2f}"


def _removed(name: str, sum_: Sum) -> str:
    return f"{sum_.removed}" if name in PRODUCT else _NOTHING


def _share(sum_: Sum) -> str:
    if not sum_.others:
        return _NOTHING
    return f"{sum_.out_others} ({sum_.out_others / sum_.others:.3%})"


def by_cell(name: str, rows: Rows) -> str:
    """Return the setting *name*, harm by harm."""
    head = [
        "harm",
        "trials",
        "removed alive",
        "harmed, left out meanwhile",
        "others left out",
        "lost at the end",
        *_heads(),
    ]
    lines = [_line(head), _line("---" for _ in head)]
    for cell in CELLS:
        here = [row for row in rows if row.cell == cell]
        if not here:
            continue
        sum_ = summed(here, MEMBERS)
        lines.append(
            _line(
                [
                    cell,
                    f"{sum_.trials:,}",
                    _removed(name, sum_),
                    f"{sum_.out_victims / sum_.victims:.1%}" if sum_.victims else _NOTHING,
                    f"{sum_.out_others}" if sum_.others else _NOTHING,
                    f"{sum_.lost}",
                    *_found(here),
                ]
            )
        )
    return "\n".join(lines)


def wrongly(campaigns: Mapping[str, Rows]) -> str:
    """Return what share of the harmed each setting left out, harm by harm."""
    cells = [cell for cell in CELLS if cell not in ("calm", "clocks")]
    head = ["harm", *campaigns]
    lines = [_line(head), _line("---" for _ in head)]
    for cell in cells:
        shares = []
        for rows in campaigns.values():
            sum_ = summed([row for row in rows if row.cell == cell], MEMBERS)
            shares.append(f"{sum_.out_victims / sum_.victims:.2%}" if sum_.victims else _NOTHING)
        lines.append(_line([cell, *shares]))
    return "\n".join(lines)


def rewritten(text: str, campaigns: Mapping[str, Rows]) -> str:
    """Return a document with its measured parts as *campaigns* have them.

    A part stands between `<!-- measured: NAME -->` and `<!-- end -->`.
    """
    makers: dict[str, Callable[[], str]] = {
        "settings": lambda: settings_told(campaigns),
        "compared": lambda: compared(campaigns),
        "left out": lambda: wrongly(campaigns),
        **{name: partial(by_cell, name, rows) for name, rows in campaigns.items()},
    }

    def made(part: re.Match[str]) -> str:
        maker = makers.get(part["name"])
        return part[0] if maker is None else f"{part[1]}{maker()}\n{part[3]}"

    return _PART.sub(made, text)


def traffic_head() -> str:
    """Return the head of a table of bytes a second."""
    head = ["members", "mesh", *(f"{who}: NATS, wire [B/s]" for who in Spoken._fields), "member"]
    return "\n".join((_line(head), _line("---" for _ in head)))


def traffic_line(count: int, said: Spoken, *, churn: bool) -> str:
    """Return one mesh as a line of it."""
    sums = [
        f"{sum(flow.nats_bytes for flow in kinds.values()):,.0f},"
        f" {sum(flow.wire_bytes for flow in kinds.values()):,.0f}"
        for kinds in said
    ]
    kinds = ", ".join(f"{kind} {flow.wire_bytes:.0f}" for kind, flow in said.member.items())
    return _line([f"{count:,}", "churn" if churn else "idle", *sums, kinds])


def settings_told(names: Iterable[str]) -> str:
    """Return what each setting of the product consists of."""
    return "\n".join(f"- **{name}**: {knobs(name)}" for name in names if name in PRODUCT)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
