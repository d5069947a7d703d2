"""What an engine answers reaches the client as JSON, whoever wrote it."""

import gzip
import json

import pytest

from opentela.router.answers import Answer, is_event_stream, presented, shown_status, value_of
from opentela.wire.frames import Headers

JSON: Headers = (("Content-Type", "application/json"),)
HTML: Headers = (("Content-Type", "text/html"), ("ETag", '"1"'), ("x-engine", "kept"))


def test_good_answers_pass_whatever_they_are() -> None:
    """Audio is an answer too."""
    answer = Answer(200, (("content-type", "audio/mpeg"),), b"\xff\xfb")
    assert presented(answer) is answer


@pytest.mark.parametrize("status", [400, 404, 422, 429])
def test_any_json_object_of_a_refusal_passes_byte_for_byte(status: int) -> None:
    """What is wrong with a request is between the client and the engine."""
    answer = Answer(status, JSON, b'{ "detail": [ {"loc": ["body"]} ] }')
    assert presented(answer) is answer


@pytest.mark.parametrize("status", [500, 502, 503, 504])
@pytest.mark.parametrize(
    "body", [b'{ "error": {"message": "m"} }', b'{"object":"error","message":"m"}']
)
def test_error_objects_of_an_engine_pass_byte_for_byte(status: int, body: bytes) -> None:
    """Both forms that engines have had."""
    answer = Answer(status, JSON, body)
    assert presented(answer) is answer


@pytest.mark.parametrize("status", [400, 404, 405, 500, 502, 503, 504])
@pytest.mark.parametrize(
    "body",
    [
        b"<html><h1>Bad Gateway</h1></html>",
        b"upstream connect error",
        b"",
        b'"a string"',
        b"[1]",
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_what_is_no_error_object_becomes_one_of_the_same_status(status: int, body: bytes) -> None:
    """A proxy's HTML is not for a client that reads JSON."""
    answer = presented(Answer(status, HTML, body))
    error = json.loads(answer.body)["error"]
    assert answer.status == status
    assert str(status) in error["message"]
    assert answer.headers == (("x-engine", "kept"), ("content-type", "application/json"))


def test_the_one_line_that_some_servers_send_is_kept() -> None:
    """FastAPI's `detail` says what happened; only so much of it."""
    answer = presented(Answer(500, JSON, json.dumps({"detail": "x" * 1000}).encode()))
    message = json.loads(answer.body)["error"]["message"]
    assert message.startswith("The engine answered 500: xxx")
    assert len(message) < 400


def test_429_without_json_is_a_rate_limit() -> None:
    """SDKs look at the type."""
    answer = presented(Answer(429, (("retry-after", "7"),), b"slow down"))
    assert json.loads(answer.body)["error"]["type"] == "rate_limit_error"
    assert ("retry-after", "7") in answer.headers


@pytest.mark.parametrize("status", [401, 403, 407])
def test_an_engine_that_locks_its_provider_out_says_nothing_of_the_clients_key(status: int) -> None:
    """Client libraries stop at these, and people change keys that are in order."""
    said = b'{"error":{"message":"Incorrect API key provided","code":"invalid_api_key"}}'
    answer = presented(Answer(status, JSON, said))
    error = json.loads(answer.body)["error"]
    assert (answer.status, error["code"], error["type"]) == (502, "engine_error", "server_error")
    assert "API key" not in error["message"]
    assert shown_status(status) == 502
    assert shown_status(404) == 404


def test_compressed_errors_pass_raw_when_they_claim_to_be_json() -> None:
    """The header that says how to read them passes too."""
    headers = (*JSON, ("Content-Encoding", "gzip"))
    answer = Answer(500, headers, gzip.compress(b'{"error":{}}'))
    assert presented(answer) is answer


def test_compressed_html_is_replaced_with_its_encoding() -> None:
    """An uncompressed body must not be labelled gzip."""
    headers = (*HTML, ("Content-Encoding", "gzip"))
    answer = presented(Answer(502, headers, gzip.compress(b"<html>")))
    assert json.loads(answer.body)["error"]["code"] == "engine_failed"
    assert value_of(answer.headers, "content-encoding") == ""


@pytest.mark.parametrize(
    ("status", "kind", "expected"),
    [
        (200, "text/event-stream", True),
        (200, "Text/Event-Stream; charset=utf-8", True),
        (200, "application/json", False),
        (500, "text/event-stream", False),
    ],
)
def test_streams_are_told_by_their_type(status: int, kind: str, *, expected: bool) -> None:
    """An error is no stream, whatever it says."""
    assert is_event_stream(status, (("Content-Type", kind),)) is expected
    assert not is_event_stream(200, ())
