"""Prometheus metrics: one registry a process, one way to name things.

Names are `otela_<service>_<noun>[_<unit>][_total]`; labels come from small closed sets, never from
requests. Asking twice for one name gives one metric: parts that exist several times in a process
(two routers in a test) count together.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    exposition,
)

REGISTRY: Final = CollectorRegistry()
CONTENT_TYPE: Final = exposition.CONTENT_TYPE_LATEST

SECONDS_BUCKETS: Final = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0,
)  # fmt: skip
"""From a hop over the mesh to an answer of thousands of tokens."""

_NAME: Final = re.compile(r"otela_[a-z0-9_]+")
_MetricT = TypeVar("_MetricT", Counter, Gauge, Histogram)
_known: Final[dict[str, Counter | Gauge | Histogram]] = {}

ProcessCollector(registry=REGISTRY)
PlatformCollector(registry=REGISTRY)


def counter(name: str, documentation: str, labels: Sequence[str] = ()) -> Counter:
    """Return the counter *name*, which ends in `_total`."""
    assert name.endswith("_total"), name
    return _one(Counter, name, lambda: Counter(name, documentation, labels, registry=REGISTRY))


def gauge(name: str, documentation: str, labels: Sequence[str] = ()) -> Gauge:
    """Return the gauge *name*."""
    return _one(Gauge, name, lambda: Gauge(name, documentation, labels, registry=REGISTRY))


def histogram(
    name: str,
    documentation: str,
    labels: Sequence[str] = (),
    *,
    buckets: Sequence[float] = SECONDS_BUCKETS,
) -> Histogram:
    """Return the histogram *name*; seconds unless *buckets* say otherwise."""
    return _one(
        Histogram,
        name,
        lambda: Histogram(name, documentation, labels, buckets=buckets, registry=REGISTRY),
    )


def render() -> bytes:
    """Return every metric of this process as Prometheus reads it."""
    return exposition.generate_latest(REGISTRY)


def _one(form: type[_MetricT], name: str, make: Callable[[], _MetricT]) -> _MetricT:
    assert _NAME.fullmatch(name), name
    metric = _known.get(name)
    if metric is None:
        metric = _known[name] = make()
    assert isinstance(metric, form), f"{name} is already a {type(metric).__name__}"
    return metric
