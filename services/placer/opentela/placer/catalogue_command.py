"""What `otela catalogue` prints: the names that the other commands take, and what they mean."""

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec
from rich.table import Table

from opentela.placer import catalogue
from opentela.placer.screen import screen
from opentela.placer.simulate.memory import parameters

_GIGA: Final = 1e9
_TERA: Final = 1e12
_HEADINGS: Final = {
    "memory_gib": "GiB",
    "bandwidth_tb_s": "TB/s",
    "bf16_tflops": "BF16 TFLOP/s",
    "usd_h": "USD/h",
    "parameters_b": "PARAMS 10⁹",
    "batch_max": "BATCH",
    "batched_tokens_max": "TOKENS A STEP",
}


def _gpus() -> list[dict[str, Any]]:
    return [
        {
            "gpu": one.id,
            "memory_gib": one.memory_gib,
            "bandwidth_tb_s": one.bandwidth / _TERA,
            "bf16_tflops": one.flops_bf16 / _TERA,
            "usd_h": one.price_usd_h,
            "link": one.link_kind,
        }
        for one in catalogue.gpus().values()
    ]


def _models() -> list[dict[str, Any]]:
    return [
        {
            "model": one.id,
            "parameters_b": parameters(one) / _GIGA,
            "context": one.context_max,
            "hugging_face": one.hf_id,
        }
        for one in catalogue.models().values()
    ]


def _engines() -> list[dict[str, Any]]:
    return [
        {
            "engine": one.id,
            "generation": one.generation,
            "batch_max": one.batch_max,
            "batched_tokens_max": one.batched_tokens_max,
        }
        for one in catalogue.engines().values()
    ]


KINDS: Final[Mapping[str, Callable[[], list[dict[str, Any]]]]] = {
    "gpus": _gpus,
    "models": _models,
    "engines": _engines,
}


def listed(kinds: Iterable[str], word: str) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each kind whose names contain *word*, in any case."""
    return {
        kind: [row for row in KINDS[kind]() if word.lower() in _names(row)]
        for kind in kinds or KINDS
    }


def _names(row: Mapping[str, Any]) -> str:
    return " ".join(value for value in row.values() if isinstance(value, str)).lower()


def show(found: Mapping[str, list[dict[str, Any]]]) -> None:
    """Print tables for people."""
    console = screen()
    for rows in found.values():
        if rows:
            console.print(_table(rows))
            console.print()
    if not any(found.values()):
        console.print("Nothing of that name; a config.json describes any other model.")
    sys.stdout.flush()


def as_json(found: Mapping[str, list[dict[str, Any]]]) -> bytes:
    """Return them as JSON."""
    return msgspec.json.encode(found)


def _table(rows: list[dict[str, Any]]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for key, value in rows[0].items():
        is_name = isinstance(value, str)
        heading = _HEADINGS.get(key, key.upper().replace("_", " "))
        table.add_column(heading, justify="left" if is_name else "right", overflow="fold")
    for row in rows:
        table.add_row(*map(_cell, row.values()))
    return table


def _cell(value: float | str) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
