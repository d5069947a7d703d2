"""Whatever bytes come, cut anywhere: they are the requests that a strict reader sees, or refused.

The strict reader is h11, which follows RFC 9112. Where two readers could find the end of a request
in different places, one of them would take part of a body for a request of somebody else.
"""

import random
from collections.abc import Sequence
from typing import Final, NamedTuple

import h11
import pytest

from opentela.router.config import ListenConfig
from opentela.router.intake import Intake
from opentela.router.paths import Paths

CASES: Final = 60
"""A test: a quarter of a second. Two hundred times as many were tried once."""
ODD: Final = 0.04
"""How often each part of a request is not as it should be; a request has some fifteen parts."""


class Room:
    """What a router has for its connections."""

    def __init__(self) -> None:
        self.config = ListenConfig(head_bytes_max=8192)
        self.paths = Paths((), ("/v1/", "/v2/"))
        self.held_bytes = 0


class Request(NamedTuple):
    """What is understood of one request."""

    method: bytes
    target: bytes
    body: bytes


class Odd:
    """Draws requests that are mostly as they should be."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._rng = random.Random(seed)

    def connection(self) -> bytes:
        """Return all that one client sends."""
        count = self._rng.choice((1, 2, 3))
        return b"".join(self._request(b"%d-%d" % (self._seed, number)) for number in range(count))

    def cuts(self, size: int) -> list[int]:
        """Return some places within so many bytes."""
        return sorted(self._rng.sample(range(size + 1), min(4, size)))

    def _one(self, ordinary: bytes, *odd: bytes) -> bytes:
        return self._rng.choice(odd) if self._chance(ODD) else ordinary

    def _chance(self, share: float) -> bool:
        return self._rng.random() < share

    def _end(self) -> bytes:
        return self._one(b"\r\n", b"\n", b"\r", b"\r\r\n", b" \r\n", b"\0\r\n")

    def _request(self, mark: bytes) -> bytes:
        body = b'{"model":"m","mark":"%b"}' % mark if self._chance(0.8) else b""
        start = b"".join(
            (
                self._one(b"", b"\0"),
                self._one(b"POST", b"GET", b"HEAD", b"OPTIONS", b"PUT", b"post", b"PO\0ST", b"PRI"),
                self._one(b" ", b"\t", b""),
                self._target(),
                self._one(b" ", b"\t", b""),
                self._one(b"HTTP/1.1", b"HTTP/1.0", b"HTTP/2.0", b"HTTP/0.9", b"http/1.1", b""),
            )
        )
        framing, sent = self._framed(body)
        lines = [*framing, *self._others()]
        self._rng.shuffle(lines)
        head = b"".join(line + self._end() for line in (start, *lines))
        return head + self._one(b"\r\n", b"\n", b"") + sent

    def _target(self) -> bytes:
        return self._one(
            b"/v1/completions",
            b"/v1/models",
            b"/v1/completions?a=b",
            b"*",
            b"/v1/completions\0",
            b"/v1/\xc3\xa4",
            b"/v1/completions /x",
            b"",
        )

    def _framed(self, body: bytes) -> tuple[list[bytes], bytes]:
        """Return lines that say where *body* ends, more or less, and it as it is sent."""
        length = b"Content-Length" + self._colon() + self._length(len(body))
        coding = b"Transfer-Encoding" + self._colon() + self._coding()
        way = self._rng.random()
        if way < 0.45:
            return ([length, length] if self._chance(0.1) else [length]), body
        if way < 0.9:
            sent = self._chunks(body)
            more = b"Content-Length: %d" % len(sent)
            return [coding, *((more,) if self._chance(0.1) else ())], sent
        return [], body

    def _colon(self) -> bytes:
        return self._one(b": ", b":", b":\t", b" : ", b":\x0b", b":\r\n ", b"\0: ")

    def _length(self, size: int) -> bytes:
        text = b"%d" % size
        odd = (b"+%b", b"-%b", b"0%b", b"%b, %%b", b"%b %%b", b"%be0", b"%b;a", b" %b ", b"%b\x0b")
        odd_text = tuple((form % text).replace(b"%b", text) for form in odd)
        return self._one(text, *odd_text, b"", b"%d" % (size + 1), b"%d" % (1 << 64 | size), b"1_0")

    def _coding(self) -> bytes:
        return self._one(
            b"chunked",
            *(b"Chunked", b"identity", b"gzip, chunked", b"chunked, chunked", b"chunked, identity"),
            *(b"xchunked", b"chunked;q=1", b"\tchunked", b"chunked,", b'"chunked"', b"", b"gzip"),
        )

    def _chunks(self, body: bytes) -> bytes:
        sent = []
        while body:
            size = self._rng.randint(1, len(body))
            forms = (b"0x%x", b"+%x", b" %x", b"%x ", b"-%x", b"%xg", b"%x\0", b"1%016x", b"0%x")
            extensions = (b"%x;a=b", b"%x;", b'%x;a="\r\n"', b"%x;a\n", b"%x;\0")
            line = self._one(b"%x", *forms, *extensions) % size
            gap = self._one(b"\r\n", b"\r\n\r\n", b"\n", b"", b"X\r\n")
            sent += [line, self._end(), body[:size], gap]
            body = body[size:]
        sent += [self._one(b"0", b"00", b"0;x", b"-0", b"0x0", b""), self._end()]
        if self._chance(0.2):
            trailers = (b"Content-Length: 5", b"Transfer-Encoding: chunked", b" y", b"x", b"\0")
            sent += [self._one(b"X: y", *trailers), self._end()]
        return b"".join((*sent, self._one(b"\r\n", b"\n", b"")))

    def _others(self) -> list[bytes]:
        lines = [b"Host: a"] * (self._rng.choice((0, 2)) if self._chance(0.1) else 1)
        odd = (b"X\0: 1", b"X (: 1", b"X : 1", b" X: 1", b": 1", b"X", b"X: a\0b", b"X: a\rb", b"")
        wishes = (b"Expect: 100-continue", b"Upgrade: h2c", b"TE: trailers", b"Trailer: X")
        tokens = (b"close", b"close, te", b"upgrade", b"Keep-Alive, Upgrade", b"content-length")
        connection = tuple(b"Connection: " + token for token in tokens)
        if self._chance(0.4):
            lines.append(self._one(b"X: 1", *odd, *wishes, *connection))
        return lines


def ours(data: bytes, cuts: Sequence[int]) -> tuple[list[Request], bool]:
    """Return the requests that the router reads in *data*, and whether it refuses to read on."""
    intake, read, start = Intake(Room()), list[Request](), 0
    for cut in (*cuts, len(data)):
        piece, start = data[start:cut], cut
        if piece and intake.refusal is None:
            whole = intake.whole(piece)
            if whole is None:
                intake.feed(piece)
            else:
                intake.waiting.append(whole)
        while intake.waiting:
            found = intake.waiting.popleft()
            read.append(Request(found.head.method, found.head.target, found.body[:]))
            if not found.head.keep_alive:
                return read, False
    return read, intake.refusal is not None


def theirs(data: bytes) -> list[Request]:
    """Return the requests that h11 reads in *data*, up to what it refuses."""
    reader, read = h11.Connection(h11.SERVER), list[Request]()
    reader.receive_data(data)
    head: h11.Request | None = None
    body = b""
    try:
        while reader.their_state is not h11.MUST_CLOSE:
            event = reader.next_event()
            if isinstance(event, h11.Request):
                head, body = event, b""
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage) and head is not None:
                read.append(Request(head.method, head.target, body))
                reader.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
                reader.send(h11.EndOfMessage())
                if reader.our_state is h11.MUST_CLOSE:
                    break
                reader.start_next_cycle()
            else:
                break
    except h11.RemoteProtocolError:
        pass
    return read


@pytest.mark.parametrize("first", range(0, 10 * CASES, CASES))
def test_a_connection_is_read_as_a_strict_reader_would(first: int) -> None:
    """Never another request than that reader's, never another body; at most fewer of them."""
    count = 0
    for seed in range(first, first + CASES):
        data = Odd(seed).connection()
        read, expected = ours(data, ())[0], theirs(data)
        assert read == expected[: len(read)], (seed, data)
        count += len(read)
    assert count > CASES // 10


@pytest.mark.parametrize("first", range(0, 10 * CASES, CASES))
def test_where_a_connection_is_cut_changes_nothing(first: int) -> None:
    """The quick reader of plain heads and the parser behind it agree on every byte."""
    for seed in range(first, first + CASES):
        odd = Odd(seed)
        data = odd.connection()
        whole = ours(data, ())
        assert ours(data, range(1, len(data))) == whole, (seed, data)
        assert ours(data, odd.cuts(len(data))) == whole, (seed, data)
