"""The knobs refuse what cannot work, by name."""

import pytest

from opentela.core.errors import ConfigError
from opentela.router.config import RouterConfig
from opentela.settings import load


def read(*overrides: str) -> RouterConfig:
    """Return the configuration with *overrides*."""
    given = ("access=router.toml", *overrides)
    return load(RouterConfig, service="router", environ={}, overrides=given).value


def test_only_the_access_file_must_be_given() -> None:
    """Everything else has a default that works on one machine."""
    config = read()
    assert config.policy == "hardware_weighted"
    assert config.listen.address == "127.0.0.1:8080"
    with pytest.raises(ConfigError, match="access is not configured"):
        load(RouterConfig, service="router", environ={})


@pytest.mark.parametrize(
    ("override", "field"),
    [
        ("attempts.attempts_max=0", "attempts.attempts_max"),
        ("attempts.idle_s=0", "attempts.idle_s"),
        ("ejection.share_max=1.5", "ejection.share_max"),
        ("listen.body_bytes_max=0", "listen.body_bytes_max"),
        ("walltime_margin_s=-1", "walltime_margin_s"),
        ("extra_paths=no-slash", "extra_paths"),
        ("attempts.idel_s=3", "attempts.idel_s"),
    ],
)
def test_impossible_values_are_named(override: str, field: str) -> None:
    """One line says which field."""
    with pytest.raises(ConfigError, match=field):
        read(override)


def test_paths_can_be_added() -> None:
    """As a list, on the command line too."""
    assert read("extra_paths=/v1/audio/speech,/v2/x").extra_paths == ("/v1/audio/speech", "/v2/x")
