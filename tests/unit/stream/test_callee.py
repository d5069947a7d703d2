"""The session's half, with literal times."""

import pytest

from opentela.stream.callee import Callee, CalleeSettings
from opentela.stream.events import (
    ABORT_ENGINE,
    PAUSE_ENGINE,
    RESUME_ENGINE,
    TICK,
    Begin,
    BreakOff,
    CarrierLost,
    EngineConnected,
    EngineData,
    EngineEnd,
    EngineFailed,
    EngineHead,
    EngineTook,
    StartEngine,
    WriteBody,
)
from opentela.wire.frames import (
    PART_BYTES,
    WINDOW_BYTES,
    Body,
    Cancel,
    Credit,
    Data,
    End,
    Fail,
    FailKind,
    Head,
    Open,
    Timings,
)

SETTINGS = CalleeSettings(
    ack_delay_s=0.02,
    keepalive_s=1.0,
    router_timeout_s=20.0,
    body_timeout_s=10.0,
    body_bytes_max=10 * PART_BYTES,
)
HEADERS = (("content-type", "text/plain"),)
OPEN = Open(1, "POST", "/v1/x", (), b"{}")
LARGE = Open(1, "POST", "/v1/x", (), bytes(PART_BYTES), more=True, length=2 * PART_BYTES)


def opened(frame: Open = OPEN, now: float = 10.0) -> Callee:
    callee = Callee(1, SETTINGS)
    callee.step(now, frame)
    return callee


def answering(frame: Open = OPEN) -> Callee:
    callee = opened(frame)
    callee.step(10.0, EngineConnected())
    callee.step(10.0, EngineHead(200, HEADERS))
    return callee


def failed(
    kind: FailKind, message: str, *, definite: bool = True, retryable: bool = True
) -> list[object]:
    return [ABORT_ENGINE, Fail(1, kind, definite, retryable, message)]


def test_an_exchange_in_order() -> None:
    """Engine asked, head and data sent as they come, end with its timings."""
    callee = Callee(1, SETTINGS)
    assert callee.next_deadline() is None
    assert callee.step(10.0, OPEN) == [StartEngine(OPEN)]
    assert callee.step(10.25, EngineConnected()) == []
    assert callee.step(10.5, EngineHead(200, HEADERS)) == [Head(1, 200, HEADERS)]
    assert callee.step(10.5, EngineData(b"x")) == [Data(1, 0, b"x")]
    assert callee.step(10.75, EngineEnd()) == [End(1, 1, Timings(0.25, 0.5, 0.75))]
    assert callee.ended
    assert callee.next_deadline() is None
    assert callee.step(11.0, OPEN) == []


def test_a_whole_request_and_a_whole_answer_are_taken_without_a_step() -> None:
    """Each once; what they leave behind is what a step would."""
    callee, stepped = Callee(1, SETTINGS), opened()
    assert not callee.starts(10.0, LARGE)
    assert not callee.starts(10.0, Open(1, "POST", "/", (), bytes(10 * PART_BYTES + 1)))
    assert callee.next_deadline() is None
    assert callee.starts(10.0, OPEN)
    assert callee.next_deadline() == stepped.next_deadline()
    assert not callee.starts(10.1, OPEN)
    assert callee.answers(10.2, PART_BYTES + 1) is None
    assert callee.answers(10.25, 3) == Timings(0.0, 0.25, 0.25)
    assert callee.ended
    assert callee.answers(10.3, 3) is None


def test_a_read_of_an_answer_that_goes_on_passes() -> None:
    """Numbered and counted as by a step."""
    callee = answering()
    assert [callee.passes(10.1, 5), callee.passes(10.2, 7)] == [0, 1]
    assert callee.step(10.3, EngineData(b"x")) == [Data(1, 2, b"x")]
    assert callee.next_deadline() == 11.3


def test_a_read_that_needs_a_second_look_does_not_pass() -> None:
    """Too large, beyond the credit, behind what waits for it, before the Open, after the end."""
    callee = answering()
    assert callee.passes(10.1, PART_BYTES + 1) == -1
    for seq in range(WINDOW_BYTES // PART_BYTES):
        assert callee.passes(10.1, PART_BYTES) == seq
    assert callee.passes(10.1, 1) == -1
    assert callee.step(10.1, EngineData(b"x")) == [PAUSE_ENGINE]
    callee.step(10.2, Credit(1, WINDOW_BYTES + 2))
    assert callee.passes(10.2, 1) == WINDOW_BYTES // PART_BYTES + 1
    callee.step(10.3, EngineEnd())
    assert callee.passes(10.3, 0) == -1
    assert Callee(1, SETTINGS).passes(10.0, 1) == -1


def test_what_one_read_held_goes_in_one_frame() -> None:
    """A short answer is one frame, the beginning of a long one too."""
    short = opened()
    short.step(10.0, EngineConnected())
    assert short.step(10.25, EngineHead(200, HEADERS, b"all", ended=True)) == [
        Head(1, 200, HEADERS, b"all", Timings(0.0, 0.25, 0.25))
    ]
    assert short.ended
    empty = opened()
    assert empty.step(10.25, EngineHead(204, HEADERS, ended=True)) == [
        Head(1, 204, HEADERS, b"", Timings(0.0, 0.25, 0.25))
    ]
    long = opened()
    assert long.step(10.25, EngineHead(200, HEADERS, b"be")) == [Head(1, 200, HEADERS, b"be")]
    assert long.step(10.5, EngineData(b"gin", ended=True)) == [
        Data(1, 1, b"gin"),
        End(1, 2, Timings(0.0, 0.25, 0.5)),
    ]


def test_what_does_not_fit_into_one_frame_follows_the_head() -> None:
    """Within credit, in parts, and the end after it."""
    callee = opened(Open(1, "POST", "/", (), b"", credit=3))
    assert callee.step(10.25, EngineHead(200, HEADERS, b"abcd", ended=True)) == [
        Head(1, 200, HEADERS),
        Data(1, 0, b"abc"),
        PAUSE_ENGINE,
    ]
    assert callee.step(10.5, Credit(1, 9)) == [
        Data(1, 1, b"d"),
        End(1, 2, Timings(0.0, 0.25, 0.5)),
    ]
    large = opened()
    sent = large.step(10.25, EngineHead(200, HEADERS, bytes(PART_BYTES + 1), ended=True))
    assert [type(frame) for frame in sent] == [Head, Data, Data, End]


def test_nothing_happens_before_the_open() -> None:
    """A Cancel or a Body that overtook its Open asks nothing of an engine."""
    callee = Callee(1, SETTINGS)
    assert callee.step(10.0, Cancel(1, "gone")) == []
    assert callee.step(10.0, Body(1, 0, b"", more=False)) == []


def test_what_comes_twice_or_is_not_ours_changes_nothing() -> None:
    """The engine is asked once."""
    callee = opened()
    assert callee.step(10.1, OPEN) == []
    assert callee.step(10.1, Body(1, 0, b"x", more=False)) == []
    assert callee.step(10.1, EngineTook(1)) == []
    assert callee.step(10.1, Begin()) == []  # type: ignore[arg-type]


def test_a_slow_engine_is_acknowledged_for() -> None:
    """Once, after the delay; later silence is filled with empty data."""
    callee = opened()
    assert callee.next_deadline() == 10.02
    assert callee.step(10.01, TICK) == []
    assert callee.step(10.02, TICK) == [Credit(1, 0)]
    assert callee.next_deadline() == 11.02
    assert callee.step(11.02, TICK) == [Data(1, 0, b"")]
    assert callee.step(11.5, TICK) == []


def test_a_fast_engine_acknowledges_by_itself() -> None:
    """No frame is spent on it."""
    callee = answering()
    assert callee.step(10.02, TICK) == []
    assert callee.next_deadline() == 11.0


def test_a_large_body_is_acknowledged_with_credit_and_passed_on() -> None:
    """Credit grows as the engine takes the parts, and no longer when all came."""
    callee = Callee(1, SETTINGS)
    large = Open(1, "POST", "/", (), bytes(PART_BYTES), more=True)
    assert callee.step(10.0, large) == [StartEngine(large), Credit(1, WINDOW_BYTES)]
    assert callee.step(10.1, EngineTook(PART_BYTES)) == []
    part = bytes(PART_BYTES)
    assert callee.step(10.2, Body(1, 0, part, more=True)) == [WriteBody(part, more=True)]
    assert callee.step(10.2, Body(1, 0, part, more=True)) == []
    assert callee.step(10.3, EngineTook(PART_BYTES)) == [Credit(1, WINDOW_BYTES + 2 * PART_BYTES)]
    assert callee.step(10.4, TICK) == []
    assert callee.step(11.3, TICK) == [Credit(1, WINDOW_BYTES + 2 * PART_BYTES)]
    assert callee.step(11.4, Body(1, 1, part * 2, more=False)) == [WriteBody(part * 2, more=False)]
    assert callee.step(11.5, EngineTook(2 * PART_BYTES)) == []


def test_a_gap_in_the_body_fails_loudly() -> None:
    """A body with a hole never reaches the engine as whole."""
    assert opened(LARGE).step(10.1, Body(1, 1, b"x", more=False)) == failed(
        FailKind.PROTOCOL, "part 0 of the body is missing"
    )


def test_a_body_of_another_length_fails_loudly() -> None:
    """What was announced is what must come."""
    assert opened(LARGE).step(10.1, Body(1, 0, b"x", more=False)) == failed(
        FailKind.PROTOCOL, "the body is not as long as announced"
    )


def test_a_body_beyond_its_credit_fails_loudly() -> None:
    """Credit is a promise of both sides."""
    part = bytes(WINDOW_BYTES)
    assert opened(LARGE).step(10.1, Body(1, 0, part, more=True)) == failed(
        FailKind.PROTOCOL, "the router sent more than its credit"
    )


def test_a_body_above_the_limit_is_refused() -> None:
    """At once where its length is known, else when it gets there; another session is no better."""
    limit = SETTINGS.body_bytes_max
    message = f"the body exceeds the session's limit of {limit} bytes"
    refused = Fail(1, FailKind.TOO_LARGE, definite=True, retryable=False, message=message)
    for first in (
        Open(1, "POST", "/", (), bytes(limit + 1)),
        Open(1, "POST", "/", (), b"x", more=True, length=limit + 1),
    ):
        callee = Callee(1, SETTINGS)
        assert callee.step(10.0, first) == [refused]
        assert callee.ended
    settings = CalleeSettings(body_bytes_max=5)
    callee = Callee(1, settings)
    callee.step(10.0, Open(1, "POST", "/", (), b"abc", more=True))
    assert callee.step(10.1, Body(1, 0, b"def", more=True)) == [
        ABORT_ENGINE,
        Fail(
            1,
            FailKind.TOO_LARGE,
            definite=True,
            retryable=False,
            message="the body exceeds the session's limit of 5 bytes",
        ),
    ]


def test_a_body_that_stops_coming_fails() -> None:
    """Counted only while the router has credit to send."""
    callee = opened(LARGE)
    callee.step(10.0, EngineConnected())
    assert callee.step(19.9, TICK) == [Credit(1, WINDOW_BYTES)]
    assert callee.next_deadline() == 20.0
    assert callee.step(20.0, TICK) == failed(FailKind.PROTOCOL, "the rest of the body did not come")
    held = opened(Open(1, "POST", "/", (), bytes(WINDOW_BYTES), more=True))
    assert held.step(20.0, TICK) == [Credit(1, WINDOW_BYTES)]


def test_data_stays_within_credit_and_the_engine_is_held() -> None:
    """What exceeds the window waits, the engine with it; credit lets both go on."""
    callee = answering(Open(1, "POST", "/", (), b"", credit=5))
    assert callee.step(10.1, EngineData(b"abcdefgh")) == [Data(1, 0, b"abcde"), PAUSE_ENGINE]
    assert callee.step(10.1, EngineData(b"ij")) == []
    assert callee.step(10.2, Credit(1, 5)) == []
    assert callee.step(10.2, Credit(1, 9)) == [Data(1, 1, b"fgh"), Data(1, 2, b"i")]
    assert callee.step(10.3, Credit(1, 20)) == [Data(1, 3, b"j"), RESUME_ENGINE]
    assert callee.step(10.3, Credit(1, 20)) == []


def test_a_large_read_is_split_into_parts() -> None:
    """No frame holds the line for longer than one part takes."""
    callee = answering()
    sent = callee.step(10.1, EngineData(bytes(PART_BYTES + 3)))
    assert [len(frame.data) for frame in sent if isinstance(frame, Data)] == [PART_BYTES, 3]


@pytest.mark.parametrize(
    ("event", "last"),
    [
        (EngineEnd(), End(1, 2, Timings(0.0, 0.0, 0.25))),
        (
            EngineFailed(FailKind.ENGINE_LOST, "reset"),
            Fail(1, FailKind.ENGINE_LOST, definite=False, retryable=True, message="reset"),
        ),
    ],
)
def test_the_end_waits_for_what_goes_before_it(
    event: EngineEnd | EngineFailed, last: End | Fail
) -> None:
    """The client gets every byte that the engine gave."""
    callee = answering(Open(1, "POST", "/", (), b"", credit=1))
    callee.step(10.1, EngineData(b"ab"))
    assert callee.step(10.125, event) == []
    assert callee.step(10.25, Credit(1, 2)) == [Data(1, 1, b"b"), last]
    assert callee.ended


def test_an_engine_that_cannot_be_reached_did_not_begin() -> None:
    """Another session may be tried safely."""
    assert opened().step(10.1, EngineFailed(FailKind.ENGINE_UNREACHABLE, "refused")) == [
        Fail(1, FailKind.ENGINE_UNREACHABLE, definite=True, retryable=True, message="refused")
    ]


def test_an_engine_that_lacks_body_did_not_begin() -> None:
    """Even though it was connected."""
    callee = opened(LARGE)
    callee.step(10.0, EngineConnected())
    assert callee.step(10.1, EngineFailed(FailKind.ENGINE_LOST, "reset")) == [
        Fail(1, FailKind.ENGINE_LOST, definite=True, retryable=True, message="reset")
    ]


def test_cancel_stops_the_engine_and_says_nothing() -> None:
    """Nobody listens any more."""
    callee = answering()
    assert callee.step(10.1, Cancel(1, "gone")) == [ABORT_ENGINE]
    assert callee.ended


def test_the_deadline_stops_the_engine() -> None:
    """Counted from the Open's arrival."""
    callee = opened(Open(1, "POST", "/", (), b"", deadline_s=0.75))
    callee.step(10.0, EngineConnected())
    callee.step(10.5, EngineHead(200, HEADERS))
    assert callee.next_deadline() == 10.75
    assert callee.step(10.75, TICK) == failed(
        FailKind.DEADLINE, "the deadline passed", definite=False, retryable=False
    )


def test_a_router_that_went_silent_stops_the_engine() -> None:
    """Tokens for nobody are not generated; any frame counts as a sign of life."""
    callee = answering()
    callee.step(15.0, Credit(1, 0))
    callee.step(34.5, TICK)
    assert callee.next_deadline() == 35.0
    assert callee.step(35.0, TICK) == failed(
        FailKind.SILENT, "the router went silent", definite=False
    )


def test_losing_the_mesh_stops_the_engine() -> None:
    """The failure is owed to the router until the mesh is back."""
    assert answering().step(10.1, CarrierLost()) == failed(
        FailKind.MESH_LOST, "the session lost the mesh", definite=False
    )


def test_a_session_that_ends_breaks_its_streams_off() -> None:
    """With the reason that it gives."""
    assert answering().step(10.1, BreakOff(FailKind.ENGINE_LOST, "the session ended")) == failed(
        FailKind.ENGINE_LOST, "the session ended", definite=False
    )
