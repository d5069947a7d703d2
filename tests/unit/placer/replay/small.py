"""A small replay that tests share: two models, of which one is quiet for long."""

import numpy as np

from opentela.placer import catalogue
from opentela.placer.files import ServedEntry
from opentela.placer.problem import Pool
from opentela.placer.replay.run import Setting
from opentela.placer.replay.setting import setting
from opentela.placer.replay.trace import Trace
from opentela.placer.shapes import Floats, Requests

POOLS = (Pool(name="h", gpu="h100-80g-sxm", nodes=1, gpus_per_node=2),)
SERVED = (
    ServedEntry(match="busy", model="llama-3.1-8b"),
    ServedEntry(match="*", model="qwen2.5-7b"),
)


def trace() -> Trace:
    """Return 4000 s in which one model is busy, the other asked in two bursts."""
    rare = np.concatenate([np.arange(100.0, 150.0, 0.5), np.arange(3200.0, 3260.0, 0.5)])
    return _of(np.arange(0.0, 4000.0, 0.5), rare)


def overloaded() -> Trace:
    """Return 400 s in which one model is asked 40 times a second, the other twice."""
    return _of(np.arange(0.0, 400.0, 0.025), np.arange(0.0, 400.0, 0.5))


def _of(busy: Floats, rare: Floats) -> Trace:
    arrival = np.concatenate([busy, rare])
    order = np.argsort(arrival, kind="stable")
    model = np.concatenate([np.zeros(len(busy)), np.ones(len(rare))]).astype(np.int64)
    requests = Requests(
        arrival_s=arrival[order],
        in_tokens=np.full(len(order), 300, dtype=np.int64),
        out_tokens=np.full(len(order), 100, dtype=np.int64),
        prefix_hit_tokens=np.zeros(len(order), dtype=np.int64),
    )
    return Trace(("busy", "rare"), model[order], requests)


def small() -> Setting:
    """Return it as runs need it."""
    assert catalogue.gpus()
    return setting(trace(), POOLS, SERVED, 0.25)
