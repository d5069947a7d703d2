"""What a session lends, and to how many: without a mesh, and with channels that only write down."""

import asyncio
from typing import cast

import pytest

from opentela.core.ids import ProviderId, SessionId, SiteId
from opentela.engine.curfew import Curfew
from opentela.engine.pool import EngineAddress, EngineHttp
from opentela.mesh import channel_tls
from opentela.mesh.channel import Channel
from opentela.supervisor.gateway import GatewaySettings
from opentela.supervisor.lending import Lending
from opentela.wire import frames
from opentela.wire import loans as wire
from opentela.wire.loans import Account, Borrow, Lend, Recall, Word
from opentela.wire.subjects import SessionPath

PATH = SessionPath(ProviderId("p"), SiteId("a"), SessionId("01JDSESSION"))
SETTINGS = GatewaySettings(streams_max=100, lends_engine=True)


class Wrote:
    """A channel to one router of this host, and what was said on it."""

    is_local = True

    def __init__(self, name: str) -> None:
        self.peer = f"otela.v1.reply.r.{name}.p"
        self.said: list[Word] = []

    def publish(self, payload: bytes) -> bool:
        frame = frames.decode(payload)
        assert isinstance(frame, frames.Loan)
        self.said.append(wire.decode(frame))
        return True

    @property
    def share(self) -> int:
        """How many requests it was last lent the engine for."""
        return next(one.streams_max for one in reversed(self.said) if isinstance(one, Lend))


class Lender:
    """A gateway, as its loans see it."""

    def __init__(self) -> None:
        self.received = 0
        self.engine = EngineHttp(EngineAddress("127.0.0.1", 8000))
        self.curfew = Curfew()
        self.lending = Lending(self, PATH, SETTINGS)
        self.asked: list[str] = []

    def ask_over_mesh(self, asker: str, payload: bytes) -> None:
        self.asked.append(asker)

    def count(self, outcome: str, count: int) -> None:
        """Count nothing."""

    def settled(self) -> None:
        """Wait for nothing."""

    def hear(self, channel: Wrote, word: Word) -> None:
        """Take a router's word."""
        frame = frames.decode(wire.encode(word))
        assert isinstance(frame, frames.Loan)
        self.lending.take(channel.peer, cast("Channel", channel), frame)

    def borrow(self, name: str) -> Wrote:
        """Lend to one more router; return its channel."""
        channel = Wrote(name)
        words = wire.token_words("router", PATH.session, name)
        self.hear(channel, Borrow(channel_tls.host_token(words)))
        return channel

    def look(self) -> None:
        """Look at once how the loans stand."""
        handle = self.lending._look
        assert handle is not None
        handle.cancel()
        self.lending._on_look()

    def age(self, by_s: float) -> None:
        """Let all that was heard be older."""
        for given in self.lending._given.values():
            given.book._heard_at -= by_s


@pytest.fixture
async def lender() -> Lender:
    """A session that lends, and has not yet."""
    asyncio.get_running_loop()
    return Lender()


async def test_routers_that_share_an_engine_share_what_it_may_be_asked(lender: Lender) -> None:
    """Together no more than it would take from all; who leaves gives its share back."""
    first = lender.borrow("one")
    assert first.share == 100
    others = [lender.borrow(name) for name in ("two", "three")]
    assert [one.share for one in (first, *others)] == [33, 33, 33]
    lender.hear(others[0], Account(2, 0, {}, 0, is_closed=True))
    lender.look()
    assert [one.share for one in (first, others[1])] == [50, 50]
    assert others[0].share == 33
    for number in range(200):
        lender.borrow(f"more-{number}")
    assert first.share == 1
    lender.lending.close()


async def test_a_router_that_lives_and_does_not_tell_is_taken_for_gone(lender: Lender) -> None:
    """What runs there is broken off: neither draining nor a hung engine is hidden for ever."""
    channel = lender.borrow("one")
    lender.hear(channel, Account(1, 2, {}, 0))
    assert lender.lending.running == 2
    lender.age(SETTINGS.stream.router_timeout_s - 1)
    lender.look()
    assert lender.lending.running == 2
    lender.age(2)
    lender.look()
    assert lender.lending.running == 0
    assert channel.said[-1] == Recall(1, "the router is silent", at_once=True)


async def test_a_session_that_was_frozen_itself_judges_nobody_before_it_has_read(
    lender: Lender,
) -> None:
    """What routers told meanwhile waits in its sockets."""
    channel = lender.borrow("one")
    lender.hear(channel, Account(1, 2, {}, 0))
    lender.age(SETTINGS.stream.router_timeout_s + 1)
    lender.lending._looks_at -= SETTINGS.stream.router_timeout_s
    lender.look()
    assert lender.lending.running == 2
    lender.look()
    assert lender.lending.running == 0


async def test_a_router_that_does_not_answer_a_recall_is_not_waited_for(lender: Lender) -> None:
    """Though its channel lives."""
    lender.borrow("one")
    lender.lending.recall("draining")
    assert lender.lending.running == 1
    lender.age(SETTINGS.stream.router_timeout_s + 1)
    lender.look()
    assert lender.lending.running == 0


async def test_what_was_recalled_is_not_lent_anew(lender: Lender) -> None:
    """Though its terms would have changed since."""
    channel = lender.borrow("one")
    lender.lending.recall("draining")
    lender.curfew.leave_at = 5.0
    lender.look()
    assert [type(one) for one in channel.said] == [Lend, Recall]
    lender.lending.close()
