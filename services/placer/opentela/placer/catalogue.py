"""Which GPUs, models and engines are known, with where each fact is from.

A model that is not listed is read from its `config.json` (`hf_config`).
"""

import csv
import functools
import importlib.resources
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeVar

import msgspec

from opentela.core.errors import UsageError
from opentela.placer.shapes import Gpu, Model

T = TypeVar("T")

_TERA: Final = 1e12
_GIGA: Final = 1e9


class Engine(msgspec.Struct, frozen=True, kw_only=True):
    """How an inference engine of one age schedules and reserves; its speed is a matter of the fit.

    Attributes:
        family: Engines of one family share what little is known of each.
        generation: The year in which it was current; engines of a year share what all had learnt.
        memory_share: Share of the GPU's memory that weights, activations and KV may take.
        reserve_gib: Memory of each GPU for activations, CUDA graphs and the context.
        batch_max: Sequences that run at once.
        batched_tokens_max: Tokens of one step.
        reserves_whole: A request is let in only if its whole answer has KV blocks; otherwise
            blocks are handed out as it grows, and the youngest is preempted when none are left.
        block_tokens: Tokens of one KV block.
    """

    id: str
    family: str
    generation: str
    memory_share: float = 0.9
    reserve_gib: float = 3.0
    batch_max: int = 256
    batched_tokens_max: int = 8192
    reserves_whole: bool = False
    block_tokens: int = 16
    source: str = ""


@functools.cache
def gpus() -> Mapping[str, Gpu]:
    """Return every GPU by its id."""
    return MappingProxyType({row["id"]: _gpu(row) for row in _rows("gpus.csv")})


@functools.cache
def models() -> Mapping[str, Model]:
    """Return every model that is listed by its id."""
    rows = _rows("models.csv")
    return MappingProxyType({row["id"]: msgspec.convert(row, Model, strict=False) for row in rows})


@functools.cache
def engines() -> Mapping[str, Engine]:
    """Return every engine by its id."""
    rows = _rows("engines.csv")
    return MappingProxyType({row["id"]: msgspec.convert(row, Engine, strict=False) for row in rows})


def gpu(name: str) -> Gpu:
    """Return the GPU of that id, or say which there are."""
    return _known("GPU", name, gpus())


def model(name: str) -> Model:
    """Return the model of that id or Hugging Face id, or say which there are."""
    by_hf = {one.hf_id.lower(): one for one in models().values()}
    return by_hf.get(name.lower()) or _known("model", name, models())


def engine(name: str) -> Engine:
    """Return the engine of that id, or say which there are."""
    return _known("engine", name, engines())


def _gpu(row: Mapping[str, str]) -> Gpu:
    return Gpu(
        id=row["id"],
        name=row["name"],
        vendor=row["vendor"],
        arch=row["arch"],
        memory_gib=float(row["memory_gib"]),
        bandwidth=float(row["bandwidth_gbs"]) * _GIGA,
        flops_bf16=float(row["bf16_tflops"]) * _TERA,
        flops_fp8=float(row["fp8_tflops"]) * _TERA,
        flops_int8=float(row["int8_tops"]) * _TERA,
        flops_fp4=float(row["fp4_tflops"]) * _TERA,
        link=float(row["link_gbs"]) * _GIGA,
        link_kind=row["link"],
        pcie=float(row["pcie_gbs"]) * _GIGA,
        gpus_per_node=int(row["gpus_per_node"]),
        price_usd_h=float(row["price_usd_h"]),
        watts=float(row["watts"]),
        source=row["source"],
    )


def _known(kind: str, name: str, known: Mapping[str, T]) -> T:
    try:
        return known[name]
    except KeyError:
        # Not by any part: a GH200 is no H200.
        alike = [one for one in known if name and one.startswith(name.lower())]
        told = f"did you mean {' or '.join(alike)}?" if alike else f"known are: {', '.join(known)}"
        raise UsageError(f"{kind} {name!r} is not known; {told}") from None


def _rows(name: str) -> list[dict[str, str]]:
    text = importlib.resources.files("opentela.placer").joinpath("data", name).read_text("utf-8")
    return list(csv.DictReader(text.splitlines()))
