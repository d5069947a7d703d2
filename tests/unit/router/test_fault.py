"""Every fault has its status, its envelope and its advice."""

import json

import pytest

from opentela.router.fault import (
    RETRY_AFTER_S,
    RETRY_MAX_S,
    Fault,
    FaultKind,
    envelope,
    no_such_model,
    of_fail,
    sse_event,
)
from opentela.wire.frames import Fail, FailKind

STATUSES = {
    FaultKind.BAD_REQUEST: (400, "invalid_value"),
    FaultKind.UNKNOWN_URL: (404, "unknown_url"),
    FaultKind.MODEL_NOT_FOUND: (404, "model_not_found"),
    FaultKind.METHOD_NOT_ALLOWED: (405, "method_not_allowed"),
    FaultKind.REQUEST_TIMEOUT: (408, "request_timeout"),
    FaultKind.BODY_TOO_LARGE: (413, "request_too_large"),
    FaultKind.BUSY: (429, "router_busy"),
    FaultKind.HEAD_TOO_LARGE: (431, "headers_too_large"),
    FaultKind.INTERNAL: (500, "internal_error"),
    FaultKind.ENGINE_ERROR: (502, "engine_error"),
    FaultKind.ENGINE_FAILED: (502, "engine_failed"),
    FaultKind.NO_LIVE_SESSION: (503, "model_unavailable"),
    FaultKind.MODEL_LOADING: (503, "model_loading"),
    FaultKind.MODEL_BUSY: (503, "model_busy"),
    FaultKind.NO_MATCHING_SESSION: (503, "no_matching_session"),
    FaultKind.SESSION_REFUSED: (503, "session_refused"),
    FaultKind.ENGINE_TIMEOUT: (504, "engine_timeout"),
}


@pytest.mark.parametrize("kind", FaultKind)
def test_each_kind_is_told_with_its_status_and_code(kind: FaultKind) -> None:
    """The table is the contract with clients: a change of it is a change of the API."""
    status, code = STATUSES[kind]
    fault = Fault(kind=kind, message="why", param="model")
    error = json.loads(envelope(fault))["error"]
    assert fault.http_status == status
    assert error.keys() == {"message", "type", "param", "code"}
    assert (error["message"], error["param"], error["code"]) == ("why", "model", code)


@pytest.mark.parametrize("kind", FaultKind)
def test_retrying_is_advised_where_it_helps(kind: FaultKind) -> None:
    """Nothing but being busy or away gets better by waiting."""
    advised = Fault(kind=kind, message="").retry_after_s
    assert advised == (RETRY_AFTER_S if STATUSES[kind][0] in {429, 503} else 0)


@pytest.mark.parametrize(
    ("known_s", "told_s"), [(0.2, 1), (7.0, 7), (7.1, 8), (10_000.0, RETRY_MAX_S)]
)
def test_an_estimate_is_told_where_there_is_one(known_s: float, told_s: int) -> None:
    """Whole seconds, at least one, and never beyond what anybody can know."""
    fault = Fault(kind=FaultKind.MODEL_LOADING, message="", retry_s=known_s)
    assert fault.retry_after_s == told_s
    assert Fault(kind=FaultKind.BAD_REQUEST, message="", retry_s=known_s).retry_after_s == 0


def test_an_engines_own_status_is_kept() -> None:
    """A client sees 503 for the engine's 503, not our 502 for "the engine failed"."""
    fault = Fault(kind=FaultKind.ENGINE_FAILED, message="", status=503)
    assert fault.http_status == 503
    assert fault.retry_after_s == RETRY_AFTER_S


def test_a_name_that_nobody_offered_is_named_in_the_error() -> None:
    """The client sees which field, and no more of a long name than it needs."""
    error = json.loads(envelope(no_such_model("x" * 1000)))["error"]
    assert error["param"] == "model"
    assert error["code"] == "model_not_found"
    assert len(error["message"]) < 300


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (FailKind.REFUSED, 503),
        (FailKind.NO_RESPONDERS, 503),
        (FailKind.MESH_LOST, 503),
        (FailKind.UNACKNOWLEDGED, 502),
        (FailKind.ENGINE_UNREACHABLE, 502),
        (FailKind.ENGINE_LOST, 502),
        (FailKind.ENGINE_PROTOCOL, 502),
        (FailKind.PROTOCOL, 502),
        (FailKind.CANCELLED, 502),
        (FailKind.UNKNOWN, 502),
        (FailKind.TOO_LARGE, 413),
        (FailKind.DEADLINE, 504),
        (FailKind.SILENT, 504),
    ],
)
def test_each_failure_of_a_stream_has_its_status(kind: FailKind, status: int) -> None:
    """Also kinds of newer peers, which nobody here knows."""
    assert of_fail(Fail(1, kind, definite=False, retryable=True)).http_status == status


def test_the_event_that_ends_a_broken_stream_is_one_whole_event() -> None:
    """An OpenAI client raises on an event with `error`, and never sees `[DONE]`."""
    fault = Fault(kind=FaultKind.ENGINE_FAILED, message="line\nbreak")
    event = sse_event(fault)
    assert event.startswith(b"data: ")
    assert event.endswith(b"\n\n")
    assert event.count(b"\n") == 2
    assert json.loads(event[6:])["error"]["message"] == "line\nbreak"
