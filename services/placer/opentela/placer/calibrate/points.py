"""Measurements of whole engines, and what the simulator says to each."""

import csv
import gzip
import math
import re
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TextIO

import msgspec
import numpy as np

from opentela.core.errors import UsageError, in_words
from opentela.placer import catalogue
from opentela.placer.calibrate import facts
from opentela.placer.fit import Fit
from opentela.placer.shapes import DTYPE_BYTES, Floats, ReplicaShape
from opentela.placer.simulate import columns, steady
from opentela.placer.simulate.columns import Columns
from opentela.placer.simulate.steady import Lengths

METRICS: Final = ("ttft", "tpot", "e2e", "rps")
MODES: Final = (
    "static_batch",
    "closed_loop",
    "offline_inf_rate",
    "saturated_max_num_seqs",
    "open_loop_replay",
)
"""Kinds of load that the analytic model is fitted to. Of a replay under more load than could be
served it is only the time of a token, with as many sequences as may run."""

_ENGINES: Final[Mapping[tuple[str, str], str]] = {
    ("vllm", "0.5"): "vllm-0.5",
    ("vllm", "0.11"): "vllm-0.12",
    ("vllm", "0.12"): "vllm-0.12",
    ("vllm", "2025"): "vllm-0.12",
    ("vllm", "2023"): "vllm-2023",
    ("vllm", "mlperf"): "vllm-mlperf",
    ("tensorrt-llm", "0.12"): "tensorrt-llm-0.12",
    ("tensorrt-llm", "2024"): "tensorrt-llm-0.12",
    ("tensorrt-llm", "0.15"): "tensorrt-llm-0.15",
    ("tensorrt-llm", "0.5"): "tensorrt-llm-0.6",
    ("tensorrt-llm", "0.6"): "tensorrt-llm-0.6",
    ("tensorrt-llm", "mlperf"): "tensorrt-llm-mlperf",
    ("trtllm", ""): "tensorrt-llm",
}
"""Engine and beginning of its version to the engine of the catalogue."""

_GUESSING: Final = frozenset({"deepseek-v3"})
"""Models that come with a head which guesses further tokens. Whether an engine used it, no table
tells; but it shows, for the same configuration takes half the time under another build."""
_FILLED: Final = 0.85
"""Share of the sequences that may run which do, on average over a replay that begins and ends with
none: what the discrete model says of the recorded ones."""
_SUSPECT: Final = frozenset({"power_capped", "expert_reuse_suspect", "engine_atypical"})
"""Marks of measurements that say nothing of the engine as it is used."""

_PROMPT_OF: Final[Mapping[str, float]] = {"lm-arena-chat": 100.0, "gpqa": 250.0}
"""Mean prompts of tasks whose measurements do not name it; of little weight beside the answers."""


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement; what was not measured is NaN.

    Attributes:
        clients: Requests at once; NaN where as many as fit.
    """

    id: str
    source: str
    mode: str
    shape: ReplicaShape
    clients: float
    rate_rps: float
    prompt: float
    answer: float
    ttft_s: float
    tpot_s: float
    e2e_s: float
    rps: float
    quality: str

    def group(self, by: str) -> str:
        """Return the group of this point by one of its traits: `gpu`, `model`, …."""
        shape = self.shape
        return {
            "id": self.id,
            "source": self.source,
            "mode": self.mode,
            "gpu": shape.gpu.id,
            "engine": shape.engine,
            "family": catalogue.engine(shape.engine).family,
            "model": shape.model.id,
            "gpu,engine,model": f"{shape.engine} {shape.gpu.id} {shape.model.id}",
            "curve": f"{self.source} {shape.engine} {shape.gpu.id} {shape.model.id}"
            f" {shape.w_dtype} {shape.tp} {shape.ep}",
        }[by]


def read(folder: Path) -> list[Point]:
    """Return the measurements of every CSV in *folder* that the simulator can speak of.

    Raises:
        UsageError: If a row has a cell that is no number where one must stand.
    """
    points = []
    for path in sorted([*folder.glob("*.csv"), *folder.glob("*.csv.gz")]):
        try:
            with _opened(path) as file:
                rows = csv.DictReader(file)
                if "point_id" in (rows.fieldnames or ()):
                    points += [point for row in rows if (point := _checked(path, row)) is not None]
        except (OSError, EOFError, UnicodeDecodeError, csv.Error, zlib.error) as error:
            raise UsageError(
                f"{path} cannot be read: {in_words(error)}", remedy="give CSV of measurements"
            ) from error
    return points


def _opened(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8", newline="")
    return path.open(encoding="utf-8", newline="")


def _checked(path: Path, row: Mapping[str, str]) -> Point | None:
    fault = "the row is cut short"
    try:
        if None not in row.values():
            return _point(row)
    except KeyError as error:
        fault = f"there is no column {error.args[0]}"
    except (TypeError, ValueError, OverflowError) as error:
        fault = str(error)
    raise UsageError(f"{path}: {row['point_id']}: {fault}", remedy="see docs/simulator.md")


def engine_id(engine: str, version: str) -> str:
    """Return which engine of the catalogue a measured one is."""
    for (name, beginning), found in _ENGINES.items():
        if engine == name and version.startswith(beginning):
            return found
    return engine if engine in catalogue.engines() else "vllm"


def _point(row: Mapping[str, str]) -> Point | None:
    if row["model"] not in catalogue.models() or row["gpu"] not in catalogue.gpus():
        return None
    if row["tp"] == "" or row["quality"] in _SUSPECT or row["mode"] not in MODES:
        return None
    engine = engine_id(row["engine"], row["engine_ver"])
    prompt = _number(row["in_len"])
    if np.isnan(prompt):
        prompt = next((v for task, v in _PROMPT_OF.items() if task in row["note"]), 200.0)
    model = catalogue.model(row["model"])
    tp, ep = facts.division(row, _size(row["tp"]), _ep(row), is_mixture=model.experts > 0)
    shape = ReplicaShape(
        model=model,
        gpu=catalogue.gpu(row["gpu"]),
        tp=tp,
        pp=_size(row["pp"] or "1"),
        ep=ep,
        w_dtype=_stored(facts.stored(row)),
        kv_dtype=_stored(row["kv_dtype"] or facts.kv_stored(row) or _kv_dtype(row)),
        engine=engine,
        build=row["engine_ver"] if row["model"] in _GUESSING else "",
        **_limits(row),
    )
    out = _number(row["out_len"])
    rate = _number(row["req_s"])
    if row["mode"] == "saturated_max_num_seqs":
        rate = _number(row["out_tok_s"]) / out
    is_replay = row["mode"] == "open_loop_replay"
    return Point(
        id=row["point_id"],
        source=row["source"],
        mode=row["mode"],
        shape=shape,
        clients=float(shape.max_batch) if is_replay else _number(facts.at_once(row)),
        rate_rps=_number(row["rate_rps"]),
        prompt=prompt,
        answer=out,
        ttft_s=_number(row["ttft_ms"] if not is_replay else "") / 1e3,
        tpot_s=_number(row["tpot_ms"]) / 1e3,
        e2e_s=_number(row["e2e_s"] if not is_replay else ""),
        rps=float("nan") if is_replay else rate / max(int(row["dp"] or 1), 1),
        quality=row["quality"],
    )


def _kv_dtype(row: Mapping[str, str]) -> str:
    """Return the likely format of the KV cache: the engine's default for these weights."""
    small = row["engine"] == "trtllm" and row["w_dtype"] in {"fp8", "fp4"}
    return "fp8" if small else "bf16"


def _ep(row: Mapping[str, str]) -> int:
    """Return the expert parallelism, which only notes tell."""
    found = re.search(r"\b(?:moe_)?ep=(\d+)", row["note"])
    return max(int(found[1]), 1) if found else 1


def _limits(row: Mapping[str, str]) -> dict[str, int]:
    """Return the limits of a replay's engine, which its note tells."""
    if row["mode"] != "open_loop_replay":
        return {}
    named = {"max_batch": "max_num_seqs", "batched_tokens_max": "max_num_batched_tokens"}
    found = {field: re.search(rf"{name} (\d+)", row["note"]) for field, name in named.items()}
    return {field: int(match[1]) for field, match in found.items() if match}


def _number(text: str) -> float:
    """Return the amount in a cell, NaN where nothing was measured."""
    value = float(text) if text else math.nan
    if value < 0 or math.isinf(value):
        raise ValueError(f"{text} is no amount")
    return value


def _stored(text: str) -> str:
    if text not in DTYPE_BYTES:
        raise ValueError(f"there is no number type {text!r}")
    return text


def _size(text: str) -> int:
    if int(text) < 1:
        raise ValueError(f"{text} is no size")
    return int(text)


class Measured(NamedTuple):
    """Points as arrays, ready to be predicted; each of shape (N, 1)."""

    points: Sequence[Point]
    columns: Columns
    lengths: Lengths
    clients: Floats
    values: Floats
    """Measured values by `METRICS`, of shape (N, 4); NaN where none."""


def measured(points: Sequence[Point], fit: Fit) -> tuple[Measured, Floats]:
    """Return *points* as arrays, and the factors that *fit* has for them."""
    c, z = columns.of([point.shape for point in points], fit)
    prompt, answer, clients = (
        np.array([getattr(point, name) for point in points])[:, None]
        for name in ("prompt", "answer", "clients")
    )
    values = np.array([[p.ttft_s, p.tpot_s, p.e2e_s, p.rps] for p in points])
    return Measured(points, c, Lengths(prompt, prompt, answer, answer / 2), clients, values), z


def predict(data: Measured, z: Floats) -> Floats:
    """Return what the simulator says, by `METRICS`: shape (N, 4)."""
    said = np.full((len(data.points), len(METRICS)), np.nan)
    modes = np.array([point.mode for point in data.points])
    for mode, predictor in _PREDICTORS.items():
        at = np.flatnonzero(modes == mode)
        if at.size:
            c = Columns(*(column[at] for column in data.columns))
            lengths = Lengths(*(length[at] for length in data.lengths))
            for name, value in predictor(c, z[at], data.clients[at], lengths).items():
                said[at, METRICS.index(name)] = value[:, 0]
    return said


def _static(c: Columns, z: Floats, clients: Floats, lengths: Lengths) -> dict[str, Floats]:
    ttft, tpot, e2e = steady.static_batch(c, z, clients, lengths)
    return {"ttft": ttft, "tpot": tpot, "e2e": e2e}


def _closed(c: Columns, z: Floats, clients: Floats, lengths: Lengths) -> dict[str, Floats]:
    said = steady.closed_loop(c, z, clients, lengths)
    e2e = said.ttft_s + np.maximum(lengths.answer - 1, 0) * said.tpot_s
    return {"ttft": said.ttft_s, "tpot": said.tpot_s, "e2e": e2e, "rps": said.rps}


def _offline(c: Columns, z: Floats, clients: Floats, lengths: Lengths) -> dict[str, Floats]:
    running = np.fmin(steady.running_max(c, z, lengths), clients)
    return {"rps": steady.saturated(c, z, lengths, running).rps}


def _running(c: Columns, z: Floats, clients: Floats, lengths: Lengths) -> dict[str, Floats]:
    said = steady.saturated(c, z, lengths, clients)
    alone = steady.decode_s(c, z, said.running, lengths)
    often = said.running / lengths.answer > 0.5  # noqa: PLR2004 - the median step has a prompt
    return {"tpot": np.where(often, said.tpot_s, alone), "rps": said.rps}


def _replayed(c: Columns, z: Floats, clients: Floats, lengths: Lengths) -> dict[str, Floats]:
    return {"tpot": steady.saturated(c, z, lengths, _FILLED * clients).tpot_s}


_PREDICTORS: Final = {
    "static_batch": _static,
    "closed_loop": _closed,
    "offline_inf_rate": _offline,
    "saturated_max_num_seqs": _running,
    "open_loop_replay": _replayed,
}
