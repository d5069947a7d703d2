"""What `otela simulate` does and prints."""

from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from opentela.core.errors import UsageError
from opentela.placer import catalogue, files, hf_config
from opentela.placer.shapes import (
    DTYPE_BYTES,
    Floats,
    Model,
    Replica,
    ReplicaShape,
    Requests,
    Slo,
    Workload,
)
from opentela.placer.simulate import analytic, discrete

_SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)


def simulated(
    model: str,
    *,
    gpu: str,
    tp: int,
    pp: int,
    w_dtype: str,
    kv_dtype: str,
    engine: str,
    in_tokens: float,
    out_tokens: float,
    rates: tuple[float, ...],
    ttft_s: float,
    tpot_s: float,
    requests: int,
    seed: int,
) -> dict[str, Any]:
    """Return what one replica does at each rate.

    Raises:
        UsageError: A name is unknown, or the shape cannot run.
    """
    read, w_dtype = _model(model, w_dtype)
    for option, dtype in (("--w-dtype", w_dtype), ("--kv-dtype", kv_dtype)):
        if dtype not in DTYPE_BYTES:
            known = ", ".join(DTYPE_BYTES)
            raise UsageError(f"{option}: there is no number type {dtype!r}", remedy=f"use {known}")
    shape = ReplicaShape(
        model=read, gpu=catalogue.gpu(gpu), tp=tp, pp=pp,
        w_dtype=w_dtype, kv_dtype=kv_dtype, engine=catalogue.engine(engine).id,
    )  # fmt: skip
    load = Workload(rate_rps=0.0, in_len=in_tokens, out_len=out_tokens, in_cv=1.0, out_cv=1.0)
    slo = Slo(ttft_s=ttft_s, tpot_s=tpot_s)
    still = analytic.estimate([shape], [load], slo=slo)
    if still.reasons[0] is not None:
        raise UsageError(
            f"{shape.model.id} cannot run on {tp * pp} of {gpu}: {still.reasons[0]}",
            remedy="change --tp, --pp, --w-dtype or --gpu",
        )
    full = float(still.capacity_rps[0])
    asked = rates or tuple(share * full for share in _SHARES)
    rows = [_row(shape, load, rate, requests, seed) for rate in asked]
    return {
        "model": shape.model.id,
        "gpu": gpu,
        "gpus": shape.gpus,
        "capacity_rps": full,
        "promised_rps": float(still.slo_rps[0]),
        "batch_max": float(still.batch_max[0]),
        "kv_tokens": float(still.kv_tokens[0]),
        "loads": rows,
    }


def _row(shape: ReplicaShape, load: Workload, rate: float, count: int, seed: int) -> dict[str, Any]:
    at = Workload(rate_rps=rate, in_len=load.in_len, out_len=load.out_len, in_cv=1.0, out_cv=1.0)
    told = analytic.estimate([shape], [at])
    row = {
        "rate_rps": rate,
        "utilisation": float(told.utilisation[0]),
        "ttft_s": float(told.ttft_s[0]),
        "tpot_s": float(told.tpot_s[0]),
        "e2e_s": float(told.e2e_s[0]),
        "e2e_p99_s": float(told.e2e_p99_s[0]),
    }
    if count and rate > 0:
        row["discrete"] = _discrete(shape, at, count, seed)  # type: ignore[assignment]
    return {key: _finite(value) for key, value in row.items()}


def _discrete(shape: ReplicaShape, load: Workload, count: int, seed: int) -> dict[str, float]:
    draw = np.random.default_rng(seed)
    requests = Requests(
        arrival_s=np.cumsum(draw.exponential(1 / load.rate_rps, size=count)),
        in_tokens=_lengths(load.in_len, count, draw),
        out_tokens=_lengths(load.out_len, count, draw),
        prefix_hit_tokens=np.zeros(count, dtype=np.int64),
    )
    told = discrete.simulate(requests, [Replica(shape=shape)], seed=seed)
    spent = told.done_s - requests.arrival_s
    first = told.first_s - requests.arrival_s
    return {
        "ttft_s": float(np.nanmean(first)),
        "e2e_s": float(np.nanmean(spent)),
        "e2e_p99_s": float(np.nanquantile(spent, 0.99)),
        "events": told.events,
    }


def _lengths(mean: float, count: int, draw: np.random.Generator) -> Any:
    sigma = np.sqrt(np.log(2))
    values: Floats = draw.lognormal(np.log(mean) - sigma**2 / 2, sigma, size=count)
    return np.maximum(values.round(), 1).astype(np.int64)


def _model(name: str, w_dtype: str) -> tuple[Model, str]:
    if not name.endswith(".json"):
        return catalogue.model(name), w_dtype or "bf16"
    path = Path(name)
    config = files.read_json(path)
    return (
        hf_config.model(config, id=path.resolve().parent.name),
        w_dtype or hf_config.stored_as(config),
    )


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not np.isfinite(value) else value


def show(made: dict[str, Any]) -> None:
    """Print it for people."""
    console = Console(highlight=False)
    console.print(
        f"{made['model']} on {made['gpus']} {made['gpu']}: {made['capacity_rps']:.3g} requests/s"
        f" at most, {made['promised_rps']:.3g} as promised; {made['batch_max']:.0f} run at once,"
        f" {made['kv_tokens']:.0f} tokens of KV cache",
        soft_wrap=True,
    )
    table = Table(box=None, header_style="bold")
    keys = ("rate_rps", "utilisation", "ttft_s", "tpot_s", "e2e_s", "e2e_p99_s")
    for name in ("RATE/s", "LOAD", "TTFT s", "TPOT s", "MEAN s", "P99 s"):
        table.add_column(name, justify="right")
    is_discrete = any("discrete" in row for row in made["loads"])
    for name in ("EVENTS: TTFT s", "MEAN s", "P99 s") if is_discrete else ():
        table.add_column(name, justify="right")
    for row in made["loads"]:
        one = row.get("discrete", {})
        more = [_number(one.get(key)) for key in ("ttft_s", "e2e_s", "e2e_p99_s")]
        table.add_row(*(_number(row[key]) for key in keys), *(more if is_discrete else ()))
    console.print(table)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
