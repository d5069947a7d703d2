"""How far back."""

from datetime import timedelta

import pytest

from opentela.core.errors import ConfigError
from opentela.local import history


def test_lengths_of_time_are_read() -> None:
    """A number and a unit; anything else says how to write it."""
    assert history.length("90s") == timedelta(seconds=90)
    assert history.length("30d") == timedelta(days=30)
    for wrong in ("soon", "", "1", "-1s", "1y", "9" * 400 + "d"):
        with pytest.raises(ConfigError, match=f"--since '{wrong}' is not a length of time"):
            history.length(wrong)
