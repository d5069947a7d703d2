"""Knobs of a view."""

import msgspec
import pytest

from opentela.view.config import ViewConfig


def test_a_view_is_repaired_within_the_time_in_which_views_shall_agree() -> None:
    """Five seconds after a partition has healed; the spread of rounds is on top."""
    assert ViewConfig().repair_s * 1.5 < 5.0


def test_nonsense_is_refused() -> None:
    """Zero seconds would be a busy loop."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"repair_s": 0}, ViewConfig)
