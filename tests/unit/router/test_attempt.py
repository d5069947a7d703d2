"""One request, from its first attempt to what the client gets, at times written down."""

import json

import pytest
from tests.unit.router.parts import Dice, candidate
from tests.unit.router.requests import (
    CHAT,
    CONFIG,
    DELTA,
    DONE,
    EVENTS,
    JSON,
    NONE_LEFT,
    STOP,
    STORING,
    USAGE,
    A,
    B,
    Client,
)

from opentela.core.ids import SessionId
from opentela.router.answers import Answer
from opentela.router.attempt import Attempts
from opentela.router.attempt_events import (
    Action,
    Break,
    Commit,
    EndAttempt,
    Finish,
    Forward,
    GiveUp,
    Hold,
    Outcome,
    Reply,
    TryOn,
)
from opentela.router.choosing import Held
from opentela.router.chunks import Usage
from opentela.router.config import AttemptConfig
from opentela.router.fault import Fault, FaultKind
from opentela.router.outcomes import Result
from opentela.router.paths import EnginePath
from opentela.router.retries import RetryBudget
from opentela.wire.frames import FailKind, Headers


def kinds(actions: list[Action]) -> list[type]:
    """Return what is done, without details."""
    return [type(action) for action in actions]


def ended(actions: list[Action]) -> EndAttempt:
    """Return the end of an attempt, which comes first."""
    action = actions[0]
    assert isinstance(action, EndAttempt)
    return action


def given_up(actions: list[Action]) -> FaultKind:
    """Return the fault that the client gets."""
    action = actions[-1]
    assert isinstance(action, GiveUp)
    return action.fault.kind


# Whole answers ---------------------------------------------------------------


def test_a_whole_answer_is_held_until_it_is_whole() -> None:
    """Then it goes out as it came, in one piece."""
    client = Client()
    assert client.first == [TryOn(A, 100.0)]
    assert client.due == 60.0
    assert client.head(201) == []
    assert client.data(b'{"a":') == []
    assert client.data(b"1}") == []
    assert client.end() == [
        Reply(Answer(201, JSON, b'{"a":1}')),
        EndAttempt(A, Result.ANSWERED),
    ]
    assert client.outcome is Outcome.OK
    assert (client.attempts.status, client.attempts.tried) == (201, (SessionId("a"),))
    assert client.due is None


def test_an_answer_that_comes_as_one_is_sent_as_one() -> None:
    """The client has it before the books are kept."""
    client = Client()
    assert client.whole(201, b'{"a":1}') == [
        Reply(Answer(201, JSON, b'{"a":1}')),
        EndAttempt(A, Result.ANSWERED),
    ]
    assert (client.outcome, client.due) == (Outcome.OK, None)
    assert client.whole(200, b"late") == []


def test_usage_of_a_whole_answer_is_read() -> None:
    """As the engine counted it."""
    client = Client(config=AttemptConfig())
    client.head()
    client.data(b'{"usage":{"prompt_tokens":3,"completion_tokens":2}}')
    client.end()
    assert client.attempts.usage == Usage(tokens_in=3, tokens_out=2)


def test_a_large_answer_goes_out_as_it_comes() -> None:
    """Past the limit nothing is held, and silence is limited instead of the whole."""
    client = Client()
    client.head()
    assert client.data(b"0123456789") == []
    assert client.at(1).data(b"ab") == [Commit(200, JSON, b"0123456789ab")]
    assert client.due == 6.0
    assert client.at(2).data(b"cd") == [Forward(b"cd")]
    assert client.due == 7.0
    assert client.end() == [EndAttempt(A, Result.ANSWERED), Finish()]
    assert client.outcome is Outcome.OK


def test_a_large_answer_that_breaks_is_cut() -> None:
    """It has no way to say so itself."""
    client = Client()
    client.head()
    client.data(b"0123456789ab")
    actions = client.fail(FailKind.ENGINE_LOST)
    assert kinds(actions) == [EndAttempt, Break]
    last = actions[-1]
    assert isinstance(last, Break)
    assert not last.can_say
    assert client.outcome is Outcome.BROKEN


@pytest.mark.parametrize(
    ("status", "result", "outcome"),
    [
        (400, Result.ANSWERED, Outcome.REJECTED),
        (429, Result.ANSWERED, Outcome.REJECTED),
        (500, Result.ERRORED, Outcome.ENGINE_ERROR),
    ],
)
def test_an_engines_refusal_is_an_answer(status: int, result: Result, outcome: Outcome) -> None:
    """It is not tried elsewhere, and 4xx say nothing against the session."""
    client = Client(config=AttemptConfig())
    headers = (*JSON, ("retry-after", "7"))
    client.head(status, headers)
    client.data(b'{"error":1}')
    answer = Answer(status, headers, b'{"error":1}')
    assert client.end() == [Reply(answer), EndAttempt(A, result)]
    assert client.outcome is outcome


@pytest.mark.parametrize(
    ("status", "result", "outcome"),
    [
        (400, Result.ANSWERED, Outcome.REJECTED),
        (500, Result.ERRORED, Outcome.ENGINE_ERROR),
    ],
)
def test_a_large_refusal_goes_out_as_it_comes(
    status: int, result: Result, outcome: Outcome
) -> None:
    """And is recorded as what it is."""
    client = Client()
    client.head(status)
    assert client.data(b"0123456789ab") == [Commit(status, JSON, b"0123456789ab")]
    assert client.end() == [EndAttempt(A, result), Finish()]
    assert client.outcome is outcome


# Trying again ----------------------------------------------------------------


def test_a_failure_that_surely_did_not_begin_is_followed_at_once() -> None:
    """Nobody waits for what a dead session cost."""
    client = Client()
    actions = client.fail(FailKind.NO_RESPONDERS, begun=False)
    assert kinds(actions) == [EndAttempt, TryOn]
    assert ended(actions).result is Result.FAILED
    assert actions[1] == TryOn(B, 100.0)


def test_a_failure_that_may_have_begun_is_followed_after_a_pause() -> None:
    """On a path that only computes."""
    client = Client(dice=Dice(0.0))
    assert kinds(client.at(1).fail(FailKind.ENGINE_LOST)) == [EndAttempt]
    assert client.due == 1.0625
    assert client.at(1.0624).tick() == []
    assert client.at(1.0625).tick() == [TryOn(B, 98.9375)]


def test_pauses_double_up_to_a_limit_and_vary() -> None:
    """So that routers that lost one session do not meet again at the next."""
    client = Client(dice=Dice(0.75, 0.75))
    client.fail(FailKind.ENGINE_LOST)
    assert client.due == 0.15625
    client.at(0.15625).tick()
    client.fail(FailKind.REFUSED)
    assert client.due == 0.3125
    config = AttemptConfig(attempts_max=5, backoff_s=0.125, backoff_max_s=0.375)
    many = Client(config=config, candidates=tuple(candidate(name) for name in "abcde"))
    pauses = []
    for _ in range(4):
        many.fail(FailKind.ENGINE_LOST)
        assert many.due is not None
        pauses.append(round(many.due - (many.now - 1000.0), 6))
        many.at(many.due).tick()
    assert pauses == [0.125, 0.125, 0.25, 0.375]


def test_no_session_is_tried_twice() -> None:
    """And the client is told of the last failure, not that none is left."""
    client = Client(candidates=(A, B))
    client.fail(FailKind.REFUSED)
    actions = client.fail(FailKind.ENGINE_UNREACHABLE, begun=False)
    assert kinds(actions) == [EndAttempt]
    actions = client.at(0.2).tick()
    assert given_up(actions) is FaultKind.ENGINE_FAILED
    assert client.attempts.tried == ("a", "b")
    assert client.outcome is Outcome.FAILED


def test_a_session_whose_channel_broke_is_asked_again_when_there_is_no_other() -> None:
    """Once: over the mesh. The fault need not be the session's."""
    client = Client(candidates=(A,))
    assert client.fail(FailKind.CHANNEL_LOST, begun=False)[-1] == TryOn(A, 100.0)
    client.fail(FailKind.REFUSED, begun=False)
    assert kinds(client.at(0.125).tick()) == [GiveUp]
    assert client.attempts.tried == ("a", "a")


@pytest.mark.parametrize("kind", [FailKind.CHANNEL_LOST, FailKind.UNACKNOWLEDGED])
def test_another_session_is_asked_before_the_one_that_may_be_slow(kind: FailKind) -> None:
    """A node that dies takes its channel along."""
    client = Client(candidates=(A, B))
    assert client.fail(kind, begun=False)[-1] == TryOn(B, 100.0)


def test_a_session_that_stands_still_is_asked_again_when_there_is_no_other() -> None:
    """For as long as the attempts go; its client need not know that it had a busy second."""
    client = Client(candidates=(A,))
    assert kinds(client.fail(FailKind.UNACKNOWLEDGED)) == [EndAttempt]
    assert client.at(0.125).tick()[-1] == TryOn(A, 99.875)
    client.fail(FailKind.UNACKNOWLEDGED)
    assert kinds(client.at(0.375).tick()) == [TryOn]
    assert kinds(client.fail(FailKind.UNACKNOWLEDGED)) == [EndAttempt, GiveUp]
    assert client.attempts.tried == ("a", "a", "a")


def test_the_budget_ends_it() -> None:
    """Three attempts, though more sessions are there."""
    client = Client(candidates=tuple(candidate(name) for name in "abcde"))
    client.fail(FailKind.REFUSED, begun=False)
    client.fail(FailKind.REFUSED, begun=False)
    client.at(0.2).tick()
    actions = client.fail(FailKind.REFUSED, begun=False)
    assert ended(actions).result is Result.REFUSED
    assert given_up(actions) is FaultKind.SESSION_REFUSED
    assert len(client.attempts.tried) == 3
    assert client.attempts.status == 503


def test_what_stores_is_not_repeated_once_it_may_have_begun() -> None:
    """A definite failure is repeated all the same."""
    client = Client(path=STORING)
    assert kinds(client.fail(FailKind.NO_RESPONDERS, begun=False)) == [EndAttempt, TryOn]
    assert given_up(client.fail(FailKind.ENGINE_LOST)) is FaultKind.ENGINE_FAILED


def test_what_no_session_can_do_better_is_not_repeated() -> None:
    """A body that is too large is too large everywhere."""
    actions = Client().fail(FailKind.TOO_LARGE, begun=False)
    assert ended(actions).result is Result.CANCELLED
    assert given_up(actions) is FaultKind.BODY_TOO_LARGE


def test_a_request_for_what_nobody_has_is_rejected_not_failed() -> None:
    """No session failed, and nobody need look for a reason."""
    attempts = Attempts(
        config=CONFIG,
        path=CHAT,
        streams=False,
        choose=lambda _: Fault(kind=FaultKind.MODEL_NOT_FOUND, message="none"),
        rng=Dice(),
    )
    assert kinds(attempts.start(0.0)) == [GiveUp]
    assert (attempts.outcome, attempts.status) == (Outcome.REJECTED, 404)


def test_no_candidate_at_all_is_the_choosers_fault() -> None:
    """Unknown and absent models differ there."""
    client = Client(candidates=())
    assert client.first == [GiveUp(NONE_LEFT)]
    assert client.outcome is Outcome.FAILED
    assert client.attempts.candidate is None


def test_an_engine_killed_in_mid_answer_costs_only_time() -> None:
    """Half an answer was held, not sent; the next session answers afresh."""
    client = Client()
    client.head()
    client.data(b"half")
    client.fail(FailKind.ENGINE_LOST)
    client.at(0.2).tick()
    client.head()
    client.data(b"whole")
    assert client.end()[0] == Reply(Answer(200, JSON, b"whole"))
    assert client.attempts.tried == ("a", "b")


@pytest.mark.parametrize("status", [502, 503, 504])
def test_an_answer_of_an_engines_surroundings_is_tried_elsewhere(status: int) -> None:
    """A proxy's 502 says that the engine is away, not that the request is bad."""
    client = Client()
    client.head(status)
    client.data(b"<html>")
    actions = client.end()
    assert ended(actions).result is Result.ERRORED
    if status == 503:
        assert actions[1] == TryOn(B, 100.0)
    else:
        assert client.at(0.125).tick() == [TryOn(B, 99.875)]
    client.head()
    assert kinds(client.end()) == [Reply, EndAttempt]
    assert client.outcome is Outcome.OK


def test_an_engine_that_does_not_take_its_own_key_is_passed_by() -> None:
    """It has not begun; if there is no other, the client hears of an engine, not of its key."""
    client = Client()
    client.head(401)
    client.data(b"{}")
    actions = client.end()
    assert ended(actions).result is Result.ERRORED
    assert actions[1] == TryOn(B, 100.0)
    alone = Client(candidates=(A,))
    alone.head(401)
    last = alone.end()[-1]
    assert isinstance(last, Reply)
    assert last.answer.status == 502
    assert alone.outcome is Outcome.ENGINE_ERROR


def test_the_last_such_answer_reaches_the_client_as_an_error_object() -> None:
    """With its own status."""
    client = Client(candidates=(A,))
    client.head(503)
    client.data(b"busy")
    actions = client.end()
    assert kinds(actions) == [EndAttempt, Reply]
    last = actions[-1]
    assert isinstance(last, Reply)
    assert last.answer.status == 503
    assert json.loads(last.answer.body)["error"]["code"] == "engine_failed"
    assert client.outcome is Outcome.ENGINE_ERROR


def test_a_gateway_answer_on_a_path_that_stores_is_final() -> None:
    """502 and 504 may come after the engine began."""
    client = Client(path=STORING)
    client.head(502)
    assert kinds(client.end()) == [EndAttempt, Reply]


def test_a_later_failure_takes_the_place_of_an_earlier_answer() -> None:
    """The client hears of what happened last."""
    client = Client(candidates=(A, B))
    client.head(503)
    client.end()
    client.fail(FailKind.ENGINE_LOST)
    assert given_up(client.at(1).tick()) is FaultKind.ENGINE_FAILED


def test_a_head_that_is_no_head_is_a_failure() -> None:
    """Nothing the client could read."""
    client = Client()
    actions = client.head(99)
    assert ended(actions) == EndAttempt(
        A, Result.FAILED, "The engine's answer has no valid status.", cancel=True
    )
    assert client.at(0.125).tick() == [TryOn(B, 99.875)]


# Streams ---------------------------------------------------------------------


def test_a_stream_begins_with_its_first_event() -> None:
    """The head waits for it: until then another session can be tried."""
    client = Client(streams=True)
    assert client.due == 10.0
    assert client.at(1).head(200, EVENTS) == []
    assert client.at(2).data(DELTA[:20]) == []
    assert client.due == 7.0
    assert client.at(3).data(DELTA[20:]) == [Commit(200, EVENTS, DELTA)]
    assert client.attempts.first_at == 1003.0
    assert client.at(4).data(STOP + USAGE[:5]) == [Forward(STOP)]
    assert client.data(b"") == []
    assert client.data(USAGE[5:] + DONE) == [Forward(USAGE + DONE)]
    assert client.due == 9.0
    assert client.end() == [EndAttempt(A, Result.ANSWERED), Finish()]
    assert client.outcome is Outcome.OK
    assert client.attempts.usage == Usage(tokens_in=3, tokens_out=2)


def test_a_stream_that_breaks_before_its_first_event_is_tried_elsewhere() -> None:
    """Its head and half an event were never sent."""
    client = Client(streams=True)
    client.head(200, EVENTS)
    client.data(DELTA[:10])
    client.fail(FailKind.ENGINE_LOST)
    assert client.at(0.125).tick() == [TryOn(B, 99.875)]
    client.head(200, EVENTS)
    assert client.data(DELTA) == [Commit(200, EVENTS, DELTA)]


def test_a_stream_that_breaks_later_ends_with_an_error() -> None:
    """Half an event that was held back is dropped, and nothing is invented."""
    client = Client(streams=True)
    client.head(200, EVENTS)
    client.data(DELTA + USAGE + DELTA[:10])
    actions = client.fail(FailKind.ENGINE_LOST)
    assert kinds(actions) == [EndAttempt, Break]
    assert ended(actions).result is Result.FAILED
    last = actions[-1]
    assert isinstance(last, Break)
    assert last.can_say
    assert client.outcome is Outcome.BROKEN
    assert client.attempts.usage == Usage(tokens_in=3, tokens_out=2)
    assert client.attempts.status == 200


def test_a_stream_that_ends_too_early_is_broken_too() -> None:
    """The engine's HTTP ended well, its answer did not."""
    client = Client(streams=True)
    client.head(200, EVENTS)
    client.data(DELTA)
    assert kinds(client.end()) == [EndAttempt, Break]
    assert client.outcome is Outcome.BROKEN


def test_a_choice_without_a_reason_to_finish_is_recorded() -> None:
    """The stream passes unchanged."""
    client = Client(streams=True)
    client.head(200, EVENTS)
    client.data(DELTA + DONE)
    assert client.end() == [EndAttempt(A, Result.ANSWERED), Finish()]
    assert client.outcome is Outcome.INCOMPLETE


def test_an_error_that_the_engine_tells_itself_is_recorded() -> None:
    """It needs no second one from us."""
    client = Client(streams=True)
    client.head(200, EVENTS)
    client.data(DELTA + b'data: {"error":{}}\n\n' + DONE)
    assert client.end() == [EndAttempt(A, Result.ERRORED), Finish()]
    assert client.outcome is Outcome.ENGINE_ERROR


def test_what_breaks_after_the_last_word_takes_nothing_away() -> None:
    """A reset behind `[DONE]` is an end, for the client and for the session's reputation."""
    client = Client(streams=True)
    client.head(200, EVENTS)
    client.data(STOP + DONE)
    assert client.fail(FailKind.ENGINE_LOST) == [EndAttempt(A, Result.ANSWERED), Finish()]
    assert client.outcome is Outcome.OK


def test_an_engine_that_holds_the_connection_after_its_last_word_is_let_go() -> None:
    """The client is not told of a silence that it does not see."""
    client = Client(streams=True)
    client.head(200, EVENTS)
    client.data(STOP + DONE)
    assert client.due is not None
    actions = client.at(client.due).tick()
    assert actions == [EndAttempt(A, Result.ANSWERED, cancel=True), Finish()]
    assert client.outcome is Outcome.OK


def test_a_client_that_leaves_with_its_whole_answer_cancels_nothing() -> None:
    """Most close at `[DONE]`, before the engine has ended its answer; that is booked as served."""
    client = Client(streams=True)
    client.head(200, EVENTS)
    client.data(STOP + DONE)
    assert client.leave() == [EndAttempt(A, Result.ANSWERED, cancel=True), Finish()]
    assert client.outcome is Outcome.OK


def test_an_end_without_a_blank_line_is_passed() -> None:
    """The last event is the engine's to end."""
    client = Client(streams=True)
    client.head(200, EVENTS)
    client.data(STOP + b"data: [DONE]")
    assert client.end() == [
        EndAttempt(A, Result.ANSWERED),
        Forward(b"data: [DONE]"),
        Finish(),
    ]


def test_an_empty_stream_is_tried_elsewhere() -> None:
    """200 and nothing is no answer."""
    client = Client(streams=True)
    client.head(200, EVENTS)
    assert ended(client.end()).result is Result.FAILED
    assert client.at(0.125).tick() == [TryOn(B, 99.875)]


def test_half_a_first_event_is_nothing() -> None:
    """Where a stream must end with `[DONE]`, it was cut off."""
    client = Client(streams=True)
    client.head(200, EVENTS)
    client.data(DELTA[:20])
    assert ended(client.end()).result is Result.FAILED
    assert client.at(0.125).tick() == [TryOn(B, 99.875)]


def test_a_stream_of_one_unfinished_line_is_passed_where_it_may_be_whole() -> None:
    """On a path whose streams promise nothing."""
    client = Client(streams=True, path=EnginePath())
    client.head(200, EVENTS)
    client.data(b"data: 1")
    assert client.end() == [
        EndAttempt(A, Result.ANSWERED),
        Commit(200, EVENTS, b"data: 1"),
        Finish(),
    ]
    assert client.outcome is Outcome.OK


def test_an_answer_that_is_no_stream_is_held_though_one_was_asked_for() -> None:
    """An error, or an engine that cannot stream."""
    client = Client(streams=True)
    client.head(400)
    client.data(b"{}")
    assert client.end()[0] == Reply(Answer(400, JSON, b"{}"))


# Time ------------------------------------------------------------------------


def test_a_hung_engine_is_left_when_its_first_event_is_late() -> None:
    """The next session gets the request, and the hung one the blame."""
    client = Client(streams=True)
    assert client.at(9.9).tick() == []
    actions = client.at(10).tick()
    assert ended(actions).result is Result.TIMED_OUT
    assert ended(actions).cancel
    assert client.at(10.125).tick() == [TryOn(B, 89.875)]
    assert client.due == 20.125


def test_a_whole_answer_has_more_time() -> None:
    """It comes at its end."""
    client = Client()
    assert client.at(59.9).tick() == []
    assert kinds(client.at(60).tick()) == [EndAttempt]


def test_a_stream_that_falls_silent_is_broken_off() -> None:
    """The engine is told to stop."""
    client = Client(streams=True)
    client.head(200, EVENTS)
    client.at(1).data(DELTA)
    assert client.at(5.9).tick() == []
    actions = client.at(6).tick()
    assert kinds(actions) == [EndAttempt, Break]
    assert ended(actions).cancel
    last = actions[-1]
    assert isinstance(last, Break)
    assert last.fault.kind is FaultKind.ENGINE_TIMEOUT


def test_no_attempt_begins_after_the_time_of_all() -> None:
    """And none outlasts it."""
    client = Client()
    client.at(60).tick()
    client.at(60.125).tick()
    assert client.due == 100.0
    assert given_up(client.at(100).tick()) is FaultKind.ENGINE_TIMEOUT
    assert client.attempts.tried == ("a", "b")


# Leaving ---------------------------------------------------------------------


@pytest.mark.parametrize("stage", ["before the head", "before the first event", "in the middle"])
def test_a_client_that_leaves_stops_the_engine(stage: str) -> None:
    """Whenever it is."""
    client = Client(streams=True)
    if stage != "before the head":
        client.head(200, EVENTS)
    if stage == "in the middle":
        client.data(DELTA + USAGE)
    assert client.leave() == [EndAttempt(A, Result.CANCELLED, "the client left", cancel=True)]
    assert client.outcome is Outcome.CANCELLED
    assert (client.attempts.usage is not None) is (stage == "in the middle")


def test_a_client_that_leaves_between_attempts_ends_it() -> None:
    """Nothing is under way that could be stopped."""
    client = Client()
    client.fail(FailKind.ENGINE_LOST)
    assert client.leave() == []
    assert client.outcome is Outcome.CANCELLED
    assert client.due is None


def test_after_the_end_nothing_happens() -> None:
    """Whatever comes late."""
    client = Client()
    client.leave()
    assert client.head() == client.data(b"x") == client.end() == client.tick() == []
    assert client.fail(FailKind.ENGINE_LOST) == client.leave() == []


def test_what_does_not_belong_to_the_moment_is_ignored() -> None:
    """A second head, an end while waiting, data without a head."""
    client = Client()
    assert client.data(b"early") == client.end() == []
    client.head()
    assert client.head(500) == []
    assert client.data(b"") == []
    client.fail(FailKind.ENGINE_LOST)
    assert client.end() == client.data(b"late") == client.fail(FailKind.SILENT) == []
    assert client.at(0.125).tick() == [TryOn(B, 99.875)]


@pytest.mark.parametrize("status", [204, 304])
@pytest.mark.parametrize("given", [EVENTS, JSON])
def test_an_answer_that_has_no_body_gets_none(status: int, given: Headers) -> None:
    """A client reads what would follow its head as the answer to its next request."""
    client = Client(streams=True)
    client.head(status, given)
    assert client.data(b"HTTP/1.1 200 OK\r\n\r\n" + DELTA) == []
    assert client.end()[0] == Reply(Answer(status, given, b""))


BUSY = Held(7.0, Fault(kind=FaultKind.MODEL_BUSY, message="busy"))


def test_a_request_waits_for_a_session() -> None:
    """And goes there as soon as there is one."""
    client = Client(held=BUSY)
    assert client.first == [Hold()]
    assert (client.due, client.attempts.tried) == (7.0, ())
    assert client.at(2.0).recheck() == [Hold()]
    client.held = None
    assert client.at(3.0).recheck() == [TryOn(A, 97.0)]
    assert client.recheck() == []  # late news
    assert client.due == 63.0


def test_a_request_waits_no_longer_than_it_may() -> None:
    """All its waiting counts together."""
    client = Client(held=BUSY)
    client.at(6.0).recheck()
    assert client.due == 7.0
    assert client.at(6.9).tick() == []
    assert client.at(7.0).tick() == [GiveUp(BUSY.fault)]
    assert client.outcome is Outcome.FAILED


def test_a_last_look_may_find_a_session() -> None:
    """When time is up."""
    client = Client(held=BUSY)
    client.held = None
    assert kinds(client.at(7.0).tick()) == [TryOn]


def test_a_retry_may_wait_too() -> None:
    """For a session that was not tried; else the client gets what is known."""
    client = Client()
    client.held = BUSY
    assert kinds(client.fail(FailKind.NO_RESPONDERS, begun=False)) == [EndAttempt, Hold]
    client.held = None
    assert client.at(1.0).recheck() == [TryOn(B, 99.0)]
    again = Client()
    again.held = BUSY
    again.whole(503, b'{"error":{}}')
    assert kinds(again.at(7.0).tick()) == [Reply]


def test_a_client_that_leaves_while_it_waits_ends_no_attempt() -> None:
    """None was begun."""
    client = Client(held=BUSY)
    assert client.leave() == []
    assert client.outcome is Outcome.CANCELLED


def test_without_a_budget_nothing_is_repeated() -> None:
    """What surely did not begin is no repetition."""
    budget = RetryBudget(AttemptConfig(retry_reserve=1, retry_share=0))
    first = Client(budget=budget)
    first.fail(FailKind.ENGINE_LOST)
    assert kinds(first.at(0.2).tick()) == [TryOn]
    second = Client(budget=budget)
    assert given_up(second.fail(FailKind.ENGINE_LOST)) is FaultKind.ENGINE_FAILED
    third = Client(budget=budget)
    assert third.fail(FailKind.NO_RESPONDERS, begun=False)[1:] == [TryOn(B, 100.0)]
