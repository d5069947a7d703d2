"""What the services of one machine are told."""

import tomllib
from pathlib import Path

import pytest

from opentela import settings
from opentela.local import recipe
from opentela.registry.config import RegistryConfig
from opentela.router.config import RouterConfig

ACCESS = Path('/a "b"/registry.toml')
TOKEN = Path("/t/token")


@pytest.mark.parametrize("is_new", [True, False])
def test_the_registry_takes_its_recipe(*, tmp_path: Path, is_new: bool) -> None:
    """Every field that is written exists, and odd paths survive."""
    file = tmp_path / "registry.toml"
    file.write_text(
        recipe.registry(
            access=ACCESS, token_file=TOKEN, state_file=tmp_path / "state", is_new=is_new
        )
    )
    config = settings.load(RegistryConfig, service="registry", file=file, environ={}).value
    assert config.access == str(ACCESS)
    assert config.health.token_file == str(TOKEN)
    assert (config.peers.learn_s < 1) is is_new


def test_the_router_takes_its_recipe(tmp_path: Path) -> None:
    """The address is the one that was asked for."""
    file = tmp_path / "router.toml"
    file.write_text(recipe.router(access=ACCESS, token_file=TOKEN, api="127.0.0.1:8123"))
    config = settings.load(RouterConfig, service="router", file=file, environ={}).value
    assert config.listen.address == "127.0.0.1:8123"
    assert "OTELA_ROUTER__" in file.read_text().splitlines()[0]


def test_a_recipe_is_toml() -> None:
    """People read and copy it."""
    made = tomllib.loads(recipe.router(access=ACCESS, token_file=TOKEN, api="h:1"))
    assert set(made) == {"access", "listen", "home", "health", "log"}
