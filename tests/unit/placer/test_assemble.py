"""From files to a problem."""

from typing import Any

import msgspec
import pytest

from opentela.core.errors import ConfigError, UsageError
from opentela.placer.assemble import Assembled, assemble
from opentela.placer.files import DemandFile, InventoryFile
from opentela.placer.problem import Group
from opentela.placer.solve.result import Objective

POOL = {"name": "a", "gpu": "a100-80g-sxm", "nodes": 1, "gpus_per_node": 4}


def _assembled(
    demand: dict[str, Any], *, inventory: dict[str, Any] | None = None, config: Any = None
) -> Assembled:
    def read(name: str) -> Any:
        if config is None:
            raise ConfigError(f"{name} cannot be read", remedy="give a config.json")
        return config

    return assemble(
        msgspec.convert(demand, DemandFile),
        msgspec.convert(inventory or {"pool": [POOL]}, InventoryFile),
        Objective.LATENCY,
        read,
        horizon_s=100.0,
        drain_s=5.0,
    )


def test_demands_get_headroom_prices_and_shapes() -> None:
    """A price that is not given is the catalogue's."""
    made = _assembled(
        {
            "demand": [{"model": "llama-3.1-8b", "name": "eight", "rate_rps": 4.0, "cv": 2.0}],
            "absorb_s": 16.0,
        }
    )
    (demand,) = made.problem.demands
    assert demand.model == "eight"
    assert demand.rate_rps == pytest.approx(4.0 + 1.645 * 2 * 0.5)
    assert made.problem.pools[0].usd_h == pytest.approx(1.89)
    assert {option.tp for option in made.problem.options} == {1, 2, 4}
    assert all(option.latency_s for option in made.problem.options)
    assert made.weights_bytes["eight"] == pytest.approx(16.06e9, rel=0.01)
    assert made.problem.horizon_s == float("inf")


def test_capacities_that_are_given_are_not_estimated() -> None:
    """Neither the model nor the GPU needs to be known then."""
    made = _assembled(
        {
            "demand": [{"model": "mine", "rate_rps": 4.0}],
            "capacity": [
                {
                    "model": "mine",
                    "gpu": "tpu",
                    "capacity_rps": 2.0,
                    "latency_s": 1.5,
                    "load_s": 9.0,
                }
            ],
        },
        inventory={
            "pool": [{**POOL, "gpu": "tpu"}],
            "running": [{"model": "mine", "pool": "a", "count": 2, "locked": 1}],
        },
    )
    (option,) = made.problem.options
    assert (option.capacity_rps, option.latency_s, option.load_s) == (2.0, ((0.0, 1.5),), 9.0)
    assert made.problem.pools[0].usd_h == 1.0
    assert made.problem.running == {Group("mine", "a", 1): 2}
    assert made.problem.locked == {Group("mine", "a", 1): 1}
    assert made.problem.horizon_s == 100.0
    assert made.weights_bytes == {}


def test_names_that_nobody_knows_are_told() -> None:
    """A model, a GPU, a demand that a capacity is for, a config.json."""
    one = {"model": "llama-3.1-8b", "rate_rps": 1.0}
    with pytest.raises(UsageError, match="nonsense"):
        _assembled({"demand": [{"model": "nonsense", "rate_rps": 1.0}]})
    with pytest.raises(ConfigError, match="gpu = tpu: it is not in the catalogue"):
        _assembled({"demand": [one]}, inventory={"pool": [{**POOL, "gpu": "tpu"}]})
    with pytest.raises(ConfigError, match=r"no \[\[demand\]\] has that name"):
        _assembled({"demand": [one], "capacity": [{"model": "x", "gpu": "g", "capacity_rps": 1.0}]})
    with pytest.raises(ConfigError, match=r"demand llama-3.1-8b: config x\.json: .* cannot be"):
        _assembled({"demand": [{**one, "config": "x.json"}]})
    for field, value in (("w_dtype", "fp3"), ("kv_dtype", "fp3"), ("engine", "steam")):
        with pytest.raises(ConfigError, match=f"demand llama-3.1-8b: {field} = {value} is unk"):
            _assembled({"demand": [{**one, field: value}]})


def test_a_model_may_be_described_by_its_config() -> None:
    """As Hugging Face has it beside the weights."""
    config = {
        "num_hidden_layers": 32,
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "intermediate_size": 14336,
        "vocab_size": 128256,
        "model_type": "llama",
        "max_position_embeddings": 131072,
    }
    made = _assembled(
        {"demand": [{"model": "my-8b", "rate_rps": 1.0, "config": "config.json"}]}, config=config
    )
    assert made.weights_bytes["my-8b"] == pytest.approx(16.06e9, rel=0.01)
