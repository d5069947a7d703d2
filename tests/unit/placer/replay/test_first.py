"""The placement that a replay begins with."""

import numpy as np
import pytest
from tests.unit.placer.replay.small import small

from opentela.placer.problem import Demand, Group, Option, Pool, Problem, served
from opentela.placer.replay.first import first, work
from opentela.placer.replay.fleet import Known, Manner
from opentela.placer.replay.trace import Trace
from opentela.placer.shapes import Requests, Slo

FAST, SLOW = Manner(8.0, 0.1, (0.01,) * 5), Manner(2.0, 0.1, (0.01,) * 5)


def known(name: str) -> Known:
    return Known(name, 100.0, 10.0, 0.5, Slo(), {("h", 1, 1): FAST, ("a", 1, 1): SLOW})


def trace(*arrival_s: list[float], names: str) -> Trace:
    """Return the requests of each model, by name."""
    times = np.concatenate([np.array(one) for one in arrival_s])
    model = np.concatenate([np.full(len(one), i) for i, one in enumerate(arrival_s)])
    order = np.argsort(times, kind="stable")
    requests = Requests(
        arrival_s=times[order],
        in_tokens=np.full(len(order), 100),
        out_tokens=np.full(len(order), 10),
        prefix_hit_tokens=np.zeros(len(order), dtype=np.int64),
    )
    return Trace(tuple(names), model[order].astype(np.int64), requests)


def problem(names: str, *, quick: int = 1, slow: int = 1, rate: float = 0.1) -> Problem:
    """Return GPUs that serve eight and two requests a second."""
    return Problem(
        pools=(
            Pool(name="h", gpu="h", nodes=quick, gpus_per_node=1, usd_h=3.0),
            Pool(name="a", gpu="a", nodes=slow, gpus_per_node=1, usd_h=1.0),
        ),
        demands=tuple(Demand(model=name, rate_rps=rate) for name in names),
        options=tuple(
            Option(model=name, gpu=gpu, capacity_rps=rps)
            for name in names
            for gpu, rps in (("h", 8.0), ("a", 2.0))
        ),
    )


def gpu_of(placed: dict[Group, int], name: str) -> list[str]:
    return [group.pool for group in sorted(placed) if group.model == name]


def test_who_comes_in_bursts_gets_the_quick_gpu() -> None:
    """On average both ask for the same, and either GPU is enough for that."""
    steady = list(np.linspace(0, 3600, 300))
    burst = [*np.linspace(1800, 1860, 295), 0.0, 1.0, 2.0, 3.0, 3600.0]
    for names, places in (("sb", ("a", "h")), ("bs", ("h", "a"))):
        arrivals = (steady, burst) if names == "sb" else (burst, steady)
        past = trace(*arrivals, names=names)
        placed = first(problem(names), past, [known(name) for name in names], 30.0)
        assert [gpu_of(placed, name) for name in names] == [[places[0]], [places[1]]]


def test_what_is_left_goes_to_growth() -> None:
    """One GPU would do for now; the demand may double twice."""
    past = trace(list(np.linspace(0, 600, 900)), names="g")
    placed = first(problem("g", quick=0, slow=4, rate=1.5), past, [known("g")], 30.0)
    assert sum(placed.values()) > 1


def test_who_has_not_asked_yet_has_a_replica_if_there_is_room() -> None:
    """It is not known that they never will."""
    past = trace(list(np.linspace(0, 600, 60)), [], names="ab")
    for slow, places in ((2, 2), (1, 1)):
        made = problem("ab", quick=0, slow=slow)
        placed = first(made, past, [known("a"), known("b")], 30.0)
        assert sum(placed.values()) == places
        assert gpu_of(placed, "a") == ["a"]


def test_where_demands_do_not_fit_each_has_one_before_any_has_two() -> None:
    """However much more is asked of one."""
    past = trace(list(np.linspace(0, 600, 9000)), list(np.linspace(0, 600, 60)), names="ab")
    made = problem("ab", quick=2, slow=0, rate=9.0)
    placed = first(made, past, [known("a"), known("b")], 30.0)
    assert gpu_of(placed, "a") == gpu_of(placed, "b") == ["h"]
    assert min(served(made, placed).values()) > 0.0


def test_work_is_counted_in_mean_requests() -> None:
    """Of the whole trace, each in those of its own model."""
    made = small()
    sizes = work(made.past, made.models)
    assert len(sizes) == len(made.past.requests)
    assert sizes == pytest.approx(np.ones(len(sizes)))
