"""The placer of the service, driven by a trace."""

import msgspec
import numpy as np
import pytest
from tests.unit.placer.live import parts
from tests.unit.placer.live.world import World
from tests.unit.placer.replay.small import small

from opentela.placer.live.config import DemandConfig, PlacerConfig, PlanConfig
from opentela.placer.live.machine import PlacerMachine
from opentela.placer.replay import live
from opentela.placer.replay.controller import Policy
from opentela.placer.replay.run import Way, run

GIVEN = PlacerConfig(access="none")


def starts(config: PlacerConfig) -> int:
    return run(small(), Way.LIVE, Policy(), live=config).outcome.starts


def test_what_decides_is_what_the_service_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its machine is fed, its planner asked, with the settings that were given."""
    made: list[PlacerConfig] = []

    class Machine(PlacerMachine):
        def __init__(self, config: PlacerConfig, **given: object) -> None:
            made.append(config)
            super().__init__(config, **given)  # type: ignore[arg-type]

    monkeypatch.setattr(live, "PlacerMachine", Machine)
    given = msgspec.structs.replace(GIVEN, plan=PlanConfig(gain_min=0.5, cool_down_s=77.0))
    told = run(small(), Way.LIVE, Policy(), live=given)
    (config,) = made
    assert (config.plan, config.demand) == (given.plan, given.demand)
    assert [model.name for model in config.models] == ["busy", "rare"]
    assert told.cool_down_s == 77.0


@pytest.mark.parametrize("idle_s", [0.0, 60.0])
def test_a_setting_changes_the_service_and_the_replay_alike(idle_s: float) -> None:
    """What nobody asks for is ended after a while in both, or in neither."""
    quick = msgspec.structs.replace(parts.QUICK, idle_s=idle_s)
    service = World(1, parts.config("a", plan=quick))
    service.agent(1)
    service.placer()
    service.rates["a"] = 1.0
    service.run(60.0, until=lambda: service.serving("a") > 0)
    service.rates["a"] = 0.0
    service.run(3 * quick.idle_s + 60.0)
    usual = run(small(), Way.LIVE, Policy(), live=GIVEN).outcome
    plan = msgspec.structs.replace(GIVEN.plan, idle_s=idle_s)
    told = run(small(), Way.LIVE, Policy(), live=msgspec.structs.replace(GIVEN, plan=plan)).outcome
    assert (service.serving("a") == 0) is (told.gpu_hours < usual.gpu_hours) is bool(idle_s)


def test_it_begins_as_the_static_way_does_and_serves_whoever_asks() -> None:
    """The same in every run."""
    told = run(small(), Way.LIVE, Policy(), size=1.0)
    assert told.outcome.unserved == 0.0
    assert told.outcome.slo_attained > 0.9
    assert run(small(), Way.LIVE, Policy(), size=1.0) == told


def test_what_was_asked_before_is_known_at_the_beginning() -> None:
    """So that nothing has to be learnt while the trace is judged."""
    heard = DemandConfig(learn_s=1e6)
    unlearnt = msgspec.structs.replace(GIVEN, demand=heard)
    assert starts(unlearnt) <= starts(GIVEN)


def test_noise_repeats() -> None:
    """Ids differ within a run, and not between two."""
    one, two = live._Noise(), live._Noise()
    first = [one.randbytes(4), one.randbytes(4)]
    assert first[0] != first[1]
    assert [two.randbytes(4), two.randbytes(4)] == first
    assert 0 <= one.random() < 1
    assert one.randrange(3) in range(3)


def test_a_model_without_a_shape_takes_no_time() -> None:
    """Nothing is known of it."""
    known = small().models[0]
    assert live._takes(known._replace(manners={})) == (0.0, 0.0)
    assert all(value > 0 for value in live._takes(known))
    assert np.isfinite(live._takes(known)).all()
