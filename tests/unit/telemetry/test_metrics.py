"""Metrics: one name, one metric, in the form that Prometheus reads."""

import pytest

from opentela.telemetry import metrics


def test_one_name_is_one_metric() -> None:
    """Parts that exist twice in a process count together."""
    first = metrics.counter("otela_test_things_total", "Things.", ("kind",))
    assert metrics.counter("otela_test_things_total", "Things.", ("kind",)) is first
    first.labels("a").inc()
    assert b'otela_test_things_total{kind="a"} 1.0' in metrics.render()


def test_a_name_cannot_mean_two_things() -> None:
    """A gauge does not turn into a histogram."""
    metrics.gauge("otela_test_level", "Level.")
    with pytest.raises(AssertionError, match="already a Gauge"):
        metrics.histogram("otela_test_level", "Level.")


@pytest.mark.parametrize("name", ["requests_total", "otela_Test_total"])
def test_names_are_ours(name: str) -> None:
    """Every name begins alike and is lower case."""
    with pytest.raises(AssertionError):
        metrics.counter(name, "Wrong.")


def test_seconds_have_buckets_from_a_hop_to_a_long_answer() -> None:
    """A histogram without buckets is one of seconds."""
    metrics.histogram("otela_test_wait_s", "Wait.").observe(0.003)
    assert b'otela_test_wait_s_bucket{le="0.005"} 1.0' in metrics.render()


def test_the_process_itself_is_measured() -> None:
    """Memory and CPU time of the process stand beside our own metrics."""
    assert b"process_resident_memory_bytes" in metrics.render()
