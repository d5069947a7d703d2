"""Answers of engines, cut at every byte, without a socket."""

import asyncio
from typing import cast

import pytest

from opentela.engine.connection import AnswerHead, EngineConnection
from opentela.wire.frames import FailKind, Open

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
TEXT = "é€🦊 data".encode()


class FakeTransport:
    """The part of a transport that a connection uses."""

    def __init__(self) -> None:
        self.written = b""
        self.calls: list[str] = []
        self.closing = False

    def write(self, data: bytes) -> None:
        self.written += data

    def set_write_buffer_limits(self, high: int) -> None:
        pass

    def is_closing(self) -> bool:
        return self.closing

    def pause_reading(self) -> None:
        self.calls.append("pause")

    def resume_reading(self) -> None:
        self.calls.append("resume")

    def close(self) -> None:
        self.closing = True
        self.calls.append("close")

    def abort(self) -> None:
        self.closing = True
        self.calls.append("abort")


class Asker:
    """An exchange and a pool that write down what they are told."""

    def __init__(self, method: str = "POST") -> None:
        self.request = Open(1, method, "/", ())
        self.is_sent = True
        self.head: AnswerHead | None = None
        self.body = b""
        self.reads = 0
        self.ended = False
        self.failed: tuple[FailKind, str] | None = None
        self.taken = 0
        self.released = 0
        self.may_retry = False
        self.transport = FakeTransport()
        self.connection = EngineConnection(self)
        self.connection.connection_made(cast("asyncio.BaseTransport", self.transport))
        self.connection.begin(self, b"request")

    def read(self, head: AnswerHead | None, data: bytes, *, ended: bool) -> None:
        assert not self.ended
        assert head is None or self.head is None
        self.head = head or self.head
        assert self.head is not None
        self.body += data
        self.reads += 1
        self.ended = ended

    def fail(self, kind: FailKind, message: str) -> None:
        assert not self.ended
        self.failed = (kind, message)

    def retry(self) -> bool:
        return self.may_retry

    def took(self, size: int) -> None:
        self.taken += size

    def release(self, connection: EngineConnection) -> None:
        assert connection is self.connection
        self.released += 1

    def forget(self, connection: EngineConnection) -> None:
        assert connection is self.connection

    def answer(self, *pieces: bytes) -> "Asker":
        for piece in pieces:
            if not self.transport.closing:
                self.connection.data_received(piece)
        return self

    def again(self, method: str = "POST") -> "Asker":
        """Ask once more, over the same connection."""
        self.request = Open(1, method, "/", ())
        self.head, self.body, self.ended, self.reads = None, b"", False, 0
        self.connection.begin(self, b"request")
        return self

    def close(self, error: Exception | None = None) -> "Asker":
        self.connection.connection_lost(error)
        return self


WHOLE: list[tuple[bytes, int, bytes]] = [
    (b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(TEXT), TEXT), 200, TEXT),
    (
        CHUNKED + b"3\r\n%b\r\n%x\r\n%b\r\n0\r\n\r\n" % (TEXT[:3], len(TEXT) - 3, TEXT[3:]),
        200,
        TEXT,
    ),
    (
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"2\r\nab\r\n0\r\nX-Trailer: 1\r\n\r\n"
        ),
        200,
        b"ab",
    ),
    (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 1\r\n\r\nx", 201, b"x"),
    (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", 204, b""),
    (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", 304, b""),
    (b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 6\r\n\r\n<html>", 502, b"<html>"),
]


@pytest.mark.parametrize(("answer", "status", "body"), WHOLE)
def test_an_answer_reads_the_same_from_every_cut(answer: bytes, status: int, body: bytes) -> None:
    """And leaves the connection ready for the next request."""
    for at in range(len(answer) + 1):
        asker = Asker().answer(*(piece for piece in (answer[:at], answer[at:]) if piece))
        assert asker.ended
        assert asker.head is not None
        assert (asker.head.status, asker.body) == (status, body)
        assert asker.released == 1
        assert "content-length" not in dict(asker.head.headers)


@pytest.mark.parametrize("first", [answer for answer, *_ in WHOLE])
@pytest.mark.parametrize(("answer", "status", "body"), WHOLE)
def test_what_was_answered_before_changes_nothing(
    first: bytes, answer: bytes, status: int, body: bytes
) -> None:
    """Also where the next head is the last one again, with this or with another length."""
    for at in (0, answer.index(b"\r\n\r\n") + 4, len(answer) - 1):
        pieces = [piece for piece in (answer[:at], answer[at:]) if piece]
        asker = Asker().answer(first).again().answer(*pieces)
        asker.again().answer(*pieces)
        assert asker.ended
        assert asker.head is not None
        assert (asker.head.status, asker.body, asker.released) == (status, body, 3)


KNOWN = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nX-A: 1\r\n\r\n%b"


def test_a_head_that_comes_again_is_known_with_another_length() -> None:
    """Only what stands there is taken: a half answer waits, and what is too much is none."""
    asker = Asker().answer(KNOWN % (2, b"ab")).again().answer(KNOWN % (3, b"cde"))
    assert (asker.reads, asker.body, asker.released) == (1, b"cde", 2)
    asker.again().answer(KNOWN % (3, b"fg"))
    assert not asker.ended
    asker.answer(b"h")
    assert (asker.ended, asker.body) == (True, b"fgh")
    asker.again().answer(KNOWN % (3, b"ijkl"))
    assert asker.body == b"ijk"
    assert asker.transport.calls == ["close"]


def test_an_answer_to_head_is_none_that_is_known() -> None:
    """Its length is that of a body which does not come."""
    for body in (b"", b"stray"):
        asker = Asker().answer(KNOWN % (2, b"ab")).again("HEAD").answer(KNOWN % (5, body))
        assert (asker.ended, asker.body) == (True, b"")
        assert asker.transport.calls == ["close"]


def test_one_read_is_one_callback() -> None:
    """However many chunks it holds."""
    asker = Asker().answer(CHUNKED + b"1\r\na\r\n1\r\nb\r\n1\r\nc\r\n", b"1\r\nd\r\n0\r\n\r\n")
    assert (asker.reads, asker.body) == (2, b"abcd")


def test_a_part_of_a_head_is_told_to_nobody() -> None:
    """There is nothing to tell yet."""
    assert Asker().answer(b"HTTP/1.1 200 OK\r\nContent-").reads == 0


def test_gzip_passes_with_its_field() -> None:
    """Whoever asked, or did not, can tell."""
    asker = Asker().answer(
        b"HTTP/1.1 500 Oops\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n\x1f\x8b"
    )
    assert asker.head == AnswerHead(500, (("content-encoding", "gzip"),))
    assert asker.body == b"\x1f\x8b"


def test_an_answer_until_the_end_of_the_connection_ends_with_it() -> None:
    """Only in order: a reset is no end."""
    begun = b"HTTP/1.0 200 OK\r\n\r\nabc"
    good = Asker().answer(begun).close()
    assert good.ended
    assert good.body == b"abc"
    bad = Asker().answer(begun).close(ConnectionResetError())
    assert not bad.ended
    assert bad.failed is not None


def test_an_engine_that_wants_to_close_is_let_go() -> None:
    """The connection is not used again."""
    asker = Asker().answer(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
    assert asker.ended
    assert asker.released == 0
    assert asker.transport.calls == ["close"]


def test_an_answer_before_the_whole_request_uses_up_the_connection() -> None:
    """Such as a refusal of a body that is still coming."""
    asker = Asker()
    asker.is_sent = False
    asker.answer(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
    assert asker.ended
    assert asker.released == 0


def test_a_head_request_has_no_body_to_wait_for() -> None:
    """Whatever its length says."""
    asker = Asker("HEAD").answer(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n")
    assert asker.ended
    assert asker.body == b""
    assert asker.released == 0


def test_bytes_beyond_the_answer_are_nobodys() -> None:
    """The answer stands, the connection does not: the next request would get them."""
    for more in (b"XYZ", b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", b"HTTP/1.1 200 OK\r\n"):
        asker = Asker().answer(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab" + more)
        assert asker.ended
        assert asker.body == b"ab"
        assert asker.released == 0


def test_bytes_that_nobody_asked_for_end_an_idle_connection() -> None:
    """Even if they come later than the answer."""
    asker = Asker().answer(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    assert asker.released == 1
    asker.connection.data_received(b"HTTP/1.1 200 OK\r\n")
    assert asker.transport.calls == ["abort"]


@pytest.mark.parametrize(
    "answer",
    [
        b"220 smtp\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        CHUNKED + b"zz\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"x: " + b"a" * 70000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"x: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n" * 2000 + b"\r\n",
    ],
    ids=[
        "another protocol",
        "no length",
        "two lengths",
        "a coding until the end",
        "a coding in chunks",
        "an upgrade",
        "no chunk",
        "a large field",
        "many fields",
    ],
)
def test_what_is_no_answer_fails_as_such(answer: bytes) -> None:
    """And the connection is cut."""
    asker = Asker().answer(answer)
    assert asker.failed is not None
    assert asker.failed[0] is FailKind.ENGINE_PROTOCOL
    assert asker.transport.calls[-1] == "abort"
    assert not asker.ended


def test_a_fresh_connection_that_is_lost_is_a_lost_engine() -> None:
    """Before its first byte, or in the middle of an answer."""
    assert Asker().close().failed == (
        FailKind.ENGINE_LOST,
        "the engine closed the connection before it answered",
    )
    assert Asker().answer(CHUNKED + b"1\r\na\r\n").close().failed == (
        FailKind.ENGINE_LOST,
        "the engine closed the connection in mid-answer",
    )


def test_a_used_connection_that_is_lost_before_a_byte_may_be_replaced() -> None:
    """Unless that was tried already."""
    for may_retry in (True, False):
        asker = Asker().answer(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        asker.ended, asker.head, asker.may_retry = False, None, may_retry
        asker.connection.begin(asker, b"second")
        asker.close()
        assert (asker.failed is None) == may_retry


def test_a_body_is_told_as_taken_when_the_socket_takes_it() -> None:
    """Credit returns no sooner."""
    asker = Asker()
    asker.connection.write_body(b"3\r\nabc\r\n", 3)
    assert asker.taken == 3
    asker.connection.pause_writing()
    asker.connection.write_body(b"", 4)
    asker.connection.write_body(b"x", 5)
    assert asker.taken == 3
    asker.connection.resume_writing()
    assert asker.taken == 12
    asker.connection.resume_writing()
    assert asker.taken == 12


def test_pausing_twice_is_pausing_once() -> None:
    """And a closed socket is left alone."""
    asker = Asker()
    asker.connection.pause()
    asker.connection.pause()
    asker.connection.resume()
    asker.connection.resume()
    assert asker.transport.calls == ["pause", "resume"]
    asker.connection.close()
    asker.connection.pause()
    asker.connection.resume()
    assert asker.transport.calls == ["pause", "resume", "close"]
    assert not asker.connection.is_usable


def test_a_connection_that_is_paused_is_pooled_unpaused() -> None:
    """The next answer is read."""
    asker = Asker()
    asker.connection.pause()
    asker.answer(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    assert asker.transport.calls == ["pause", "resume"]


def test_after_an_abort_nothing_is_told() -> None:
    """The asker is gone."""
    asker = Asker()
    asker.connection.abort()
    asker.close()
    assert asker.failed is None
    assert not asker.connection.is_usable
    asker.connection.close()
    asker.connection.write(b"x")
    assert asker.transport.written == b"request"
