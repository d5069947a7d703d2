"""One connection to an engine: raw HTTP/1.1, kept alive, one callback for each read."""

import asyncio
from typing import Final, NamedTuple, Protocol, cast

import httptools

from opentela.core.errors import WireError
from opentela.core.familiar import Familiar
from opentela.engine import head as engine_head
from opentela.wire.frames import FailKind, Headers, Open

UNSENT_BYTES_HIGH: Final = 256 * 1024
"""Unsent bytes of a body above which the router gets no more credit: one window."""
HEAD_BYTES_MAX: Final = 64 * 1024
"""Of an answer's head; larger ones would not fit through proxies either."""

_INTERIM: Final = range(100, 200)
_SWITCHING: Final = 101
_NO_BODY: Final = (204, 304)


class AnswerHead(NamedTuple):
    """Status and fields of an answer, as they pass on."""

    status: int
    headers: Headers


class User(Protocol):
    """The exchange that a connection serves."""

    request: Open
    is_sent: bool

    def took(self, size: int) -> None:
        """Note that the socket took *size* bytes of the body."""

    def read(self, head: AnswerHead | None, data: bytes, *, ended: bool) -> None:
        """Take one read."""

    def fail(self, kind: FailKind, message: str) -> None:
        """Note that nothing more comes."""

    def retry(self) -> bool:
        """Try a fresh connection if that repeats nothing; return whether it does."""


class Pool(Protocol):
    """Who keeps connections between two exchanges."""

    def release(self, connection: "EngineConnection") -> None:
        """Keep *connection* for a later request, or close it."""

    def forget(self, connection: "EngineConnection") -> None:
        """Note that a connection is gone."""


class EngineConnection(asyncio.Protocol):
    """One connection to the engine, serving one exchange at a time."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._transport: asyncio.Transport | None = None
        self._exchange: User | None = None
        self._parser = self._new_parser()
        self._uses = 0
        self._untold = 0
        self._is_paused = False
        self._is_held = False
        self._known: tuple[Familiar, AnswerHead] | None = None
        self._reset()

    def _reset(self) -> None:
        self._fields: list[tuple[bytes, bytes]] = []
        self._field_bytes = 0
        self._head: AnswerHead | None = None
        self._parts: list[bytes] = []
        self._has_read = False
        self._has_head = False
        self._has_ended = False
        self._until_close = False
        self._keeps_alive = False

    def _new_parser(self) -> httptools.HttpResponseParser:
        parser = httptools.HttpResponseParser(self)
        # Both framings at once: chunks count, the length is dropped (RFC 9112, section 6.3).
        parser.set_dangerous_leniencies(lenient_chunked_length=True)
        return parser

    @property
    def is_usable(self) -> bool:
        """Whether a request may be sent."""
        return self._transport is not None and not self._transport.is_closing()

    def begin(self, exchange: User, words: bytes) -> None:
        """Serve *exchange*, whose request begins with *words*."""
        assert self._transport is not None
        # First of all: the rest need not wait for.
        self._transport.write(words)
        self._exchange = exchange
        self._uses += 1
        if self._has_read:
            self._reset()

    def write(self, data: bytes) -> None:
        """Send bytes."""
        if self._transport is not None:
            self._transport.write(data)

    def write_body(self, data: bytes, size: int) -> None:
        """Send *size* bytes of a body, framed as *data*, and tell when the socket took them."""
        if data:
            self.write(data)
        self._untold += size
        if not self._is_held:
            self._tell()

    def pause(self) -> None:
        """Read nothing more."""
        if not self._is_paused and self.is_usable:
            assert self._transport is not None
            self._is_paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read again."""
        if self._is_paused and self.is_usable:
            assert self._transport is not None
            self._is_paused = False
            self._transport.resume_reading()

    def close(self) -> None:
        """Close in order."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self._exchange = None
        if self._transport is not None:
            self._transport.abort()

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the socket."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=UNSENT_BYTES_HIGH)

    def data_received(self, data: bytes) -> None:
        """Take one read."""
        exchange = self._exchange
        if exchange is None:
            self.abort()
            return
        if not self._has_read and self._known is not None:
            familiar, head = self._known
            body = _whole_body(data, familiar)
            if body is not None and exchange.request.method != "HEAD":
                # What was read of the last answer is as it was: nothing of this one is kept.
                self._free(exchange, keeps_alive=True)
                exchange.read(head, body, ended=True)
                return
        is_first, self._has_read = not self._has_read, True
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if not self._has_ended:
                cause = error.__context__ if isinstance(error.__context__, WireError) else error
                self._break(FailKind.ENGINE_PROTOCOL, f"the engine's answer is no HTTP: {cause}")
                return
            self._keeps_alive = False
        if not (is_first and self._has_ended and self._keeps_alive):
            self._deliver(exchange)
            return
        first, body_bytes = self._head, sum(map(len, self._parts))
        self._deliver(exchange)
        self._known = _familiar(data, first, body_bytes)

    def pause_writing(self) -> None:
        """Note that the engine takes the body more slowly than it comes."""
        self._is_held = True

    def resume_writing(self) -> None:
        """Note that the engine takes the body again."""
        self._is_held = False
        self._tell()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note the end of the connection, and what it means to the answer."""
        self._transport = None
        self._pool.forget(self)
        exchange, self._exchange = self._exchange, None
        if exchange is None:
            return
        if self._until_close and exc is None:
            exchange.read(None, b"", ended=True)
        elif self._has_read or self._uses == 1 or not exchange.retry():
            where = "in mid-answer" if self._has_read else "before it answered"
            exchange.fail(FailKind.ENGINE_LOST, f"the engine closed the connection {where}")

    # What httptools calls.

    def on_message_begin(self) -> None:
        """Note a message; a second one is none of ours."""
        if self._has_ended:
            raise WireError("an answer that nobody asked for")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a field of the head; those after a body are dropped."""
        self._field_bytes += len(name) + len(value)
        if self._field_bytes > HEAD_BYTES_MAX:
            raise WireError(f"its head exceeds {HEAD_BYTES_MAX} bytes")
        if not self._has_head:
            self._fields.append((name, value))

    def on_headers_complete(self) -> None:
        """Make the head, unless it is only an interim one."""
        status = self._parser.get_status_code()
        if status in _INTERIM:
            if status == _SWITCHING:
                raise WireError("it switches protocols")
            return
        headers, coding, has_length = engine_head.answer_headers(self._fields)
        if coding is not None and coding != "chunked":
            raise WireError(f"a transfer coding that nobody asked for: {coding[:40]!r}")
        self._has_head = True
        self._head = AnswerHead(status, headers)
        assert self._exchange is not None
        if self._exchange.request.method == "HEAD":
            self._has_ended = True
        self._until_close = coding is None and not has_length and status not in _NO_BODY

    def on_body(self, body: bytes) -> None:
        """Keep a part of the body until the read is over."""
        if not self._has_ended:
            self._parts.append(body)

    def on_message_complete(self) -> None:
        """Note the end of the answer, or of an interim head."""
        if not self._has_head:
            self._fields.clear()
            self._field_bytes = 0
            return
        if not self._has_ended:
            self._has_ended = True
            self._keeps_alive = self._parser.should_keep_alive()

    # The rest.

    def _deliver(self, exchange: User) -> None:
        head, self._head = self._head, None
        data = b"".join(self._parts)
        self._parts.clear()
        ended = self._has_ended
        if ended:
            # First, so that the listener's next request finds the connection free.
            self._free(exchange, keeps_alive=self._keeps_alive)
        if head is not None or data or ended:
            exchange.read(head, data, ended=ended)

    def _free(self, exchange: User, *, keeps_alive: bool) -> None:
        """Serve *exchange* no more; another may come."""
        self._exchange = None
        if keeps_alive and exchange.is_sent and self.is_usable:
            if self._is_paused:
                self.resume()
            self._pool.release(self)
        else:
            self.close()

    def _break(self, kind: FailKind, message: str) -> None:
        exchange = self._exchange
        self.abort()
        if exchange is not None:
            exchange.fail(kind, message)

    def _tell(self) -> None:
        size, self._untold = self._untold, 0
        if size and self._exchange is not None:
            self._exchange.took(size)


def _whole_body(data: bytes, familiar: Familiar) -> bytes | None:
    """Return the body of the whole answer that *data* is, if its head is a *familiar* one."""
    digits = familiar.length_in(data)
    body_at = familiar.bytes_but_length + len(digits)
    return data[body_at:] if digits and len(data) - body_at == int(digits) else None


def _familiar(
    data: bytes, head: AnswerHead | None, body_bytes: int
) -> tuple[Familiar, AnswerHead] | None:
    """Return how the head of the whole answer in *data* is known, if its next body has a length.

    The parser has read it: an answer whose body ends elsewhere than its length says is none.
    """
    if head is None or head.status in _NO_BODY:
        return None
    body_at = len(data) - body_bytes
    familiar = Familiar.of(data[:body_at]) if data[:body_at].endswith(b"\r\n\r\n") else None
    if familiar is None or familiar.length_in(data) != b"%d" % body_bytes:
        return None
    return familiar, head
