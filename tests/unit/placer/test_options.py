"""Every way to run what is asked on what there is."""

import pytest

from opentela.placer import catalogue
from opentela.placer.load_cost import LoadCost
from opentela.placer.options import SAFE, UTILISATIONS, Wanted, enumerate_options
from opentela.placer.problem import Pool
from opentela.placer.shapes import Slo, Workload

COST = LoadCost(bytes_per_s=1e9, engine_s=10.0)
POOLS = (
    Pool(name="a", gpu="a100-80g-sxm", nodes=2, gpus_per_node=4),
    Pool(name="x", gpu="nobody-knows", nodes=1, gpus_per_node=8),
)


def _wanted(model: str, slo: Slo, **changes: tuple[int, ...]) -> Wanted:
    load = Workload(rate_rps=0.0, in_len=500, out_len=200)
    return Wanted("it", catalogue.model(model), load, slo, **changes)  # type: ignore[arg-type]


def test_shapes_are_all_sizes_that_fit_a_node() -> None:
    """Weights of 141 GB need two of 80 GB; eight are in no node here."""
    made = enumerate_options(
        [_wanted("llama-3.3-70b", Slo())], POOLS, catalogue.gpus(), COST, with_latency=True
    )
    assert {(one.gpu, one.tp, one.pp) for one in made.options} == {
        ("a100-80g-sxm", 2, 1),
        ("a100-80g-sxm", 4, 1),
    }
    two, four = made.options
    assert four.capacity_rps > two.capacity_rps > 0
    assert two.capacity_rps == pytest.approx(SAFE * made.capacity_rps[0])
    assert two.load_s == pytest.approx(10.0 + 141.1, abs=1.0)
    assert [load for load, _ in two.latency_s] == list(UTILISATIONS)
    assert two.latency_s[0][1] < two.latency_s[-1][1]
    assert made.notes == {}


def test_promises_cost_capacity() -> None:
    """A strict promise leaves less than a loose one; none at all is saturation less a reserve."""
    loose, strict = (
        enumerate_options(
            [_wanted("llama-3.1-8b", Slo(tpot_s=tpot), tp=(1,))], POOLS, catalogue.gpus(), COST
        ).options[0]
        for tpot in (0.1, 0.02)
    )
    assert strict.capacity_rps < loose.capacity_rps
    kept = enumerate_options(
        [_wanted("llama-3.1-8b", Slo(tpot_s=0.02), tp=(1,))],
        POOLS,
        catalogue.gpus(),
        COST,
        keeps_promises=False,
    )
    assert kept.options[0].capacity_rps == pytest.approx(SAFE * kept.capacity_rps[0])


def test_what_runs_nowhere_says_why() -> None:
    """Too large, or a promise that no load keeps."""
    large = enumerate_options([_wanted("deepseek-v3", Slo())], POOLS, catalogue.gpus(), COST)
    assert large.options == ()
    assert "do not fit into memory (a100-80g-sxm)" in large.notes["it"]
    hasty = enumerate_options(
        [_wanted("llama-3.1-8b", Slo(ttft_s=1e-6))], POOLS, catalogue.gpus(), COST
    )
    assert "no load is so small" in hasty.notes["it"]


def test_stages_are_for_what_no_node_holds() -> None:
    """405 billion parameters need two nodes of eight; nothing smaller is staged."""
    pools = (Pool(name="h", gpu="h100-80g-sxm", nodes=4, gpus_per_node=8),)
    made = enumerate_options([_wanted("llama-3.1-405b", Slo())], pools, catalogue.gpus(), COST)
    assert {(one.tp, one.pp) for one in made.options} == {(8, 2)}
    asked = enumerate_options(
        [_wanted("llama-3.1-8b", Slo(), tp=(2,), pp=(2,))], pools, catalogue.gpus(), COST
    )
    assert {(one.tp, one.pp) for one in asked.options} == {(2, 2)}
