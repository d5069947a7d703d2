"""Messages of a registry's machine: values, told apart by their type."""

import msgspec
import pytest

from opentela.registry import messages as m


@pytest.mark.parametrize(
    "form", [*m.Event.__args__, *m.Action.__args__], ids=lambda one: one.__name__
)
def test_events_and_actions_are_values(form: type[msgspec.Struct]) -> None:
    """They are shared between machine, shell and simulator, and compared in tests."""
    assert form.__struct_config__.frozen
    assert form.__struct_config__.eq


def test_an_event_is_no_action() -> None:
    """What comes in and what goes out never mix."""
    assert not set(m.Event.__args__) & set(m.Action.__args__)
