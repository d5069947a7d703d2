"""Which models can be asked for."""

import random

from opentela.core.record import Lifecycle, SessionRecord
from opentela.registry.models import routable_sessions
from opentela.testing.owner import Owner
from opentela.testing.sim.keys import FakeIdentity, said


def owner(number: int, *models: str, lifecycle: Lifecycle = Lifecycle.SERVING) -> Owner:
    owner = Owner(FakeIdentity(random.Random(number)), models=models)
    owner.say(lifecycle)
    return owner


def test_routable_sessions_are_counted_by_model() -> None:
    """In order of name; a model that is only loading is not offered yet."""
    records = [
        owner(1, "b", "a").record,
        owner(2, "b").record,
        owner(3, "c", lifecycle=Lifecycle.JOINING).record,
    ]
    assert list(routable_sessions(records).items()) == [("a", 1), ("b", 2)]


def test_a_model_without_a_routable_session_counts_none() -> None:
    """Suspected, draining or down: it is offered, and nobody answers."""
    ghost = owner(1, "ghost")
    records = [
        SessionRecord(signed=ghost.signed, witnesses=said(ghost.claim, "r")),
        owner(2, "draining", lifecycle=Lifecycle.DRAINING).record,
        owner(3, "down", lifecycle=Lifecycle.DOWN).record,
    ]
    assert routable_sessions(records) == {"ghost": 0, "draining": 0, "down": 0}
