"""A registry and an owner for each test."""

import pytest
from tests.unit.registry.one import Registry, crowd

from opentela.testing.owner import Owner


@pytest.fixture
def registry() -> Registry:
    """A registry without peers."""
    return Registry()


@pytest.fixture
def owner() -> Owner:
    """The owner of a session that serves."""
    return crowd(1)[0]
