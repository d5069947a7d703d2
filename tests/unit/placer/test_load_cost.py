"""What starting a replica costs."""

import pytest

from opentela.placer.load_cost import LoadCost, measured


def test_what_was_measured_is_a_cold_disk_and_the_median_engine() -> None:
    """65 GB in about 20 s, and about a minute for the engine."""
    cost = measured()
    assert cost.bytes_per_s == pytest.approx(3.39e9, rel=0.01)
    assert cost.engine_s == pytest.approx(65.05)
    assert cost.load_s(65.5e9) == pytest.approx(65.05 + 19.3, abs=0.2)


def test_cost_can_be_scaled() -> None:
    """For asking what would be if loading were faster."""
    cost = LoadCost(bytes_per_s=1e9, engine_s=10.0)
    assert cost.load_s(5e9) == 15.0
    assert cost.scaled(0.5).load_s(5e9) == 7.5
