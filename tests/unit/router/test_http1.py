"""Answers are framed so that the client knows where they end."""

import pytest

from opentela.router import http1
from opentela.router.http1 import Framing

FIELDS = b"x: 1\r\n"


def test_a_whole_answer_has_a_length() -> None:
    """HTTP/1.1 keeps the connection without being told."""
    assert http1.whole(200, FIELDS, b"body", keep_alive=True, is_http10=False) == (
        b"HTTP/1.1 200 OK\r\nx: 1\r\ncontent-length: 4\r\n\r\nbody"
    )


def test_closing_is_said() -> None:
    """So that the client does not send another request."""
    assert b"\r\nconnection: close\r\n" in http1.whole(
        404, b"", b"", keep_alive=False, is_http10=False
    )


def test_http10_is_told_that_the_connection_stays() -> None:
    """There it is not the default."""
    answer = http1.whole(200, b"", b"x", keep_alive=True, is_http10=True)
    assert b"\r\nconnection: keep-alive\r\n" in answer


@pytest.mark.parametrize("status", [204, 304])
def test_answers_without_a_body_have_no_length(status: int) -> None:
    """RFC 9110 forbids both."""
    answer = http1.whole(status, FIELDS, b"ignored", keep_alive=True, is_http10=False)
    assert answer.endswith(b"\r\nx: 1\r\n\r\n")


def test_a_status_without_a_name_is_still_a_status() -> None:
    """Engines may be original."""
    answer = http1.whole(299, b"", b"", keep_alive=True, is_http10=False)
    assert answer.startswith(b"HTTP/1.1 299 Unknown\r\n")


def test_a_growing_body_is_chunked() -> None:
    """Each part says how long it is."""
    head = http1.head(200, FIELDS, Framing.CHUNKED, keep_alive=True)
    assert head == b"HTTP/1.1 200 OK\r\nx: 1\r\ntransfer-encoding: chunked\r\n\r\n"
    assert http1.part([b"hello ", b"world"], Framing.CHUNKED) == b"b\r\nhello world\r\n"
    closing = http1.head(200, FIELDS, Framing.CHUNKED, keep_alive=False)
    assert b"\r\nconnection: close\r\n" in closing


def test_http10_sees_the_end_of_the_connection() -> None:
    """It knows no chunks."""
    head = http1.head(200, FIELDS, Framing.CLOSED, keep_alive=True)
    assert head == b"HTTP/1.1 200 OK\r\nx: 1\r\nconnection: close\r\n\r\n"
    assert http1.part([b"hello"], Framing.CLOSED) == b"hello"


def test_an_empty_part_is_not_sent() -> None:
    """In chunks it would end the body."""
    assert http1.part([b""], Framing.CHUNKED) == b""


def test_a_head_alone_says_how_long_the_body_would_be() -> None:
    """When that is known; what an engine's would be is not."""
    told = http1.whole(404, FIELDS, b"body", keep_alive=True, is_http10=False, is_head=True)
    assert told == b"HTTP/1.1 404 Not Found\r\nx: 1\r\ncontent-length: 4\r\n\r\n"
    untold = http1.whole(200, FIELDS, b"", keep_alive=True, is_http10=False, is_head=True)
    assert untold == b"HTTP/1.1 200 OK\r\nx: 1\r\n\r\n"


def test_a_growing_body_is_left_out_of_a_head_alone() -> None:
    """An engine that sends one all the same must not write into the next answer."""
    head = http1.head(200, FIELDS, Framing.ABSENT, keep_alive=True)
    assert head == b"HTTP/1.1 200 OK\r\nx: 1\r\n\r\n"
    assert http1.part([b"data"], Framing.ABSENT) == b""
