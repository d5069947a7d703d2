"""Which models the simulator knows, and which names stand for what."""

import pytest

from opentela.core.errors import ConfigError
from opentela.placer.live.config import ModelConfig
from opentela.placer.live.specs import specs


def test_a_model_may_be_unknown() -> None:
    """Then its capacity is what the operator says, or a guess."""
    known, unknown = specs(
        [ModelConfig(name="Qwen/Qwen3-8B"), ModelConfig(name="mine")], lambda _: {}
    )
    assert list(known) == ["Qwen/Qwen3-8B"]
    assert unknown == ["mine"]


def test_a_name_stands_for_one_model() -> None:
    """Else nobody could say for which of them a request was."""
    pair = [ModelConfig(name="a", aliases=("c",)), ModelConfig(name="b", aliases=("c",))]
    with pytest.raises(ConfigError, match="c stands for a and for b"):
        specs(pair, lambda _: {})


def test_a_config_that_cannot_be_read_is_said() -> None:
    """With the model that names it."""

    def read(_: str) -> dict[str, int]:
        raise OSError("no such file")

    with pytest.raises(ConfigError, match=r"demand a: config x\.json cannot be read"):
        specs([ModelConfig(name="a", config="x.json")], read)


def test_an_odd_size_of_tensor_parallelism_is_refused_at_the_start() -> None:
    """The solver counts blocks of powers of two, and would refuse it at every turn."""
    with pytest.raises(ConfigError, match="tp of a holds 3"):
        specs([ModelConfig(name="a", tp=(1, 3))], lambda _: {})
