"""How long a replica takes from the decision to its first request.

Fitted to `data/load_times.csv`, medians of ServerlessLLM's benchmark results (commit 9f50241,
Apache-2.0), and `data/engine_starts.csv`, start-ups as users reported them.
"""

import csv
import functools
import statistics
from importlib import resources

import msgspec


class LoadCost(msgspec.Struct, frozen=True, kw_only=True):
    """What starting a replica costs.

    Attributes:
        bytes_per_s: At which weights come from a node's disk, over all GPUs of the node.
        engine_s: What the engine does besides: compile, capture graphs, measure its memory.
    """

    bytes_per_s: float
    engine_s: float

    def load_s(self, weights_bytes: float) -> float:
        """Return seconds until a replica with these weights serves."""
        return self.engine_s + weights_bytes / self.bytes_per_s

    def scaled(self, factor: float) -> "LoadCost":
        """Return what takes *factor* times as long."""
        return LoadCost(bytes_per_s=self.bytes_per_s / factor, engine_s=self.engine_s * factor)


@functools.cache
def measured() -> LoadCost:
    """Return what was measured: safetensors from a cold NVMe, and the median engine."""
    loads = _rows("load_times.csv")
    rates = [
        float(row["weights_gb"]) * 1e9 / float(row["loading_s"])
        for row in loads
        if row["loader"] == "safetensors" and row["page_cache"] == "cold"
    ]
    starts = [float(row["after_weights_s"]) for row in _rows("engine_starts.csv")]
    return LoadCost(bytes_per_s=statistics.median(rates), engine_s=statistics.median(starts))


def _rows(name: str) -> list[dict[str, str]]:
    file = resources.files("opentela.placer") / "data" / name
    return list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))
