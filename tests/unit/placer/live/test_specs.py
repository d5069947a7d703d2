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


def test_a_config_that_cannot_be_read_is_said() -> None:
    """With the model that names it."""

    def read(_: str) -> dict[str, int]:
        raise ConfigError("no such file", remedy="give one")

    with pytest.raises(ConfigError, match=r"models: a: config x\.json: no such file"):
        specs([ModelConfig(name="a", config="x.json")], read)


def test_what_is_said_to_be_known_and_is_not_is_an_error() -> None:
    """A slip of the pen would be a guess at its capacity."""
    with pytest.raises(ConfigError, match="models: mine: "):
        specs([ModelConfig(name="mine", known_as="Qwen/Qwen-3-8B")], lambda _: {})
    with pytest.raises(ConfigError, match="models: mine: "):
        specs([ModelConfig(name="mine", config="empty.json")], lambda _: {})
