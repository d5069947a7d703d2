"""What a router tells registries of sessions to which its requests fail."""

import pytest

from opentela.core.ids import ProviderId, SessionId, SiteId
from opentela.router import sightings as sighting
from opentela.router.outcomes import Result
from opentela.router.sightings import Sightings
from opentela.wire.subjects import SessionPath

A, B, C = (SessionPath(ProviderId("p"), SiteId("s"), SessionId(name)) for name in "abc")


@pytest.mark.parametrize("result", Result)
def test_only_a_session_that_does_not_answer_is_told_of(result: Result) -> None:
    """An error is an answer; a refusal says that it drains; a client that left says nothing."""
    sightings = Sightings()
    is_told = result in (Result.FAILED, Result.TIMED_OUT)
    assert sightings.saw(0.0, A, result) is is_told
    assert sightings.taken() == ([A] if is_told else [])
    assert sightings.taken() == []


def test_each_session_is_told_of_once_a_second() -> None:
    """However many requests fail."""
    sightings = Sightings()
    told = [sightings.saw(at, A, Result.FAILED) for at in (0.0, 0.5, 0.9, 1.0, 1.5)]
    assert told == [True, False, False, True, False]
    assert sightings.saw(0.6, B, Result.FAILED)
    assert sightings.taken() == [A, A, B]


def test_what_waits_and_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest goes first."""
    monkeypatch.setattr(sighting, "SESSIONS_MAX", 2)
    sightings = Sightings()
    for path in (A, B, C):
        sightings.saw(0.0, path, Result.FAILED)
    assert not sightings.saw(0.1, C, Result.FAILED)
    assert sightings.saw(0.1, A, Result.FAILED)
    for number in range(sighting.WAITING_MAX + 9):
        sightings.saw(9.0, A._replace(session=SessionId(str(number))), Result.FAILED)
    assert len(sightings.taken()) == sighting.WAITING_MAX
