"""What every test starts with, and what none leaves behind."""

import gc
import inspect
import os
from collections.abc import Iterator
from typing import Final

import pytest
import structlog
from hypothesis import settings

from opentela.telemetry import log
from opentela.testing import warden

REAL: Final = ("nats", "engine", "slurm", "netns")
"""Markers of tests that start processes; others with something to leave are coroutines."""


def pytest_configure() -> None:
    """Have whatever tests start end with this run, even if it is killed."""
    warden.watch()
    # A law that holds does so on a busy machine, too; how long it takes is for benchmarks.
    settings.register_profile("steady", deadline=None)
    settings.load_profile("steady")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """On CI, ask a second time where real processes raced; the summary names each such test."""
    if not os.environ.get("CI"):
        return
    for item in items:
        if any(item.get_closest_marker(name) for name in REAL):
            item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.fixture(autouse=True)
def keep_log_configuration() -> Iterator[None]:
    """Undo what a command that ran in this process did to the log."""
    before, json_lines = structlog.get_config(), log._json_lines
    yield
    structlog.configure(**before)
    log._json_lines = json_lines


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Look no more at what stays for the whole run: to collect the rest is cheap then."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def leave_little() -> Iterator[None]:
    """Look no more at what a module's imports and caches have added."""
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def leave_nothing(request: pytest.FixtureRequest) -> Iterator[None]:
    """Find what a test of real things has left while it can still be said whose it is.

    A socket that nobody closed, or a coroutine that nobody awaited, would otherwise fail whichever
    test runs when it is collected.
    """
    yield
    if inspect.iscoroutinefunction(request.function) or any(
        request.node.get_closest_marker(name) for name in REAL
    ):
        gc.collect()
