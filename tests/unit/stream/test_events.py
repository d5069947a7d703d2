"""Events and actions of a stream: each is a value."""

import typing

import msgspec

from opentela.stream import events


def test_every_event_and_action_is_a_frozen_value() -> None:
    """So that a list of them can be compared, and nobody changes what another holds."""
    unions = (events.CallerEvent, events.CallerAction, events.CalleeEvent, events.CalleeAction)
    for union in unions:
        for form in typing.get_args(union):
            assert issubclass(form, msgspec.Struct)
            assert form.__struct_config__.frozen
