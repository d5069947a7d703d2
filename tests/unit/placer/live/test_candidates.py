"""Which shapes there are to choose from, and what is said of those that nobody can work out."""

from tests.unit.placer.live import parts

from opentela.placer.live.candidates import Candidates
from opentela.placer.live.config import ModelConfig
from opentela.placer.live.demand import Asked
from opentela.placer.live.pools import PoolSeen
from opentela.placer.live.specs import specs
from opentela.placer.problem import Group

POOL = PoolSeen(
    name="a/h100/4",
    site="a",
    hardware="NVIDIA H100 80GB HBM3",
    agents=2,
    gpus=4,
    templates=("vllm", parts.TEMPLATE),
)
MODEL = ModelConfig(name="Qwen/Qwen3-8B")


def test_what_was_measured_is_taken_as_it_stands() -> None:
    """For each size that may be used and that an agent has."""
    config = parts.config(models=(ModelConfig(name="a", tp=(1, 2, 8), capacity_rps=3.0),))
    found = Candidates(config, {}).of([POOL], {}, [])
    assert {group.tp: option.capacity_rps for group, option in found.items()} == {1: 3.0, 2: 3.0}


def test_what_nobody_knows_is_guessed() -> None:
    """As the operator says."""
    config = parts.config("a")
    guess = Candidates(config, {}).unknown(Group("old", POOL.name, 2))
    assert (guess.capacity_rps, guess.load_s) == (
        config.plan.unknown_rps,
        config.plan.unknown_load_s,
    )


def test_longer_requests_leave_less_capacity() -> None:
    """Worked out anew for what was seen lately."""
    config = parts.config(models=(MODEL,))
    known, _ = specs(config.models, lambda _: {})
    made, notes = Candidates(config, known), list[str]()
    short, long = (
        made.of(
            [POOL],
            {MODEL.name: Asked(model=MODEL.name, rate_rps=1.0, in_tokens=n, out_tokens=n)},
            notes,
        )
        for n in (100, 4000)
    )
    group = Group(MODEL.name, POOL.name, 1)
    assert short[group].capacity_rps > 5 * long[group].capacity_rps
    assert notes == []
