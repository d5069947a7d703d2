"""Engines that sessions of this host lend us: their requests go there without a further hop.

A session lends over the channel that it has with us, and recalls there. What we do on a loan it is
told twice a second, over the channel while there is one, else over the mesh; and when nothing more
may begin, at once and with each end. Whatever a loan does not take goes the way it would go
without one.
"""

import asyncio
import hmac
import math
import time
from collections.abc import Callable
from typing import Final

from opentela.core.errors import WireError
from opentela.engine.curfew import Curfew
from opentela.engine.pool import EngineAddress, EngineHttp
from opentela.mesh import channel_tls
from opentela.mesh.channel import Channel
from opentela.mesh.stream_timer import StreamTimer
from opentela.router.loaned_stream import LoanedStream, callee_settings
from opentela.router.ports import StreamSink
from opentela.service import SystemClock
from opentela.stream.caller import Request
from opentela.stream.loan import Borrowed
from opentela.telemetry import metrics
from opentela.telemetry.log import get_logger
from opentela.wire import loans as wire
from opentela.wire.frames import PART_BYTES
from opentela.wire.frames import Loan as LoanFrame
from opentela.wire.loans import Account, Borrow, Lend, Lendable, Recall
from opentela.wire.subjects import SessionPath

log: Final = get_logger()
_CLOCK: Final = SystemClock()

REPORT_EVERY_S: Final = 0.5
"""A session judges by what it is told whether its engine hangs, which takes it far longer."""
GRAIN_S: Final = 0.25
"""How finely deadlines are kept, which requests keep for themselves too."""

LOANS: Final = metrics.gauge("otela_router_loans", "Sessions whose engine is asked directly.")
_streams: Final = metrics.counter(
    "otela_router_loaned_requests_total", "Attempts that went to an engine directly."
)

Publish = Callable[[SessionPath, bytes], bool]
"""Sends a frame to a session over the mesh; False when it is surely not sent."""


class Loan:
    """One engine that is lent.

    Attributes:
        channel: Over which it was lent; None when that is lost.
        curfew: Until when requests may run.
        counted: Requests that metrics tell of.
    """

    def __init__(
        self,
        path: SessionPath,
        channel: Channel,
        terms: Lend,
        *,
        streams: dict[int, LoanedStream],
        on_end: Callable[["Loan"], None],
    ) -> None:
        self.path: Final = path
        self.channel: Channel | None = channel
        self.engine: Final = EngineHttp(EngineAddress(terms.address, terms.port), api_key=terms.key)
        self.curfew: Final = Curfew()
        self.curfew.leave_at = terms.leave_at
        self.book: Final = Borrowed(terms.number, terms.streams_max)
        self.settings: Final = callee_settings(terms.body_bytes_max)
        self.counted = 0
        self._streams = streams
        self._on_end = on_end

    def finish(self, number: int, outcome: str) -> None:
        """Forget a stream that has ended."""
        if self._streams.pop(number, None) is not None:
            self.book.end(time.monotonic(), outcome)
            if self.book.is_closed:
                self._on_end(self)


class Loans:
    """The loans of one router process.

    Args:
        instance: The token of the process.
        publish: How a session is told without a channel.
    """

    def __init__(self, instance: str, publish: Publish) -> None:
        self._instance = instance
        self._publish = publish
        self._open: dict[SessionPath, Loan] = {}
        self._all: list[Loan] = []
        self._asked: dict[Channel, bool] = {}  # for a loan; whether it is still to come
        self._streams: dict[int, LoanedStream] = {}
        self._timer: StreamTimer[int] | None = None
        self._report: asyncio.TimerHandle | None = None

    @property
    def in_flight(self) -> int:
        """Return the streams under way."""
        return len(self._streams)

    def start(self) -> None:
        """Take what is lent, from now on."""
        self._timer = StreamTimer(GRAIN_S, self._deadline_of, self._tick)

    def open(
        self, path: SessionPath, number: int, request: Request, sink: StreamSink
    ) -> LoanedStream | None:
        """Send a request to a session's engine; None when it is to go another way.

        Everything that follows is told to *sink*, after this call.
        """
        loan = self._open.get(path)
        if loan is None:
            return None
        book = loan.book
        if not book.may_begin(time.monotonic()):
            if book.running:
                # So that the session knows of all that runs when it is asked itself.
                self._tell(loan)
            return None
        stream = LoanedStream(loan, number, request, sink, loan.settings)
        if loan.curfew.leave_at:
            refusal = loan.curfew.refusal(_CLOCK.wall(), request.body[:PART_BYTES])
            if refusal:
                stream.refuse(refusal)
                return stream
        book.begin()
        self._streams[number] = stream
        stream.begin()
        assert self._timer is not None
        self._timer.add(number, request.deadline_s or math.inf)
        if self._report is None:
            self._report_later()
        return stream

    def take(self, path: SessionPath | None, channel: Channel | None, frame: LoanFrame) -> bool:
        """Take a session's word, unless nothing is to be borrowed; over the mesh it only recalls.

        Returns:
            Whether it was new; a session says little twice.

        Raises:
            WireError: It is not for a router, or nobody asked for it.
        """
        word = wire.decode(frame)
        if self._timer is None or path is None:
            return False
        if isinstance(word, Recall):
            return self._give_back(path, word)
        if isinstance(word, Lendable) and channel is not None:
            self._borrow(path, channel, word)
        elif isinstance(word, Lend) and channel is not None:
            self._take_loan(path, channel, word)
        else:
            raise WireError(f"a {type(word).__name__} from a session")
        return True

    def lost(self, path: SessionPath, channel: Channel) -> None:
        """Begin nothing more on what was lent over a channel; what runs there ends."""
        self._asked.pop(channel, None)
        for loan in tuple(self._all):
            if loan.channel is channel:
                loan.channel = None
                self._close(path, loan, "the channel was lost")

    def close(self) -> None:
        """Withdraw every stream."""
        if self._timer is not None:
            self._timer.close()
            self._timer = None
        for loan in tuple(self._all):
            self._close(loan.path, loan, "the router ended")
        for stream in tuple(self._streams.values()):
            stream.cancel("the router ended")
        if self._report is not None:
            self._report.cancel()

    # The rest.

    def _words(self, of: str, path: SessionPath) -> str:
        return wire.token_words(of, path.session, self._instance)

    def _borrow(self, path: SessionPath, channel: Channel, word: Lendable) -> None:
        if channel in self._asked:
            raise WireError("an engine is offered twice")
        token = channel_tls.host_token(self._words("session", path))
        is_here = bool(token) and hmac.compare_digest(token.encode(), word.host.encode())
        # A token alone could be guessed by who shares this kernel, but not its network.
        self._asked[channel] = is_here and channel.is_local
        if self._asked[channel]:
            ours = channel_tls.host_token(self._words("router", path))
            channel.publish(wire.encode(Borrow(ours)))

    def _take_loan(self, path: SessionPath, channel: Channel, word: Lend) -> None:
        loan = self._open.get(path)
        if loan is not None and loan.channel is channel and loan.book.number == word.number:
            loan.curfew.leave_at = word.leave_at
            loan.book.streams_max = word.streams_max
            return
        if loan is not None:
            raise WireError("a second loan of one session")
        if not self._asked.get(channel):
            raise WireError("an engine is lent that nobody asked for")
        self._asked[channel] = False
        if not channel_tls.is_loopback(word.address):
            raise WireError("an engine is lent that is not on this host")
        loan = self._open[path] = Loan(
            path, channel, word, streams=self._streams, on_end=self._tell_now
        )
        self._all.append(loan)
        LOANS.inc()
        log.info("engine_borrowed", session=path.session, site=path.site, loan=word.number)

    def _give_back(self, path: SessionPath, word: Recall) -> bool:
        for loan in tuple(self._all):
            if loan.path == path and loan.book.number == word.number:
                was_closed = loan.book.is_closed
                if was_closed:
                    self._tell_now(loan)
                self._close(path, loan, word.reason)
                if word.at_once:
                    self._break_off(loan, word.reason)
                return not was_closed
        # Over, and its last word lost with a channel.
        self._publish(path, wire.encode(Account(word.number, 0, {}, 0, is_closed=True)))
        return False

    def _close(self, path: SessionPath, loan: Loan, reason: str) -> None:
        if loan.book.is_closed:
            return
        loan.book.is_closed = True
        if self._open.get(path) is loan:
            del self._open[path]
        log.info(
            "loan_closed", session=path.session, loan=loan.book.number,
            running=loan.book.running, reason=reason,
        )  # fmt: skip
        self._tell_now(loan)

    def _break_off(self, loan: Loan, reason: str) -> None:
        for stream in tuple(self._streams.values()):
            if stream.host is loan:
                stream.break_off(reason)

    def _tell_now(self, loan: Loan) -> None:
        """Tell how it stands with a loan, and again later while that changes."""
        if self._tell(loan) and loan.book.is_over:
            self._forget(loan)
        elif loan.book.has_news:
            self._report_later()

    def _forget(self, loan: Loan) -> None:
        if loan in self._all:
            self._all.remove(loan)
            loan.engine.close()
            LOANS.dec()

    def _tell(self, loan: Loan) -> bool:
        account = loan.book.account()
        _streams.inc(account.begun - loan.counted)
        loan.counted = account.begun
        word = wire.encode(account)
        if loan.channel is not None:
            is_told = loan.channel.publish(word)
        else:
            is_told = self._publish(loan.path, word)
        if is_told:
            loan.book.told(account)
        return is_told

    def _report_later(self) -> None:
        if self._report is None and self._timer is not None:
            loop = asyncio.get_running_loop()
            self._report = loop.call_later(REPORT_EVERY_S, self._on_report)

    def _on_report(self) -> None:
        self._report = None
        for loan in tuple(self._all):
            if loan.book.has_news:
                self._tell_now(loan)

    def _deadline_of(self, number: int) -> float | None:
        stream = self._streams.get(number)
        return None if stream is None else stream.next_deadline()

    def _tick(self, number: int) -> None:
        stream = self._streams.get(number)
        if stream is not None:
            stream.tick()
