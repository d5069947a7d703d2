"""What every test starts with."""

from collections.abc import Iterator

import pytest
import structlog

from opentela.telemetry import log


@pytest.fixture(autouse=True)
def keep_log_configuration() -> Iterator[None]:
    """Undo what a command that ran in this process did to the log."""
    before, json_lines = structlog.get_config(), log._json_lines
    yield
    structlog.configure(**before)
    log._json_lines = json_lines
