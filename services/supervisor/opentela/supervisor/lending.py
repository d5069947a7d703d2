"""Lends a session's engine to routers of its own host, and knows what they do with it.

A router to which the engine is lent asks it without us. What is ours stays so: it may begin only
what we would have let it begin, tells twice a second what runs and what came, and begins nothing
more when we recall the loan. Until it has said that nothing runs, the engine is not idle; when its
channel breaks it tells so over the mesh, and if it is not there either, nothing runs any more.
"""

import asyncio
import hmac
import time
from typing import Final, Protocol

import msgspec

from opentela.core.errors import WireError
from opentela.engine.curfew import Curfew
from opentela.engine.pool import EngineHttp
from opentela.mesh import channel_tls
from opentela.mesh.channel import Channel
from opentela.mesh.seldom import Seldom
from opentela.stream.callee import CalleeSettings
from opentela.stream.deadlines import STARVED_S
from opentela.stream.loan import Lent
from opentela.supervisor.channels import instance_of
from opentela.telemetry import log as logs
from opentela.telemetry import metrics
from opentela.wire import loans as wire
from opentela.wire.frames import Loan
from opentela.wire.loans import Account, Borrow, Lend, Lendable, Recall
from opentela.wire.subjects import SessionPath

log: Final = logs.get_logger()

LOOK_EVERY_S: Final = 1.0
"""Between two looks whether the terms of a loan have changed, and how it stands with routers that
have lost their channel: what they said last may have been lost with it."""

LOANS: Final = metrics.gauge("otela_supervisor_loans", "Routers that ask the engine themselves.")


class Terms(Protocol):
    """The limits under which an engine is lent."""

    @property
    def lends_engine(self) -> bool:
        """Whether it is at all."""

    @property
    def streams_max(self) -> int:
        """Requests at once."""

    @property
    def stream(self) -> CalleeSettings:
        """Of each."""


class Lender(Protocol):
    """The gateway, as its loans see it."""

    received: int

    @property
    def engine(self) -> EngineHttp:
        """Return the way to the engine."""

    @property
    def curfew(self) -> Curfew:
        """Return until when requests may run."""

    def ask_over_mesh(self, asker: str, payload: bytes) -> None:
        """Send a frame to a router process; `gone` tells when it is not there."""

    def count(self, outcome: str, count: int) -> None:
        """Count requests that a router ended on its own."""

    def settled(self) -> None:
        """Look whether anything runs."""


class _Given(msgspec.Struct):
    """A loan to one router process.

    Attributes:
        channel: Over which it was given; None when that is lost.
        terms: As the router knows them.
    """

    book: Lent
    channel: Channel | None
    terms: Lend | None = None


class Lending:
    """The loans of one session."""

    def __init__(self, lender: Lender, path: SessionPath, terms: Terms) -> None:
        self._lender = lender
        self._path = path
        self._terms = terms
        self._number = 0
        self._given: dict[tuple[str, int], _Given] = {}
        self._refusal = ""
        self._logs_refusal = Seldom()
        self._look: asyncio.TimerHandle | None = None
        self._looks_at = 0.0
        self._is_reprieved = False

    @property
    def running(self) -> int:
        """Return the requests that run on loans; one at least for each that is not settled."""
        return sum(given.book.running for given in self._given.values())

    def opened(self, channel: Channel) -> None:
        """Let a router that might be of this host know that the engine is lent."""
        if self._may_lend():
            words = self._words("session", instance_of(channel.peer))
            token = channel_tls.host_token(words)
            if token:
                # In a turn of its own, after whatever the greeting still has to say.
                word = wire.encode(Lendable(token))
                asyncio.get_running_loop().call_soon(channel.publish, word)

    def take(self, asker: str, channel: Channel | None, frame: Loan) -> None:
        """Take a router's word; *channel* is the one that it came over, None for the mesh.

        Raises:
            WireError: It is not for a session.
        """
        word = wire.decode(frame)
        if isinstance(word, Account):
            self._account(asker, word)
        elif isinstance(word, Borrow) and channel is not None:
            self._lend(channel, word)
        else:
            raise WireError(f"a {type(word).__name__} from a router")

    def lost(self, channel: Channel) -> None:
        """Note that a channel is gone: its router begins nothing more, and tells over the mesh."""
        for given in self._given.values():
            if given.channel is channel:
                given.channel = None
                given.book.is_recalled = True

    def gone(self, asker: str) -> None:
        """Note that a router process is not there: its requests ended with its connections."""
        for key, given in tuple(self._given.items()):
            if key[0] == asker and given.channel is None:
                self._end(key, given, "the router is gone")
        self._lender.settled()

    def is_owed_by(self, asker: str) -> bool:
        """Return whether a router that lost its channel still has something to tell."""
        return any(key[0] == asker and one.channel is None for key, one in self._given.items())

    def recall(self, reason: str, *, at_once: bool = False) -> None:
        """Have nothing more begun; with *at_once*, what runs is broken off too."""
        self._refusal = reason
        for given in self._given.values():
            if not given.book.is_recalled or at_once:
                given.book.is_recalled = True
                self._tell(given, Recall(given.book.number, reason, at_once))

    def close(self) -> None:
        """Look no more."""
        if self._look is not None:
            self._look.cancel()
            self._look = None
        LOANS.dec(len(self._given))
        self._given.clear()

    # The rest.

    def _may_lend(self) -> bool:
        address = self._lender.engine.address
        is_near = not address.socket and channel_tls.is_loopback(address.host)
        return self._terms.lends_engine and is_near and not self._refusal

    def _words(self, of: str, instance: str) -> str:
        return wire.token_words(of, self._path.session, instance)

    def _lend(self, channel: Channel, word: Borrow) -> None:
        asker = channel.peer
        if any(one.channel is channel for one in self._given.values()) or not self._may_lend():
            return
        token = channel_tls.host_token(self._words("router", instance_of(asker)))
        is_here = bool(token) and hmac.compare_digest(token.encode(), word.host.encode())
        if not is_here or not channel.is_local:
            if self._logs_refusal.now():
                log.warning("loan_refused", session=self._path.session, router=asker)
            return
        self._number += 1
        book = Lent(self._number, time.monotonic())
        self._given[asker, self._number] = _Given(book, channel)
        self._tell_terms()
        LOANS.inc()
        log.info("engine_lent", session=self._path.session, router=asker, loan=self._number)
        self._look_later()

    def _tell_terms(self) -> None:
        """Tell each router that can be told what has changed: how many borrow, or the end."""
        engine, terms = self._lender.engine, self._terms
        lent = [given for given in self._given.values() if given.channel is not None]
        for given in lent:
            lend = Lend(
                given.book.number,
                engine.address.host,
                engine.address.port,
                engine.api_key,
                # Together no more than we would take; who has more asks us.
                max(1, terms.streams_max // len(lent)),
                terms.stream.body_bytes_max,
                self._lender.curfew.leave_at,
            )
            if given.terms != lend and not given.book.is_recalled:
                given.terms = lend
                self._tell(given, lend)

    def _tell(self, given: _Given, word: Lend | Recall) -> None:
        if given.channel is not None:
            given.channel.publish(wire.encode(word))

    def _account(self, asker: str, word: Account) -> None:
        key = (asker, word.number)
        given = self._given.get(key)
        if given is None:
            return  # of one that is over: the last word was said twice
        news = given.book.take(time.monotonic(), word)
        self._lender.received += news.received
        for outcome, count in news.ended.items():
            self._lender.count(outcome, count)
        if given.book.is_over:
            self._end(key, given, "closed")
        self._lender.settled()

    def _end(self, key: tuple[str, int], given: _Given, reason: str) -> None:
        del self._given[key]
        LOANS.dec()
        log.info(
            "loan_ended",
            session=self._path.session,
            router=key[0],
            loan=given.book.number,
            reason=reason,
        )

    def _look_later(self) -> None:
        if self._look is None and self._given:
            loop = asyncio.get_running_loop()
            self._looks_at = time.monotonic() + LOOK_EVERY_S
            self._look = loop.call_later(LOOK_EVERY_S, self._on_look)

    def _on_look(self) -> None:
        self._look = None
        now = time.monotonic()
        # A late look is our own doing: what waits in our sockets is read before anybody is judged.
        # Once: who is always late must still come to a judgement.
        self._is_reprieved = now > self._looks_at + STARVED_S and not self._is_reprieved
        for key, given in tuple(self._given.items()):
            is_silent = given.book.is_stale(now, self._terms.stream.router_timeout_s)
            if is_silent and not self._is_reprieved:
                # As on any stream. One that lives, and only does not tell, is to stop.
                self._tell(given, Recall(given.book.number, "the router is silent", at_once=True))
                self._end(key, given, "the router is silent")
                continue
            if given.channel is None:
                recall = Recall(given.book.number, "the channel was lost")
                self._lender.ask_over_mesh(key[0], wire.encode(recall))
            if given.book.is_stale(now):
                # Nobody tells what comes: an engine is not found to hang by that.
                self._lender.received += 1
        self._tell_terms()
        self._lender.settled()
        self._look_later()
