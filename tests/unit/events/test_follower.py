"""Events without gap or repetition, whatever is lost, late or said twice."""

import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opentela.core.ids import NodeId, ProviderId, SessionId, SiteId
from opentela.events import follower as f
from opentela.events.follower import ANSWER_S, CHECK_S, Answered, Follower, Heard, Tick, Wanted
from opentela.wire import history
from opentela.wire.events import ENCODER, Kind, LifecycleEvent
from opentela.wire.history import BatchEnd, NoHistory, Nothing, Stored

SINCE = "2027-01-15T08:00:00Z"


def event(number: int, *, kind: Kind = "SERVING", site: str = "s") -> LifecycleEvent:
    return LifecycleEvent(
        id=f"n{number}.1.{kind}",
        kind=kind,
        at=SINCE,
        registry="r",
        provider=ProviderId("p"),
        site=SiteId(site),
        session=SessionId(f"n{number}"),
        node=NodeId("n"),
        incarnation=1,
        models=("m", "adapter"),
    )


def payload(number: int) -> bytes:
    return ENCODER.encode(event(number))


class Reading:
    """A follower, and what it has told."""

    def __init__(self, **how: object) -> None:
        self.follower = Follower(**how)  # type: ignore[arg-type]
        self.told: list[str] = []
        self.asked: list[bytes] = []
        self.number = 0
        self.caught_up: list[str] = []
        self.garbled = 0

    def step(self, now: float, event: f.Event) -> None:
        for action in self.follower.step(now, event):
            match action:
                case f.Tell(event=told):
                    self.told.append(told.session.removeprefix("n"))
                case f.Ask(number=number, question=question):
                    self.number = number
                    self.asked.append(question)
                case f.CaughtUp(why=why):
                    self.caught_up.append(why)
                case f.Garbled():
                    self.garbled += 1

    def stored(self, now: float, *sequences: int, end: history.Answer | None = None) -> None:
        for sequence in sequences:
            self.step(now, Answered(self.number, Stored(sequence, payload(sequence))))
        if end is not None:
            self.step(now, Answered(self.number, end))

    def remade(self, now: float, stream: dict[int, int], *, is_whole: bool = True) -> None:
        """Answer with the events of another stream, by the numbers that they have there."""
        number = self.number
        for sequence, told in stream.items():
            self.step(now, Answered(number, Stored(sequence, payload(told))))
        if is_whole:
            self.step(now, Answered(number, BatchEnd(0)))


def test_stored_events_come_before_those_that_were_heard_meanwhile() -> None:
    """In the order in which they happened, each once."""
    reading = Reading(since=SINCE)
    reading.step(0.0, Tick())
    assert reading.asked == [history.ask_since(SINCE)]
    reading.step(0.1, Heard(payload(3)))
    reading.step(0.1, Heard(payload(4)))
    assert reading.told == []
    reading.stored(0.2, 1, 2, 3, end=BatchEnd(0))
    assert reading.told == ["1", "2", "3", "4"]
    assert reading.caught_up == [""]
    reading.step(0.3, Heard(payload(4)))
    reading.step(0.3, Heard(payload(5)))
    assert reading.told == ["1", "2", "3", "4", "5"]


def test_it_reads_on_until_there_is_no_more() -> None:
    """Batch by batch, from the last that it has read."""
    reading = Reading(since=SINCE)
    reading.step(0.0, Tick())
    reading.stored(0.1, 1, 2, end=BatchEnd(2))
    assert reading.asked[1:] == [history.ask_from(2)]
    assert reading.caught_up == []
    reading.stored(0.2, 5, 8, end=BatchEnd(0))
    assert reading.told == ["1", "2", "5", "8"]
    assert reading.caught_up == [""]


def test_without_a_past_it_begins_with_what_comes() -> None:
    """The latest stored event only says where to begin."""
    reading = Reading()
    reading.step(0.0, Tick())
    assert reading.asked == [history.ask_last()]
    reading.stored(0.1, 7)
    assert reading.follower.next_deadline() == 0.1
    reading.step(0.1, Tick())
    assert reading.asked[1:] == [history.ask_from(7)]
    reading.stored(0.2, end=Nothing())
    reading.step(0.3, Heard(payload(8)))
    assert (reading.told, reading.caught_up) == (["8"], [""])


def test_an_empty_stream_is_read_from_its_first_event_on() -> None:
    """Were that lost on the way, it is found."""
    reading = Reading()
    reading.step(0.0, Tick())
    reading.stored(0.1, end=Nothing())
    reading.step(0.1 + CHECK_S, Tick())
    assert reading.asked[1:] == [history.ask_from(1)]
    reading.stored(CHECK_S + 1, 1, end=BatchEnd(0))
    assert reading.told == ["1"]


def test_what_was_lost_on_the_way_is_found_in_the_stream() -> None:
    """By a look every so often, and at once when the mesh is back."""
    reading = Reading(since=SINCE)
    reading.step(0.0, Tick())
    reading.stored(0.1, 1, end=BatchEnd(0))
    reading.step(1.0, Heard(payload(2)))
    assert reading.follower.next_deadline() == 0.1 + CHECK_S
    reading.step(0.1 + CHECK_S, Tick())
    reading.stored(11.0, 2, 3, end=BatchEnd(0))
    assert reading.told == ["1", "2", "3"]
    reading.step(12.0, f.MeshBack())
    assert reading.asked[-1] == history.ask_from(3)
    reading.step(12.1, Heard(payload(6)))
    reading.stored(12.2, 4, 5, end=BatchEnd(0))
    assert reading.told == ["1", "2", "3", "4", "5", "6"]
    assert reading.caught_up == [""]


def test_a_stream_that_was_lost_and_made_anew_is_read_from_its_beginning() -> None:
    """It counts from 1 again; what was heard of it meanwhile is not told twice."""
    reading = Reading(since=SINCE)
    reading.step(0.0, Tick())
    reading.stored(0.1, 1, 2, 3, end=BatchEnd(0))
    reading.step(1.0, Heard(payload(11)))
    for now in (11.0, 22.0):
        reading.step(now, Tick())
        assert reading.asked[-1] == history.ask_from(3)
        reading.stored(now, end=Nothing())
    assert reading.asked[-1] == history.ask_from(1)
    reading.remade(22.1, {1: 11, 2: 12})
    assert reading.told == ["1", "2", "3", "11", "12"]
    reading.step(33.0, Tick())
    assert reading.asked[-1] == history.ask_from(2)


def test_a_stream_that_was_made_anew_and_has_grown_is_noticed() -> None:
    """Another event stands where the last one was that was read."""
    reading = Reading(since=SINCE)
    reading.step(0.0, Tick())
    reading.stored(0.1, 1, 2, end=BatchEnd(0))
    reading.step(1.0, f.MeshBack())
    reading.remade(1.1, {2: 12, 3: 13}, is_whole=False)
    assert reading.asked[-1] == history.ask_from(1)
    reading.remade(1.2, {1: 11, 2: 12, 3: 13})
    assert reading.told == ["1", "2", "11", "12", "13"]
    assert reading.caught_up == [""]


def test_a_server_that_lags_behind_is_not_taken_for_a_new_stream() -> None:
    """It would be a month to read again."""
    reading = Reading(since=SINCE)
    reading.step(0.0, Tick())
    reading.stored(0.1, 1, 2, end=BatchEnd(0))
    for now in (11.0, 33.0):
        reading.step(now, Tick())
        reading.stored(now, end=Nothing())
        reading.step(now + CHECK_S, Tick())
        reading.stored(now + CHECK_S, 2, end=BatchEnd(0))
    assert history.ask_from(1) not in reading.asked


def test_an_answer_that_stops_is_asked_for_again() -> None:
    """And parts of the old one that come late do no harm."""
    reading = Reading(since=SINCE)
    reading.step(0.0, Tick())
    reading.stored(1.0, 1)
    reading.step(1.0 + ANSWER_S, Tick())
    assert reading.asked[1:] == [history.ask_from(1)]
    reading.step(6.5, Answered(1, BatchEnd(7)))
    reading.step(6.5, Answered(1, Stored(1, payload(1))))
    assert len(reading.asked) == 2
    reading.stored(6.6, 2, end=BatchEnd(0))
    assert reading.told == ["1", "2"]


def test_where_nobody_keeps_events_it_says_so_and_shows_what_comes() -> None:
    """Once; it asks again, for a hub may come back, and then reads what it has."""
    reading = Reading(since=SINCE)
    reading.step(0.0, Tick())
    reading.step(0.1, Heard(payload(9)))
    reading.stored(0.2, end=NoHistory("none"))
    assert (reading.told, reading.caught_up) == (["9"], ["none"])
    reading.step(0.2 + CHECK_S, Tick())
    reading.stored(11.0, end=NoHistory("none"))
    reading.step(30.0, Tick())
    reading.stored(31.0, 8, 9, end=BatchEnd(0))
    assert reading.told == ["9", "8"]
    assert reading.caught_up == ["none"]


def test_a_hub_that_does_not_answer_holds_nothing_up() -> None:
    """What was heard is shown, and the question put again."""
    reading = Reading(since=SINCE)
    reading.step(0.0, Tick())
    reading.step(0.1, Heard(payload(9)))
    reading.step(ANSWER_S, Tick())
    assert reading.told == ["9"]
    assert reading.caught_up == ["the hub did not answer within 5 s"]
    assert reading.asked == [history.ask_since(SINCE)] * 2


def test_only_what_is_wanted_is_told() -> None:
    """Type, site and model narrow it down together; nothing given is everything."""
    down = event(1, kind="DOWN", site="a")
    for wanted, takes in (
        (Wanted(), True),
        (Wanted(kinds=("DOWN", "LEFT")), True),
        (Wanted(kinds=("LEFT",)), False),
        (Wanted(models=("adapter", "other"), sites=("a",)), True),
        (Wanted(models=("other",)), False),
        (Wanted(kinds=("DOWN",), sites=("b",)), False),
    ):
        assert wanted.takes(down) is takes


def test_rubbish_is_told_as_such() -> None:
    """Live or stored; what is right goes on."""
    reading = Reading(since=SINCE)
    reading.step(0.0, Tick())
    reading.step(0.1, Heard(b"{"))
    reading.step(0.1, Answered(1, Stored(1, b"{}")))
    reading.stored(0.2, 2, end=BatchEnd(0))
    assert (reading.told, reading.garbled) == (["2"], 2)


def test_the_memory_of_repetitions_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A month of following does not fill the memory."""
    monkeypatch.setattr(f, "REMEMBERED_MAX", 2)
    reading = Reading(since=SINCE)
    reading.step(0.0, Tick())
    reading.stored(0.1, end=Nothing())
    for number in (1, 2, 3, 3, 2, 1):
        reading.step(1.0, Heard(payload(number)))
    assert reading.told == ["1", "2", "3", "1"]


@given(
    heard=st.lists(st.booleans(), min_size=12, max_size=12),
    batches=st.lists(st.integers(2, 5), min_size=1, max_size=12),
    at=st.integers(0, 11),
)
def test_any_interleaving_tells_every_event_once(
    heard: list[bool], batches: list[int], at: int
) -> None:
    """Some are heard, some lost; questions are put between them; the stream has them all."""
    reading = Reading(since=SINCE)
    reading.step(0.0, Tick())
    stream: list[int] = []
    sizes = itertools.cycle(batches)

    def answer(now: float) -> None:
        after = msgspec.json.decode(reading.asked[-1]).get("seq", 1) - 1
        rest = [one for one in stream if one > after]
        size = next(sizes)
        reading.stored(now, *rest[:size])
        end = BatchEnd(len(rest[size:])) if rest else Nothing()
        reading.stored(now, end=end)

    for number in range(1, 13):
        stream.append(number)
        if heard[number - 1]:
            reading.step(number, Heard(payload(number)))
        if number - 1 == at:
            reading.step(number, f.MeshBack())
        if number % 2:
            answer(number)
    reading.step(200.0, Tick())
    for _ in range(13):
        answer(200.0)
    assert sorted(map(int, reading.told)) == list(range(1, 13))
