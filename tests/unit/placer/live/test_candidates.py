"""Which shapes there are to choose from, and what is said of those that nobody can work out."""

import msgspec
import pytest
from tests.unit.placer.live import parts

from opentela.placer.live import candidates
from opentela.placer.live.candidates import Candidates
from opentela.placer.live.config import ModelConfig
from opentela.placer.live.demand import Asked
from opentela.placer.live.experience import Seen
from opentela.placer.live.pools import PoolSeen
from opentela.placer.live.specs import specs
from opentela.placer.load_cost import measured
from opentela.placer.options import Enumerated, Wanted, enumerate_options
from opentela.placer.problem import Group, Option

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


def test_what_was_worked_out_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lengths are rounded to a tenth; what starting costs may be given."""
    asked: list[int] = []

    def counted(wanted: list[Wanted], *given: object, **more: object) -> Enumerated:
        asked.append(len(wanted))
        return enumerate_options(wanted, *given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(candidates, "enumerate_options", counted)
    config = parts.config(models=(MODEL,))
    known, _ = specs(config.models, lambda _: {})
    made = Candidates(config, known, measured().scaled(2.0))

    def of(one: Candidates, tokens: float) -> dict[Group, Option]:
        lengths = Asked(model=MODEL.name, rate_rps=1.0, in_tokens=tokens, out_tokens=50.0)
        return one.of([POOL], {MODEL.name: lengths}, [])

    found = [of(made, tokens) for tokens in (960.0, 1000.0, 2000.0)][-1]
    assert asked == [1, 1]
    usual = of(Candidates(config, known), 2000.0)
    assert all(found[group].load_s == pytest.approx(2 * usual[group].load_s) for group in usual)
    monkeypatch.setattr(candidates, "MADE_MAX", 1)
    of(made, 2000.0)
    assert asked == [1, 1, 1, 1]


def test_what_was_seen_corrects_what_is_believed() -> None:
    """Of the model in that pool, whatever the size; what was measured is not corrected."""
    config = parts.config(models=(MODEL, ModelConfig(name="a", capacity_rps=3.0)))
    known, _ = specs(config.models[:1], lambda _: {})
    made = Candidates(config, known)
    pool = msgspec.structs.replace(POOL, templates=("vllm",))
    other = msgspec.structs.replace(pool, name="b/h100/4", site="b")
    one, two = Group(MODEL.name, pool.name, 1), Group(MODEL.name, pool.name, 2)
    before = made.of([pool, other], {}, [])
    half = Seen(before[one].capacity_rps / 2, 0.0)
    measured_ = Group("a", pool.name, 1)
    after = made.of([pool, other], {}, [], {one: half, measured_: Seen(1.0, 0.0)})
    for group in (one, two):
        assert after[group].capacity_rps == pytest.approx(before[group].capacity_rps / 2)
    for group in (measured_, Group(MODEL.name, other.name, 1)):
        assert after[group] == before[group]
    assert made.of([pool], {}, [])[one] == after[one]
    # Once it is gone, it is not remembered.
    assert made.of([other], {}, []) != {}
    assert made.of([pool], {}, [])[one] == before[one]
