"""Policies are found by name, wherever they are installed."""

import random

import pytest

from opentela.core.errors import ConfigError
from opentela.router.plugins import policy
from opentela.router.policies.least_load import LeastLoad


def test_a_policy_is_found_by_its_name() -> None:
    """As an entry point."""
    assert isinstance(policy("least_load", random.Random(1)), LeastLoad)


@pytest.mark.parametrize("name", ["random", "round_robin", "least_load"])
def test_the_policies_of_this_project_are_installed(name: str) -> None:
    """A new one that is not registered would be dead code."""
    assert policy(name, random.Random(1)) is not None


def test_an_unknown_policy_is_named_beside_the_known_ones() -> None:
    """On one line."""
    with pytest.raises(ConfigError) as error:
        policy("best", random.Random(1))
    assert "'best' is not installed" in str(error.value)
    assert "least_load" in error.value.remedy
