"""What is asked of the stream of events, and what its answers mean."""

import json

import pytest

from opentela.core.errors import WireError
from opentela.wire import history, subjects
from opentela.wire.history import BatchEnd, NoHistory, Nothing, Stored


def test_events_are_kept_for_thirty_days() -> None:
    """On disk, within bounds, each once."""
    made = json.loads(history.settings())
    assert (made["name"], made["subjects"]) == ("otela_events", ["otela.v1.events.>"])
    assert made["max_age"] == 30 * 86_400 * 10**9
    assert (made["max_bytes"], made["storage"], made["discard"]) == (2**30, "file", "old")
    assert made["duplicate_window"] == 600 * 10**9
    assert made["allow_direct"]
    # JetStream refuses a window that is longer than what it keeps.
    short = json.loads(history.settings(days=0.001))
    assert short["duplicate_window"] == short["max_age"]


def test_questions() -> None:
    """The latest one; those since a time; those from a number on."""
    assert json.loads(history.ask_last()) == {"last_by_subj": subjects.ALL_EVENTS}
    rest = {"next_by_subj": subjects.ALL_EVENTS, "batch": history.BATCH}
    assert json.loads(history.ask_since("2027-01-15T08:00:00Z")) == {
        "start_time": "2027-01-15T08:00:00Z",
        **rest,
    }
    assert json.loads(history.ask_from(7)) == {"seq": 7, **rest}


def test_answers() -> None:
    """Each by its headers."""
    assert history.read({"Nats-Sequence": "7"}, b"x") == Stored(7, b"x")
    assert history.read({"Status": "204", "Nats-Num-Pending": "3"}, b"") == BatchEnd(3)
    assert history.read({"Status": "404"}, b"") == Nothing()
    assert isinstance(history.read({"Status": "503"}, b""), NoHistory)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Nats-Sequence": "seven"},
        {"Status": "204"},
        {"Status": "408", "Description": "Bad Request"},
    ],
)
def test_an_answer_that_means_nothing_is_an_error(headers: dict[str, str]) -> None:
    """It is not taken for the end."""
    with pytest.raises(WireError):
        history.read(headers, b"")


def test_what_the_hub_says_to_a_stream() -> None:
    """Made; there with other settings; refused, and why."""
    other = b'{"error":{"code":400,"err_code":10058,"description":"stream name already in use"}}'
    full = b'{"error":{"code":500,"err_code":10047,"description":"insufficient storage"}}'
    assert (history.fault(b'{"config":{}}'), history.is_other(b"{}")) == ("", False)
    assert history.is_other(other)
    assert (history.fault(full), history.is_other(full)) == ("insufficient storage", False)
    with pytest.raises(WireError):
        history.fault(b"\xff")
