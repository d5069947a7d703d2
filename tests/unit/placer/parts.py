"""Shapes and workloads that tests of the simulator share."""

from typing import Any

import numpy as np

from opentela.placer import catalogue
from opentela.placer.shapes import ReplicaShape, Requests, Workload


def shape(model: str = "llama-3.1-8b", gpu: str = "h100-80g-sxm", **more: Any) -> ReplicaShape:
    """Return a replica of a listed model on a listed GPU."""
    return ReplicaShape(model=catalogue.model(model), gpu=catalogue.gpu(gpu), **more)


def workload(rate: float = 1.0, **more: Any) -> Workload:
    """Return a workload of middling lengths."""
    return Workload(**({"rate_rps": rate, "in_len": 500.0, "out_len": 200.0} | more))


def requests(
    count: int, *, every_s: float = 0.1, prompt: int = 500, answer: int = 100, hit: int = 0
) -> Requests:
    """Return a trace of equal requests at equal distances."""
    return Requests(
        arrival_s=np.arange(count, dtype=np.float64) * every_s,
        in_tokens=np.full(count, prompt),
        out_tokens=np.full(count, answer),
        prefix_hit_tokens=np.full(count, hit),
    )
