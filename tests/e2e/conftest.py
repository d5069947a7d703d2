"""Whole-product tests: real processes, real servers, real networks where the machine allows it."""

import os
from collections.abc import Iterator

import pytest
from tests.e2e import netns


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs namespaces where none can be made; on CI that is an error instead."""
    reason = netns.why_not()
    if not reason or os.environ.get("CI"):
        return
    for item in items:
        if item.get_closest_marker("netns"):
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture
def lab() -> Iterator[netns.Lab]:
    """A hub, a client, and two compute nodes behind a NAT router."""
    with netns.Lab() as made:
        yield made
