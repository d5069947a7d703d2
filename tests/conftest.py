"""What every test starts with, and what none leaves behind."""

import gc
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import settings

from opentela.telemetry import log
from opentela.testing import warden


def pytest_configure() -> None:
    """Have whatever tests start end with this run, even if it is killed."""
    warden.watch()
    # A law that holds does so on a busy machine, too; how long it takes is for benchmarks.
    settings.register_profile("steady", deadline=None)
    settings.load_profile("steady")


@pytest.fixture(autouse=True)
def keep_log_configuration() -> Iterator[None]:
    """Undo what a command that ran in this process did to the log."""
    before, json_lines = structlog.get_config(), log._json_lines
    yield
    structlog.configure(**before)
    log._json_lines = json_lines


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Look no more at what stays for the whole run: collecting the rest is cheap then."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def leave_nothing() -> Iterator[None]:
    """Find what a test has left while it can still be said whose it is.

    A socket that nobody closed, or a coroutine that nobody awaited, would otherwise fail whichever
    test runs when it is collected.
    """
    yield
    gc.collect()
