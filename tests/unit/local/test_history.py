"""Which events are shown."""

import msgspec
import pytest
from tests.unit.local.records import BORN_MS, record

from opentela.core.errors import ConfigError
from opentela.core.record import Lifecycle
from opentela.local import history

LEFT = record(Lifecycle.LEFT, "m", ended_ms=BORN_MS + 1500, reason="walltime is over")


def test_records_tell_births_and_ends() -> None:
    """The past is what the session map holds of it, oldest first."""
    younger = record(Lifecycle.SERVING, "n", born_ms=BORN_MS + 1000)
    told = history.past([LEFT, younger], since_ms=0)
    assert [(event.kind, event.models, event.reason) for event in told] == [
        ("JOINING", ("m",), ""),
        ("JOINING", ("n",), ""),
        ("LEFT", ("m",), "walltime is over"),
    ]
    assert told[2].at == "2027-01-15T08:00:01.500Z"


def test_the_past_begins_where_asked() -> None:
    """`--since` leaves out what is older."""
    assert [event.kind for event in history.past([LEFT], since_ms=BORN_MS + 1)] == ["LEFT"]


def test_an_event_is_shown_once() -> None:
    """Every registry tells each change; the id is the same."""
    event, _ = history.past([LEFT], since_ms=0)
    seen = history.Repetitions()
    assert [seen.is_new(event), seen.is_new(event)] == [True, False]


def test_the_memory_of_repetitions_is_bounded() -> None:
    """A week of following events does not fill the memory."""
    event, _ = history.past([LEFT], since_ms=0)
    seen = history.Repetitions()
    for number in range(history.REMEMBERED_MAX + 1):
        assert seen.is_new(msgspec.structs.replace(event, id=str(number)))
    assert seen.is_new(msgspec.structs.replace(event, id="0"))
    assert not seen.is_new(msgspec.structs.replace(event, id=str(history.REMEMBERED_MAX)))


def test_only_what_is_wanted_is_taken() -> None:
    """Kinds and model narrow it down together."""
    _, event = history.past([LEFT], since_ms=0)
    assert history.Wanted().takes(event)
    assert history.Wanted(kinds=("LEFT",), model="m").takes(event)
    assert not history.Wanted(kinds=("DOWN",)).takes(event)
    assert not history.Wanted(model="other").takes(event)


def test_lengths_of_time_are_read() -> None:
    """A number and a unit; anything else says how to write it."""
    assert history.length_ms("90s") == 90_000
    assert history.length_ms("1d") == 86_400_000
    with pytest.raises(ConfigError, match="--since 'soon' is not a length of time"):
        history.length_ms("soon")
