"""What is to be expected, and what a placement would serve of it."""

import itertools

import msgspec
import pytest
from tests.unit.placer.live import parts

from opentela.placer.live.config import PlanConfig
from opentela.placer.live.demand import Asked
from opentela.placer.live.levels import Rate
from opentela.placer.live.outlook import Outlook
from opentela.placer.problem import Demand, Group, Option, Pool, Problem

A, B = Group("a", "p", 1), Group("b", "p", 1)
CONFIG = parts.config("a", "b")


def problem(*, running: dict[Group, int] | None = None, load_s: float = 0.0) -> Problem:
    return Problem(
        pools=(Pool(name="p", gpu="g", nodes=4, gpus_per_node=1),),
        demands=tuple(Demand(model=name, rate_rps=1.0) for name in "ab"),
        options=tuple(
            Option(model=name, gpu="g", capacity_rps=2.0, load_s=load_s) for name in "ab"
        ),
        running=running or {},
        horizon_s=1000.0,
    )


def outlook(one: Problem, *asked: Asked, **plan: object) -> Outlook:
    models = {model.name: model for model in CONFIG.models}
    idle: tuple[str, ...] = ()
    return Outlook(one, asked, idle, models, msgspec.convert(plan, PlanConfig))


def test_what_is_loaded_later_serves_less() -> None:
    """What runs already serves all the time."""
    often = Asked(model="a", rate_rps=0.1, levels=(Rate(0.1, 0.1),))
    runs = problem(running={A: 1}, load_s=100.0)
    assert outlook(runs, often).share({A: 1}) == 1.0
    starts = problem(load_s=100.0)
    high = Asked(model="a", rate_rps=9.0, levels=(Rate(9.0, 9.0),))
    assert outlook(starts, high).share({A: 1}) == pytest.approx(
        0.9 * outlook(problem(), high).share({A: 1})
    )
    assert outlook(starts, often).share({}) == 0.0


def test_more_is_worth_ever_less() -> None:
    """A second replica serves only what the first one leaves."""
    asked = Asked(model="a", rate_rps=1.0, levels=(Rate(0.5, 0.9), Rate(3.0, 0.1)))
    told = outlook(problem(), asked)
    shares = [told.share({A: n}) for n in range(4)]
    gains = [after - before for before, after in itertools.pairwise(shares)]
    assert gains == sorted(gains, reverse=True)
    assert gains[0] > 3 * gains[1]


def test_a_model_counts_by_how_much_of_it_is_expected() -> None:
    """And by the worth of its requests; what is given up counts nothing."""
    asked = [Asked(model=name, levels=(Rate(0.01, rate),)) for name, rate in (("a", 3), ("b", 1))]
    told = outlook(problem(), *asked)
    assert told.share({A: 1}) == pytest.approx(0.75)
    assert told.share({B: 1}) == pytest.approx(0.25)
    models = {one.name: msgspec.structs.replace(one, weight=3.0) for one in CONFIG.models[1:]}
    dear = Outlook(problem(), asked, (), {"a": CONFIG.models[0], **models}, PlanConfig())
    assert dear.share({B: 1}) == pytest.approx(0.5)
    given_up = Outlook(problem(), asked, ("a",), {"a": CONFIG.models[0], **models}, PlanConfig())
    assert given_up.share({B: 1}) == 1.0


def test_without_a_memory_what_is_asked_now_counts() -> None:
    """As tools ask that know no more; and where the worst comes first, what is demanded."""
    told = outlook(problem(), Asked(model="a", rate_rps=0.1), Asked(model="b"))
    assert told.share({A: 1}) == 1.0
    fair = outlook(problem(), Asked(model="a", rate_rps=0.1), scarce="fair")
    assert fair.share({A: 1}) == 0.5
