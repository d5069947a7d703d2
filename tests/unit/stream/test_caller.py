"""The router's half, with literal times."""

import pytest

from opentela.stream.caller import EMPTY_MAX, Caller, CallerSettings, Request
from opentela.stream.events import (
    ACKNOWLEDGED,
    TICK,
    Begin,
    BreakOff,
    CarrierLost,
    Consumed,
    EngineEnd,
    Heard,
    NoResponders,
    Withdraw,
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

SETTINGS = CallerSettings(ack_timeout_s=0.5, idle_timeout_s=5.0, keepalive_s=4.0)
HEAD = Head(1, 200, (("a", "b"),))


def request(body: bytes = b"{}", deadline_s: float = 0.0) -> Request:
    return Request(
        method="POST", path="/v1/x", headers=(("h", "1"),), body=body, deadline_s=deadline_s
    )


def begun(body: bytes = b"{}", deadline_s: float = 0.0, now: float = 10.0) -> Caller:
    caller = Caller(1, request(body, deadline_s), SETTINGS)
    caller.step(now, Begin())
    return caller


def broken(message: str, *, definite: bool = False) -> list[object]:
    return [
        Cancel(1, message),
        Fail(1, FailKind.PROTOCOL, definite=definite, retryable=True, message=message),
    ]


def test_a_small_request_is_one_frame() -> None:
    """Body and all, with the whole window as credit."""
    caller = Caller(1, request(deadline_s=2.0), SETTINGS)
    assert caller.next_deadline() is None
    assert caller.step(10.0, Begin()) == [
        Open(1, "POST", "/v1/x", (("h", "1"),), b"{}", credit=WINDOW_BYTES, deadline_s=2.0)
    ]
    assert caller.next_deadline() == 10.5


def test_an_answer_in_order_is_passed_on() -> None:
    """The first frame acknowledges; End ends; what comes later changes nothing."""
    caller = begun()
    assert caller.step(10.1, HEAD) == [ACKNOWLEDGED, HEAD]
    assert caller.step(10.2, Data(1, 0, b"x")) == [Data(1, 0, b"x")]
    assert caller.step(10.3, End(1, 1)) == [End(1, 1)]
    assert caller.ended
    assert caller.next_deadline() is None
    assert caller.step(10.4, Data(1, 1, b"y")) == []


def test_the_next_part_of_an_answer_that_runs_passes() -> None:
    """Counted as by a step, of which it is all that a shell would do."""
    caller, stepped = begun(), begun()
    for each in (caller, stepped):
        each.step(10.1, HEAD)
        each.step(10.2, Data(1, 0, b"x"))
    assert caller.passes(10.3, Data(1, 1, b"yz"))
    assert stepped.step(10.3, Data(1, 1, b"yz")) == [Data(1, 1, b"yz")]
    assert caller.next_deadline() == stepped.next_deadline() == 14.0
    assert caller.step(10.4, End(1, 2)) == stepped.step(10.4, End(1, 2)) == [End(1, 2)]
    assert not caller.passes(10.5, Data(1, 2, b"late"))


@pytest.mark.parametrize(
    "frame", [Data(1, 0, b"x"), Data(1, 1, b""), Data(1, 2, b"x"), Data(1, 1, bytes(WINDOW_BYTES))]
)
def test_what_needs_a_second_look_does_not_pass(frame: Data) -> None:
    """Nothing has changed by it: the step that follows comes to the same as without it."""
    caller, stepped = begun(), begun()
    for each in (caller, stepped):
        each.step(10.1, HEAD)
        each.step(10.2, Data(1, 0, b"x"))
    assert not caller.passes(10.3, frame)
    assert caller.step(10.4, frame) == stepped.step(10.4, frame)
    assert caller.next_deadline() == stepped.next_deadline()


def test_no_first_part_passes() -> None:
    """It may be the frame that acknowledges, and the head may be missing."""
    caller = begun()
    assert not caller.passes(10.1, Data(1, 0, b"x"))
    caller.step(10.1, HEAD)
    assert not caller.passes(10.2, Data(1, 0, b"x"))


def test_a_head_with_all_of_the_answer_is_told_as_one() -> None:
    """One frame, and the stream has ended."""
    timings = Timings(1.0, 2.0, 3.0)
    whole = Head(1, 200, (), b"all", timings)
    caller = begun()
    assert caller.step(10.1, whole) == [whole]
    assert caller.ended
    empty = Head(1, 204, (), b"", timings)
    assert begun().step(10.1, empty) == [empty]


def test_a_whole_answer_is_taken_without_a_step() -> None:
    """Once, and only if all of it is there and was allowed; otherwise nothing changes."""
    caller, stepped = begun(), begun()
    for other in (HEAD, Head(1, 200, (), bytes(WINDOW_BYTES + 1), Timings())):
        assert not caller.answers(other)
    assert caller.next_deadline() == stepped.next_deadline()
    whole = Head(1, 200, (), b"all", Timings())
    stepped.step(10.1, HEAD)
    assert not stepped.answers(whole)
    assert stepped.step(10.2, whole) == []
    assert not stepped.ended
    assert caller.answers(whole)
    assert caller.ended
    assert not caller.answers(whole)
    assert caller.step(10.2, whole) == []


def test_a_head_with_the_beginning_of_the_answer_counts_it() -> None:
    """The next part is number 1."""
    first = Head(1, 200, (), b"be")
    caller = begun()
    assert caller.step(10.1, first) == [ACKNOWLEDGED, first, Data(1, 0, b"be")]
    assert caller.step(10.1, first) == []
    assert caller.step(10.2, Data(1, 1, b"gin")) == [Data(1, 1, b"gin")]


def test_a_head_with_more_than_the_credit_fails_loudly() -> None:
    """And is no answer, though it says that it is whole."""
    flood = Head(1, 200, (), bytes(WINDOW_BYTES + 1), Timings())
    told = begun().step(10.1, flood)
    assert told == [ACKNOWLEDGED, *broken("the session sent more than its credit")]


def test_what_comes_twice_changes_nothing() -> None:
    """Head, data and empty data again."""
    caller = begun()
    caller.step(10.1, HEAD)
    caller.step(10.2, Data(1, 0, b"x"))
    assert caller.step(10.2, HEAD) == []
    assert caller.step(10.2, Data(1, 0, b"x")) == []
    assert caller.step(10.2, Data(1, 1, b"")) == []


def test_frames_that_no_session_sends_are_ignored() -> None:
    """An event of the other half, such as one of a newer peer, is no fault."""
    caller = begun()
    assert caller.step(10.1, EngineEnd()) == []  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (Data(1, 1, b"y"), "part 0 of the answer is missing"),
        (End(1, 1), "the answer ended with parts missing"),
        (
            Data(1, 0, b"z" * (WINDOW_BYTES + 1)),
            "the session sent more than its credit",
        ),
    ],
)
def test_a_gap_or_an_overrun_fails_loudly(frame: Data | End, message: str) -> None:
    """The session is told to stop and the router that the answer is not whole."""
    caller = begun()
    caller.step(10.1, HEAD)
    assert caller.step(10.2, frame) == broken(message)


def test_an_answer_without_its_head_fails_loudly() -> None:
    """Neither data nor an end may come before it."""
    assert begun().step(10.1, Data(1, 0, b"x")) == [
        ACKNOWLEDGED,
        *broken("the head of the answer is missing"),
    ]
    assert begun().step(10.1, End(1, 0)) == [
        ACKNOWLEDGED,
        *broken("the answer ended with parts missing"),
    ]


def test_a_failure_of_the_session_is_passed_on() -> None:
    """As it came, with its marks."""
    fail = Fail(1, FailKind.REFUSED, definite=True, retryable=True, message="full")
    caller = begun()
    assert caller.step(10.1, fail) == [ACKNOWLEDGED, fail]
    assert caller.ended


def test_a_large_body_waits_for_credit() -> None:
    """The first part goes at once, the others as the session makes room, numbered."""
    body = bytes(range(256)) * 1024  # four parts
    caller = Caller(1, request(body + b"end"), SETTINGS)
    (opening,) = caller.step(0.0, Begin())
    assert isinstance(opening, Open)
    assert (opening.body, opening.more, opening.length) == (
        body[:PART_BYTES],
        True,
        len(body) + 3,
    )
    assert caller.step(0.1, Credit(1, 0)) == [ACKNOWLEDGED]
    assert caller.step(0.2, Credit(1, 2 * PART_BYTES + 5)) == [
        Body(1, 0, body[PART_BYTES : 2 * PART_BYTES], more=True),
        Body(1, 1, body[2 * PART_BYTES : 2 * PART_BYTES + 5], more=True),
    ]
    assert caller.step(0.2, Credit(1, PART_BYTES)) == []
    rest = caller.step(0.3, Credit(1, 1 << 30))
    assert [type(frame) for frame in rest] == [Body, Body]
    assert isinstance(rest[-1], Body)
    assert not rest[-1].more
    assert caller.step(0.4, Credit(1, 1 << 31)) == []


def test_credit_returns_in_batches() -> None:
    """Half a window at a time."""
    caller = begun()
    caller.step(10.1, HEAD)
    caller.step(10.1, Data(1, 0, bytes(PART_BYTES)))
    caller.step(10.1, Data(1, 1, bytes(PART_BYTES)))
    assert caller.step(10.2, Consumed(PART_BYTES)) == []
    assert caller.step(10.2, Consumed(PART_BYTES)) == [Credit(1, WINDOW_BYTES + 2 * PART_BYTES)]


def test_no_frame_at_all_is_a_session_that_is_gone() -> None:
    """After the acknowledgement time-out; whether it began is unknown."""
    caller = begun()
    assert caller.step(10.4, TICK) == []
    message = "the session did not answer"
    assert caller.step(10.5, TICK) == [
        Cancel(1, message),
        Fail(1, FailKind.UNACKNOWLEDGED, definite=False, retryable=True, message=message),
    ]


def test_an_acknowledgement_may_be_behind_other_frames_of_its_session() -> None:
    """A session that is heard on other streams is there; nobody waits for ever all the same."""
    caller = begun(now=10.0)
    for at in (10.4, 10.2, 10.8):
        assert caller.step(at, Heard(at)) == []
    assert caller.next_deadline() == pytest.approx(11.3)
    assert caller.step(11.29, TICK) == []
    caller.step(14.9, Heard(14.9))
    assert caller.next_deadline() == pytest.approx(15.0)
    (cancel, fail) = caller.step(15.0, TICK)
    assert isinstance(cancel, Cancel)
    assert isinstance(fail, Fail)
    assert fail.kind is FailKind.UNACKNOWLEDGED


def test_what_other_streams_bring_is_no_sign_of_this_one() -> None:
    """Once it is acknowledged, its own silence counts."""
    caller = begun(now=10.0)
    caller.step(10.1, Credit(1, 0))
    before = caller.next_deadline()
    caller.step(12.0, Heard(12.0))
    assert caller.next_deadline() == before


def test_silence_after_the_acknowledgement_fails_the_stream() -> None:
    """Empty data is not silence."""
    caller = begun()
    caller.step(10.1, HEAD)
    caller.step(13.0, Data(1, 0, b""))
    caller.step(14.5, TICK)
    assert caller.next_deadline() == 18.0
    assert caller.step(17.9, TICK) == []
    message = "the session went silent"
    assert caller.step(18.0, TICK) == [
        Cancel(1, message),
        Fail(1, FailKind.SILENT, definite=False, retryable=True, message=message),
    ]


def test_the_session_hears_from_a_router_that_only_listens() -> None:
    """The credit is repeated, which also repairs a lost one."""
    caller = begun()
    caller.step(10.1, HEAD)
    assert caller.next_deadline() == 14.0
    caller.step(13.9, Data(1, 0, b""))
    assert caller.step(14.0, TICK) == [Credit(1, WINDOW_BYTES)]
    assert caller.next_deadline() == 18.0


def test_the_deadline_ends_it_in_any_state() -> None:
    """Before or after the acknowledgement."""
    message = "the deadline passed"
    expected = [
        Cancel(1, message),
        Fail(1, FailKind.DEADLINE, definite=False, retryable=False, message=message),
    ]
    early = begun(deadline_s=0.3)
    assert early.next_deadline() == 10.3
    assert early.step(10.3, TICK) == expected
    late = begun(deadline_s=3.0)
    late.step(10.1, HEAD)
    assert late.next_deadline() == 13.0
    assert late.step(13.0, TICK) == expected


def test_withdrawing_tells_the_session_and_nobody_else() -> None:
    """The router knows already; a stream that never began has nobody to tell."""
    caller = begun()
    assert caller.step(10.1, Withdraw("client gone")) == [Cancel(1, "client gone")]
    assert caller.ended
    assert Caller(1, request(), SETTINGS).step(10.0, Withdraw("client gone")) == []


@pytest.mark.parametrize(
    ("body", "acknowledged", "definite"),
    [
        (b"{}", False, True),
        (b"{}", True, False),
        (bytes(PART_BYTES + 1), False, True),
        (bytes(PART_BYTES + 1), True, True),
    ],
)
def test_no_responders_ends_it_at_once(body: bytes, *, acknowledged: bool, definite: bool) -> None:
    """It surely did not begin unless the session had the whole request."""
    caller = begun(body)
    if acknowledged:
        caller.step(10.1, Credit(1, 0))
    assert caller.step(10.2, NoResponders()) == [
        Fail(
            1,
            FailKind.NO_RESPONDERS,
            definite=definite,
            retryable=True,
            message="the session is gone",
        )
    ]


@pytest.mark.parametrize(
    ("body", "unsent", "definite"),
    [(b"{}", True, True), (b"{}", False, False), (bytes(PART_BYTES + 1), False, True)],
)
def test_losing_the_mesh_ends_it_at_once(body: bytes, *, unsent: bool, definite: bool) -> None:
    """What was not handed over surely did not begin."""
    assert begun(body).step(10.1, CarrierLost(unsent=unsent)) == [
        Fail(1, FailKind.MESH_LOST, definite=definite, retryable=True, message="lost the mesh")
    ]


def test_a_fault_before_the_body_is_whole_is_definite() -> None:
    """The engine cannot have begun."""
    caller = begun(bytes(PART_BYTES + 1))
    caller.step(10.1, HEAD)
    assert caller.step(10.2, End(1, 5)) == broken(
        "the answer ended with parts missing", definite=True
    )


def test_signs_of_life_may_come_every_second_for_ever_and_not_all_at_once() -> None:
    """Whatever they are made of: empty parts, credit for nothing, repetitions."""
    caller = begun()
    caller.step(10.0, HEAD)
    caller.step(10.0, Data(1, 0, b"x"))
    for second in range(1000):
        assert caller.step(10.0 + second, Data(1, 1, b"")) == []
    flooded = begun()
    flooded.step(10.0, HEAD)
    flooded.step(10.0, Data(1, 0, b"x"))
    useless: list[Credit | Data | Head] = [Credit(1, 0), Data(1, 1, b""), Data(1, 0, b"x"), HEAD]
    told = [flooded.step(10.0, useless[number % 4]) for number in range(EMPTY_MAX + 1)]
    assert told[-2] == []
    assert told[-1] == broken("the session floods the stream with empty frames")


def test_a_shell_can_break_a_stream_off() -> None:
    """A frame that could not be read was a part of it."""
    caller = begun()
    assert caller.step(10.1, BreakOff(FailKind.PROTOCOL, "rubbish")) == broken("rubbish")
