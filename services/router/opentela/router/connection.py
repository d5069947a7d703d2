"""One client connection: reads requests in order, and writes their answers in that order.

Requests are answered here, without a task and with as few writes as there are loop turns with
something to write: those to engine paths by an exchange, every other one by a page.
"""

import asyncio
import socket
import struct
from typing import Final, cast

from opentela.router import http1
from opentela.router.exchange import Exchange
from opentela.router.fault import Fault, envelope
from opentela.router.gate import Gate
from opentela.router.http1 import Framing
from opentela.router.intake import Intake
from opentela.router.reading import TOO_SLOW, Reading

PIPELINE_MAX: Final = 8
"""Requests of one connection that wait for their turn before reading stops."""
OUT_BYTES_MAX: Final = 64 * 1024
"""Bytes of one loop turn that are gathered before the session must wait; asyncio's own mark."""
TURN_BYTES: Final = 128 * 1024
"""A read of so many bytes is the last one of its connection in a turn of the loop: otherwise libuv
reads up to 32 times, 250 KB each, before it looks at anybody else."""
LINGER_TIMES: Final = 6
"""A client that goes on sending what was refused is read for so many times `linger_s` at most."""

_RESET: Final = struct.pack("ii", 1, 0)
"""Linger on, for no time: closing sends a reset."""
_JSON: Final = b"content-type: application/json\r\n"


class Connection(asyncio.Protocol):
    """An HTTP/1.1 server for one client; also the `Client` that an exchange writes to."""

    __slots__ = (
        "_answering", "_exchange", "_framing", "_gate", "_has_promised", "_head", "_intake",
        "_is_advancing", "_is_closed", "_is_due", "_is_full", "_is_lingering",
        "_is_reading_paused", "_linger_until", "_out", "_out_bytes", "_read_at", "_since",
        "_transport", "_unsent_bytes",
    )  # fmt: skip

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._transport: asyncio.Transport | None = None
        self._intake = Intake(gate)
        self._exchange: Exchange | None = None
        self._answering: Reading | None = None
        self._since = gate.now()
        self._read_at = self._since
        self._is_advancing = False
        self._is_closed = False
        self._is_reading_paused = False
        self._is_lingering = False
        self._linger_until = 0.0
        self._out: list[bytes] = []
        self._head = b""
        self._framing = Framing.CHUNKED
        self._out_bytes = 0
        self._unsent_bytes = 0  # when last looked at
        self._is_due = False
        self._is_full = False
        self._has_promised = False

    # Transport ---------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, unless there are too many connections."""
        # uvloop's transports are not instances of asyncio's, only alike.
        self._transport = cast("asyncio.Transport", transport)
        if not self._gate.admit(self):
            self._is_closed = True
            self._transport.abort()

    def connection_lost(self, _error: Exception | None) -> None:
        """Stop what is under way for a client that is gone."""
        self._is_closed = True
        self._transport = None
        self._gate.forget(self)
        self._intake.let_go()
        self._intake.waiting.clear()
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.client_gone()

    def data_received(self, data: bytes) -> None:
        """Read on."""
        if len(data) >= TURN_BYTES:
            self._let_others()
        intake = self._intake
        now = self._gate.now()
        if self._answering is None and not (self._is_reading_paused or self._is_closed):
            reading = None if self._is_full else intake.whole(data)
            if reading is not None:
                self._since = self._read_at = now
                self._take(reading)
                return
        if intake.refusal is not None or self._is_closed:
            self._since = now
            return  # the rest of what was refused
        self._read_at = now
        if intake.reading is None or intake.reading.has_head:
            self._since = now
        intake.feed(data)
        if intake.reading is not None and not intake.reading.began_at:
            intake.reading.began_at = now
        self._advance()

    def _let_others(self) -> None:
        """Read on in the turn after the next one, which is all for others."""
        if self._transport is not None and not self._is_reading_paused:
            self._transport.pause_reading()
            loop = self._gate.loop
            loop.call_soon(loop.call_soon, self._read_on)

    def _read_on(self) -> None:
        transport = self._transport
        if transport is not None and not (self._is_reading_paused or transport.is_closing()):
            transport.resume_reading()

    def pause_writing(self) -> None:
        """Let the exchange know that the client does not keep up."""
        self._is_full = True

    def resume_writing(self) -> None:
        """Let the exchange go on."""
        self._is_full = False
        if self._exchange is not None:
            self._exchange.resumed()
        else:
            self._advance()

    # Turns -------------------------------------------------------------------

    @property
    def _is_free(self) -> bool:
        # Who asks and asks and takes no answer would fill the memory with them.
        return self._answering is None and not self._is_full

    @property
    def _is_idle(self) -> bool:
        return self._answering is None and not self._intake.waiting

    def _advance(self) -> None:
        """Take the next request, when no other is being answered and answers are taken, too."""
        if self._is_advancing:
            return
        self._is_advancing = True
        while self._is_free and self._intake.waiting and not self._is_closed:
            self._take(self._intake.waiting.popleft())
        self._is_advancing = False
        if self._is_closed or self._transport is None:
            return
        if self._is_idle:
            if self._intake.refusal is not None:
                self._refuse(self._intake.refusal)
                return
            if self._intake.reading is not None and self._intake.reading.expects:
                self._write(http1.CONTINUE)
                self._intake.reading.expects = False
        if self._intake.waiting or self._is_reading_paused:
            self._pace_reading(self._transport)

    def _pace_reading(self, transport: asyncio.Transport) -> None:
        # While reading is paused a client that leaves is noticed late: only for who pipelines.
        pause = len(self._intake.waiting) >= (1 if self._is_full else PIPELINE_MAX)
        if pause and not self._is_reading_paused:
            transport.pause_reading()
        elif self._is_reading_paused and not pause:
            transport.resume_reading()
        self._is_reading_paused = pause

    def _take(self, reading: Reading) -> None:
        self._answering = reading
        if reading.head.kind is None:
            page = self._gate.pages.answer(reading)
            self.reply(page.status, page.fields, page.body)
            return
        reading.read_at = self._read_at
        exchange = Exchange(self._gate.desk, self, reading)
        self._exchange = exchange
        try:
            exchange.begin()
        except Exception as error:  # noqa: BLE001 - it is logged there
            # As later: a bug on one request ends that request.
            exchange.crash(error)

    # Client ------------------------------------------------------------------

    @property
    def is_paused(self) -> bool:
        """Whether the client, or this loop turn, has all that it can take."""
        return self._is_full or self._out_bytes > OUT_BYTES_MAX

    def reply(self, status: int, fields: bytes, body: bytes) -> None:
        """Send a whole answer."""
        answering = self._answering
        assert answering is not None
        keep_alive, head = self._keeps_alive(answering), answering.head
        self._write(
            http1.whole(
                status,
                fields,
                body,
                keep_alive=keep_alive,
                is_http10=head.is_http10,
                is_head=head.method == b"HEAD",
            )
        )
        self._done(keep_alive=keep_alive)

    def begin(self, status: int, fields: bytes, data: bytes) -> None:
        """Send the head and the first bytes of an answer."""
        answering = self._answering
        assert answering is not None
        if answering.head.method == b"HEAD":
            self._framing = Framing.ABSENT
        else:
            self._framing = Framing.CLOSED if answering.head.is_http10 else Framing.CHUNKED
        keep_alive = self._has_promised = self._keeps_alive(answering)
        self._head = http1.head(status, fields, self._framing, keep_alive=keep_alive)
        self.send(data)

    def send(self, data: bytes) -> None:
        """Send further bytes, with all others of this loop turn."""
        self._out.append(data)
        self._out_bytes += len(data)
        if not self._is_due:
            self._is_due = True
            self._gate.flusher.add(self)

    def finish(self) -> None:
        """End the answer well."""
        answering = self._answering
        assert answering is not None
        # The next request may be on its way to what the head has promised.
        keep_alive = self._has_promised and not self._gate.closes_idle
        end = http1.LAST_CHUNK if self._framing is Framing.CHUNKED else b""
        self._write(self._gathered() + end)
        self._done(keep_alive=keep_alive and self._framing is not Framing.CLOSED)

    def say_last(self, data: bytes) -> None:
        """Send *data* and end the answer; its head promised a connection for the next request."""
        self._out.append(data)
        self.finish()

    def cut(self) -> None:
        """Reset the connection: its mere end could be taken for the end of an answer."""
        self._out.clear()
        self._is_closed = True
        if self._transport is not None:
            peer = self._transport.get_extra_info("socket")
            if peer is not None:
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self._transport.abort()

    def flush(self) -> None:
        """Write what has gathered."""
        self._is_due = False
        if not self._out:
            return
        was_paused = self._is_full or self._out_bytes > OUT_BYTES_MAX
        self._write(self._gathered())
        if was_paused and not self.is_paused and self._exchange is not None:
            self._exchange.resumed()

    def _gathered(self) -> bytes:
        """Return what is to be written, which is gathered no more."""
        out = self._out
        data = http1.part(out, self._framing) if out else b""
        out.clear()
        self._out_bytes = 0
        if self._head:
            data = self._head + data
            self._head = b""
        return data

    def _write(self, data: bytes) -> None:
        if self._transport is not None and data:
            self._transport.write(data)

    def _keeps_alive(self, reading: Reading) -> bool:
        return reading.head.keep_alive and not self._gate.is_closing

    def _done(self, *, keep_alive: bool) -> None:
        """Turn to the next request, or close."""
        answered, self._answering, self._exchange = self._answering, None, None
        if answered is not None and not self._is_closed:
            self._intake.let_go(answered)
        self._since = self._gate.now()
        if keep_alive:
            if self._is_reading_paused or not self._intake.is_quiet:
                self._advance()
        else:
            self._close()

    # Ends --------------------------------------------------------------------

    def close_if_idle(self) -> None:
        """Close now unless something is being read or answered."""
        if self._is_idle and self._intake.reading is None:
            self._close()

    def check(self, now: float) -> None:
        """Close the connection when it was silent for too long."""
        unsent = self._transport.get_write_buffer_size() if self._transport else 0
        if unsent < self._unsent_bytes:
            self._since = now  # the client reads
        self._unsent_bytes = unsent
        config, silent_s = self._gate.config, now - self._since
        if self._is_lingering:
            if silent_s > config.linger_s or now > self._linger_until:
                self.cut()
        elif self._answering is not None:
            return  # the exchange minds its own time
        elif self._intake.reading is None:
            if silent_s > config.keep_alive_s:
                # Closing waits for who does not read the end of an answer, for ever.
                (self.cut if unsent else self._close)()
        elif (
            silent_s > (config.body_s if self._intake.reading.has_head else config.head_s)
            or now - self._intake.reading.began_at > config.receive_s
        ):
            self._refuse(TOO_SLOW)

    def _refuse(self, fault: Fault) -> None:
        """Answer what was not read to its end, and close so that the client sees the answer.

        Closing with unread bytes resets the connection, and the answer is lost with it: the client
        gets time to read first. "Lingering close", RFC 9112 section 9.6.
        """
        self._intake.refuse(fault)
        gate = self._gate
        gate.desk.journal.request_refused(fault.http_status, fault.message)
        self._is_lingering = True
        self._since = gate.now()
        self._linger_until = self._since + LINGER_TIMES * gate.config.linger_s
        self._intake.let_go()
        self._intake.reading = None
        fields = _JSON + gate.desk.cors(self._intake.origin)
        if fault.retry_after_s:
            fields += b"retry-after: %d\r\n" % fault.retry_after_s
        body = envelope(fault)
        self._write(
            http1.whole(
                fault.http_status,
                fields,
                body,
                keep_alive=False,
                is_http10=False,
                is_head=self._intake.is_head,
            )
        )
        if self._transport is not None and self._transport.can_write_eof():
            self._transport.write_eof()

    def _close(self) -> None:
        self._is_closed = True
        self._intake.waiting.clear()
        if self._transport is not None:
            self._transport.close()
