"""How a registry comes to know what there is."""

import pytest

from opentela.core.ids import SessionId
from opentela.registry.boot import PAGE_TIMEOUT_S, TRIES_MAX, Boot, Phase
from opentela.registry.config import PeersConfig
from opentela.wire.control import PageAsk

NEXT = PageAsk(after=SessionId("x"))


@pytest.fixture
def boot() -> Boot:
    return Boot(PeersConfig(learn_s=3.0))


def test_a_peers_pages_lead_to_knowing(boot: Boot) -> None:
    """One after the other."""
    assert boot.next_deadline() == 0.0
    assert boot.due(0.0) == PageAsk()
    assert boot.due(0.1) is None
    boot.paged(NEXT)
    assert boot.due(0.2) == NEXT
    boot.paged(None)
    assert boot.phase is Phase.KNOWING
    assert boot.next_deadline() is None
    assert boot.due(9.0) is None


def test_without_a_peer_it_listens_for_a_while(boot: Boot) -> None:
    """Every living session beats in that time."""
    boot.due(0.0)
    boot.failed(0.1)
    assert (boot.phase, boot.next_deadline()) == (Phase.LEARNING, 3.1)
    assert boot.due(3.0) is None
    assert boot.phase.name == "LEARNING"
    assert boot.due(3.1) is None
    assert boot.phase.name == "KNOWING"


def test_a_state_file_makes_listening_unnecessary(boot: Boot) -> None:
    """What is wrong in it is found as ever."""
    boot.has_state = True
    boot.due(0.0)
    boot.failed(0.1)
    boot.due(0.1)
    assert boot.phase is Phase.KNOWING


def test_a_peer_that_goes_away_in_between_is_asked_again(boot: Boot) -> None:
    """From where it was, a few times."""
    boot.due(0.0)
    boot.paged(NEXT)
    for attempt in range(TRIES_MAX - 1):
        assert boot.due(float(attempt)) == NEXT
        boot.failed(float(attempt))
    assert boot.phase.name == "ASKING"
    boot.due(9.0)
    boot.failed(9.0)
    assert boot.phase.name == "LEARNING"


def test_an_answer_that_never_comes_is_a_failure(boot: Boot) -> None:
    """The shell says so first, but the machine does not depend on it."""
    boot.due(0.0)
    assert boot.due(PAGE_TIMEOUT_S) is None
    assert boot.phase is Phase.LEARNING


def test_late_news_of_booting_change_nothing(boot: Boot) -> None:
    """A page or a failure after the end."""
    boot.due(0.0)
    boot.paged(None)
    boot.paged(NEXT)
    boot.failed(1.0)
    assert boot.phase is Phase.KNOWING
