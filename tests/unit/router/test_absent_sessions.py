"""Sessions that have gone without a word cost a request messages, and none of its attempts."""

from itertools import pairwise

from tests.unit.router.parts import candidate
from tests.unit.router.requests import CONFIG, A, B, Client

from opentela.router.attempt_events import EndAttempt, GiveUp, Hold, TryOn
from opentela.router.choosing import Held
from opentela.router.fault import Fault, FaultKind
from opentela.router.outcomes import Result
from opentela.router.retries import ABSENT_MAX
from opentela.wire.frames import FailKind

MANY = tuple(candidate(f"s{number:03}") for number in range(100))
BUSY = Held(30.0, Fault(kind=FaultKind.MODEL_BUSY, message="busy"))


def test_who_is_not_there_does_not_count_as_tried() -> None:
    """The last of many is found, at once, however few attempts a request has."""
    client = Client(candidates=MANY)
    for gone, following in pairwise(MANY[:21]):
        actions = client.fail(FailKind.NO_RESPONDERS, begun=False)
        assert actions[0] == EndAttempt(gone, Result.FAILED, "the session left the mesh")
        assert isinstance(actions[1], TryOn)
        assert actions[1].candidate is following
    assert CONFIG.attempts_max == 3
    assert isinstance(client.fail(FailKind.ENGINE_UNREACHABLE)[-1], TryOn)
    client.fail(FailKind.ENGINE_UNREACHABLE)
    assert client.due is not None
    assert isinstance(client.at(client.due).tick()[-1], TryOn)
    assert isinstance(client.fail(FailKind.ENGINE_UNREACHABLE)[-1], GiveUp)


def test_a_request_does_not_ask_for_ever() -> None:
    """When nobody at all is there the fault is more likely here."""
    client = Client(candidates=MANY)
    for _ in range(ABSENT_MAX - 1):
        assert isinstance(client.fail(FailKind.NO_RESPONDERS, begun=False)[-1], TryOn)
    assert isinstance(client.fail(FailKind.NO_RESPONDERS, begun=False)[-1], GiveUp)


def test_who_left_in_the_middle_counts_as_tried() -> None:
    """Its engine may have worked: the next attempt repeats that."""
    client = Client(candidates=MANY)
    for _ in range(CONFIG.attempts_max - 1):
        client.fail(FailKind.NO_RESPONDERS, begun=True)
        assert client.due is not None
        client.at(client.due).tick()
    assert isinstance(client.fail(FailKind.NO_RESPONDERS, begun=True)[-1], GiveUp)


def test_a_session_whose_channel_broke_is_waited_for_when_it_is_full() -> None:
    """It is the only one; the way there is not the session."""
    client = Client(candidates=(A,), held_for_again=BUSY)
    actions = client.fail(FailKind.CHANNEL_LOST, begun=False)
    assert isinstance(actions[-1], Hold)
    assert isinstance(client.recheck()[-1], Hold)
    client.held_for_again = None
    assert client.recheck() == [TryOn(A, 100.0)]


def test_one_that_broke_is_tried_again_after_the_others() -> None:
    """Not instead of them."""
    client = Client(candidates=(A, B))
    assert client.fail(FailKind.CHANNEL_LOST, begun=False)[-1] == TryOn(B, 100.0)
    client.fail(FailKind.REFUSED)
    assert client.due is not None
    assert client.at(client.due).tick()[-1] == TryOn(A, 100.0 - client.now + 1000.0)
