"""An engine that is lent: who gets it, what its session knows, and how it is taken back."""

import asyncio
import gc
import hashlib
import itertools
import random
import time
from contextlib import AsyncExitStack

import pytest
from tests.integration.data.carriers import Scene, digest, echo, gateway_of, hang, scene
from tests.integration.data.fabric import PATH, Fabric, Recorder
from tests.integration.data.raw_engine import RawEngine, RawRequest
from tests.integration.data.test_gone_routers import vanish

from opentela.engine.pool import EngineAddress, Exchange
from opentela.engine.serving import Served
from opentela.mesh import channel_tls
from opentela.mesh.channel import Channel
from opentela.router.loans import Loan
from opentela.stream.callee import Callee, CalleeSettings
from opentela.stream.caller import Caller
from opentela.stream.flood import LATE_MAX, FloodGuard
from opentela.stream.loan import ENDED, STALE_S
from opentela.supervisor import gateway as gateways
from opentela.supervisor.gateway import GatewaySettings
from opentela.testing.mesh import HUB, until
from opentela.wire import loans as wire
from opentela.wire import subjects
from opentela.wire.frames import WINDOW_BYTES, FailKind
from opentela.wire.loans import Account, Borrow, Lend, Lendable, Recall

pytestmark = pytest.mark.nats

LENT = "direct, lent"
in_either_direction = pytest.mark.parametrize("way", ["home, lent", LENT])


class Stream:
    """An engine that begins a stream, and ends it when it is told to."""

    def __init__(self) -> None:
        self.may_end = asyncio.Event()

    async def __call__(self, request: RawRequest) -> None:
        request.stream()
        request.chunk(b"data: 1\n\n")
        left = asyncio.ensure_future(request.gone())
        told = asyncio.ensure_future(self.may_end.wait())
        await asyncio.wait((left, told), return_when=asyncio.FIRST_COMPLETED)
        left.cancel()
        told.cancel()
        if self.may_end.is_set():
            request.chunk(b"data: 2\n\n")
            request.chunk(b"")


def loan(fabric: Fabric) -> Loan | None:
    """Return what the router has borrowed and may still use."""
    return fabric.link.loans._open.get(PATH)


async def begun(fabric: Fabric) -> Recorder:
    """Return a request whose answer has begun."""
    asked = fabric.ask()
    await until(lambda: "data" in asked.told)
    return asked


async def registry(made: Scene) -> None:
    """Hear beats as a registry does."""
    client = await made.fabric.client(made.fabric.mesh.access(role="registry", at=HUB))
    client.subscribe(subjects.ALL_BEATS, lambda _: None)
    await client.round_trip()


@in_either_direction
async def test_requests_pass_the_session_by(way: str) -> None:
    """It knows of them all the same: how many, how they ended, and what came from the engine."""
    async with scene(echo, way) as made:
        await made.connect()
        fabric, gateway = made.fabric, made.fabric.gateway
        taken: list[object] = []
        gateway._open = lambda *frame: taken.append(frame)  # type: ignore[method-assign]
        before = gateways._outcomes[ENDED]._value.get()
        for _ in range(3):
            assert (await fabric.ask(b"12345678").wait()).body == b"12345678"
        await until(lambda: gateway.received == 24)
        assert gateways._outcomes[ENDED]._value.get() == before + 3
        assert taken == []
        assert gateway.in_flight == fabric.link.in_flight == 0


@pytest.mark.parametrize("size", [WINDOW_BYTES + 1, 5 * 1024 * 1024])
async def test_a_body_of_many_windows_reaches_the_engine_in_order(size: int) -> None:
    """Over a fresh connection, whose first parts wait for it while the next ones are asked for."""
    body = random.Random(size).randbytes(size)
    async with scene(digest, LENT) as made:
        await made.connect()
        for _ in range(2):
            answer = await made.fabric.ask(body).wait()
            assert answer.body == hashlib.sha256(body).hexdigest().encode()


@pytest.mark.parametrize("way", [LENT, "direct"])
async def test_no_request_waits_for_the_garbage_collector(way: str) -> None:
    """What is left in circles costs a busy process a tenth of its time."""
    kinds = (Exchange, Served, Caller, Callee)

    async def asked() -> None:
        recorder = await made.fabric.ask(b"x").wait()
        recorder.stream = None  # as a router lets go of it

    async with scene(echo, way) as made:
        await made.connect()
        await asked()
        gc.collect()
        gc.disable()
        try:
            before = sum(isinstance(one, kinds) for one in gc.get_objects())
            await asked()
            assert sum(isinstance(one, kinds) for one in gc.get_objects()) <= before
        finally:
            gc.enable()


async def test_nothing_is_lent_unless_both_agree() -> None:
    """Neither by a session that does not lend, nor to a router that does not ask."""
    async with scene(echo, "direct") as made:
        made.fabric.link.loans.start()
        channel = await made.connect()
        assert channel is not None
        channel.publish(wire.encode(Borrow("a" * 32)))
        assert (await made.fabric.ask(b"x").wait()).body == b"x"
        assert loan(made.fabric) is None
    async with scene(echo, "home", gateway=gateway_of(LENT)) as made:
        await made.connect()
        assert (await made.fabric.ask(b"x").wait()).body == b"x"
        assert made.fabric.gateway.lending._given == {}


async def test_a_router_of_another_host_gets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one host's processes make of the same words, another one's cannot."""
    hosts = itertools.count()
    monkeypatch.setattr(channel_tls, "host_token", lambda words: f"{next(hosts)} {words}")
    async with AsyncExitStack() as stack:
        made = await stack.enter_async_context(scene(echo, "home", gateway=gateway_of(LENT)))
        made.fabric.link.loans.start()
        channel = await made.connect()
        assert channel is not None
        # As one would that copied a token from elsewhere, or made one up.
        for token in ("", "ü", "0" * 32, f"0 {wire.token_words('router', PATH.session, 'i')}"):
            channel.publish(wire.encode(Borrow(token)))
        assert (await made.fabric.ask(b"x").wait()).body == b"x"
        assert loan(made.fabric) is None
        assert made.fabric.gateway.lending._given == {}


async def test_an_engine_of_another_host_is_not_asked_for() -> None:
    """Neither where the session says that it is on another host, nor what is no loopback."""
    async with scene(echo, "home") as made:
        fabric = made.fabric
        fabric.link.loans.start()
        await made.connect()
        (channel,) = fabric.gateway.channels._open.values()  # type: ignore[union-attr]
        channel.publish(wire.encode(Lendable("0" * 32)))
        channel.publish(wire.encode(Lend(1, "192.0.2.1", 80, "k", 1, 1)))
        channel.publish(wire.encode(Account(1, 0, {}, 0)))
        assert (await fabric.ask(b"x").wait()).body == b"x"
        assert loan(fabric) is None


@pytest.mark.parametrize("way", ["home", "direct"])
async def test_a_session_cannot_have_the_router_ask_who_else_listens_here(way: str) -> None:
    """Who lends without having shown that it is of this host may mean a service of ours."""
    asked: list[RawRequest] = []

    async def private(request: RawRequest) -> None:
        asked.append(request)
        request.answer(b"for nobody outside")

    async with RawEngine(private) as other, scene(echo, way) as made:
        fabric = made.fabric
        fabric.link.loans.start()
        await made.connect()
        (channel,) = fabric.gateway.channels._open.values()  # type: ignore[union-attr]
        lend = wire.encode(Lend(1, "127.0.0.1", other.address.port, "k", 9, 99))
        for words in (lend, wire.encode(Lendable("0" * 32)), lend):
            channel.publish(words)
            assert (await fabric.ask(b"x").wait()).body == b"x"
        assert asked == []
        assert loan(fabric) is None


async def test_who_knows_the_token_and_is_on_another_network_gets_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As another container of the host might, which could guess it: its address is another."""
    monkeypatch.setattr(Channel, "is_local", property(lambda _: False))
    async with AsyncExitStack() as stack:
        made = await stack.enter_async_context(scene(echo, "direct", gateway=gateway_of(LENT)))
        fabric, gateway = made.fabric, made.fabric.gateway
        fabric.link.loans.start()
        channel = await made.connect()
        assert channel is not None
        words = wire.token_words("router", PATH.session, fabric.link.instance)
        channel.publish(wire.encode(Borrow(channel_tls.host_token(words))))
        assert (await fabric.ask(b"x").wait()).body == b"x"
        assert loan(fabric) is None
        assert gateway.lending._given == {}
        # Offered to the router, which did not ask for it either.
        await until(lambda: fabric.link.loans._asked == {channel: False})


async def test_a_session_that_floods_the_router_with_words_is_cut_off() -> None:
    """Each of them would be answered, or logged, at no cost to who sends it."""
    async with scene(echo, LENT) as made:
        channel = await made.connect()
        assert channel is not None
        fabric = made.fabric
        (other_end,) = fabric.gateway.channels._open.values()  # type: ignore[union-attr]
        flood = (wire.encode(Lendable("0" * 32)), wire.encode(Recall(77, "no such loan")))
        for word in flood:
            for _ in range(LATE_MAX + 1):
                other_end.publish(word)
            await until(lambda: channel._is_over)  # noqa: B023 - awaited at once
            fabric.link._invited_at.clear()
            fabric.link._guard = FloodGuard()
            channel = await made.connect()
            assert channel is not None
            (other_end,) = fabric.gateway.channels._open.values()  # type: ignore[union-attr]


async def test_an_engine_that_is_not_on_loopback_is_not_lent() -> None:
    """A router cannot tell whose address that is."""
    async with scene(echo, "home", gateway=gateway_of(LENT)) as made:
        made.fabric.engine.address = EngineAddress("192.0.2.1", 80)  # type: ignore[misc]
        made.fabric.link.loans.start()
        await made.connect()
        await made.fabric.client(made.fabric.mesh.access(role="registry", at=HUB))
        assert not made.fabric.gateway.lending._may_lend()
        assert loan(made.fabric) is None


async def test_the_key_reaches_the_engine_and_nobody_else() -> None:
    """In the place of the client's own; neither an answer nor a failure shows it."""

    async def script(request: RawRequest) -> None:
        if request.body == b"fail":
            request.reset()
        else:
            request.answer(request.headers["authorization"][:10].encode())

    async with scene(script, LENT, api_key="the-engines-own-key") as made:
        await made.connect()
        fields = (("authorization", "Bearer of-the-client"),)
        answer = await made.fabric.ask(b"x", headers=fields).wait()
        failed = await made.fabric.ask(b"fail", headers=fields).wait()
        assert made.engine.requests[0].headers["authorization"] == "Bearer the-engines-own-key"
        for shown in (answer.headers, answer.body, failed.failure):
            assert "engines-own" not in repr(shown)


@in_either_direction
async def test_a_session_drains_when_the_last_answer_on_loan_has_ended(way: str) -> None:
    """Nothing more begins there once the router has heard of it, and what runs is waited for."""
    stream = Stream()
    async with scene(stream, way) as made:
        await made.connect()
        fabric, gateway = made.fabric, made.fabric.gateway
        running = await begun(fabric)
        gateway.drain()
        assert gateway.in_flight >= 1, "at once, whatever the router has told by then"
        await until(lambda: loan(fabric) is None)
        refused = await fabric.ask().wait()
        assert refused.failure is not None
        assert refused.failure.kind is FailKind.REFUSED
        waiting = asyncio.ensure_future(gateway.wait_idle())
        await until(lambda: not next(iter(gateway.lending._given.values())).book.is_over)
        assert not waiting.done()
        assert gateway.in_flight == 1
        stream.may_end.set()
        await waiting
        assert (await running.wait()).body == b"data: 1\n\ndata: 2\n\n"
        assert gateway.lending._given == {}
        assert fabric.link.loans._all == []


async def test_a_loan_that_is_full_leaves_the_rest_to_the_session() -> None:
    """Which knows of all that runs before it is asked."""
    limits = GatewaySettings(streams_max=2, lends_engine=True)
    async with scene(hang, LENT, gateway=limits) as made:
        await made.connect()
        for _ in range(2):
            made.fabric.ask()
        await until(lambda: len(made.engine.requests) == 2)
        refused = await made.fabric.ask().wait()
        assert refused.failure is not None
        assert refused.failure.kind is FailKind.REFUSED
        assert "2 requests already" in refused.failure.message
        made.fabric.gateway.drain()
        await until(lambda: loan(made.fabric) is None)
        assert made.fabric.gateway.in_flight == 2


@in_either_direction
async def test_what_runs_when_the_channel_breaks_ends_well(way: str) -> None:
    """Nothing new begins on the loan, and the session hears of the end over the mesh."""
    stream = Stream()
    async with scene(stream, way) as made:
        channel = await made.connect()
        assert channel is not None
        fabric, gateway = made.fabric, made.fabric.gateway
        running = await begun(fabric)
        channel.close("broken by a test")
        assert loan(fabric) is None
        (asker,) = {asker for asker, _ in gateway.lending._given}
        await until(lambda: gateway.lending.is_owed_by(asker))
        assert gateway.in_flight == 1
        gateway.drain()
        waiting = asyncio.ensure_future(gateway.wait_idle())
        stream.may_end.set()
        assert (await running.wait()).body == b"data: 1\n\ndata: 2\n\n"
        await waiting
        assert gateway.in_flight == 0


def _untold(loan: Loan) -> bool:
    """Tell a session nothing."""
    return False


def _lost(payload: bytes) -> bool:
    """Lose a frame on its way."""
    return True


async def test_what_a_router_that_died_had_begun_is_not_waited_for() -> None:
    """Its connections to the engine ended with it; the mesh says that it is not there."""
    async with scene(Stream(), LENT) as made:
        channel = await made.connect()
        assert channel is not None
        await registry(made)
        await begun(made.fabric)
        await vanish(made.fabric)
        made.fabric.link.loans._tell = _untold  # type: ignore[method-assign]
        channel.close("killed")
        gateway = made.fabric.gateway
        gateway.drain()
        await gateway.wait_idle()
        assert gateway.lending._given == {}


async def test_a_last_word_that_was_lost_is_asked_for() -> None:
    """A router that has forgotten a loan says so, and the session waits no longer."""
    async with scene(echo, LENT) as made:
        channel = await made.connect()
        assert channel is not None
        fabric, gateway = made.fabric, made.fabric.gateway
        for _ in range(3):
            await fabric.ask().wait()
        await until(lambda: gateway.received == 6)
        channel.publish = _lost  # type: ignore[method-assign]
        gateway.drain()
        await until(lambda: fabric.link.loans._all == [])
        assert gateway.in_flight == 1
        channel.close("broken by a test")
        await gateway.wait_idle()
        assert gateway.lending._given == {}


async def test_a_router_that_says_nothing_is_gone_in_the_end() -> None:
    """Where nobody can say that it is: no registry, and a mesh that does not reach it."""
    stream = CalleeSettings(router_timeout_s=0.5)
    limits = GatewaySettings(lends_engine=True, stream=stream)
    async with scene(Stream(), LENT, gateway=limits) as made:
        channel = await made.connect()
        assert channel is not None
        await begun(made.fabric)
        made.fabric.link.loans._tell = _untold  # type: ignore[method-assign]
        channel.close("broken by a test")
        gateway = made.fabric.gateway
        gateway.drain()
        assert gateway.in_flight == 1
        await gateway.wait_idle()
        assert gateway.lending._given == {}


async def test_the_engine_is_lent_again_over_the_next_channel() -> None:
    """While what runs on the old loan goes on; each is accounted for by itself."""
    stream = Stream()
    async with scene(stream, LENT) as made:
        channel = await made.connect()
        assert channel is not None
        fabric = made.fabric
        first, running = loan(fabric), await begun(fabric)
        channel.close("broken by a test")
        fabric.link._invited_at.clear()
        await made.connect()
        assert loan(fabric) is not first
        again = await begun(fabric)
        assert made.fabric.gateway.lending._number == 2
        stream.may_end.set()
        for one in (running, again):
            assert (await one.wait()).told[-1] == "end"
        await until(lambda: fabric.gateway.in_flight == 0)
        assert len(fabric.link.loans._all) == 1


async def test_an_engine_that_is_not_there_is_left_to_the_session() -> None:
    """The request may be tried again over the channel, and what comes next takes it as well."""
    async with scene(echo, LENT) as made:
        await made.connect()
        await made.engine.stop()
        failure = (await made.fabric.ask().wait()).failure
        assert failure is not None
        assert (failure.kind, failure.definite) == (FailKind.CHANNEL_LOST, True)
        failure = (await made.fabric.ask().wait()).failure
        assert failure is not None
        assert (failure.kind, failure.definite) == (FailKind.ENGINE_UNREACHABLE, True)


async def test_what_would_not_be_finished_is_not_begun() -> None:
    """A router learns how long answers take, and how long the session stays, also when it moves."""

    async def slow(request: RawRequest) -> None:
        request.answer(b'{"usage":{"completion_tokens":100}}')

    async with scene(slow, LENT) as made:
        fabric, curfew = made.fabric, made.fabric.gateway.curfew
        curfew.leave_at = time.time() + 10_000
        await made.connect()
        body = b'{"max_tokens":100}'
        lent = loan(fabric)
        assert lent is not None
        while not lent.curfew._forecast.is_trusted:
            assert (await fabric.ask(body).wait()).status == 200
        curfew.leave_at = time.time() - 5
        await until(lambda: lent.curfew.leave_at == curfew.leave_at)
        asked = len(made.engine.requests)
        refused = await fabric.ask(body).wait()
        assert refused.failure is not None
        assert refused.failure.kind is FailKind.REFUSED
        assert "the session leaves" in refused.failure.message
        assert refused.failure.definite
        assert len(made.engine.requests) == asked


async def test_old_word_is_no_evidence_against_the_engine() -> None:
    """While a router is frozen nobody knows what comes, and an engine that works is not ill."""
    async with scene(Stream(), LENT) as made:
        await made.connect()
        fabric, gateway = made.fabric, made.fabric.gateway
        await begun(fabric)
        await until(lambda: gateway.in_flight == 1)
        received = gateway.received
        (given,) = gateway.lending._given.values()
        fabric.link.loans._on_report = lambda: None  # type: ignore[method-assign]
        assert fabric.link.loans._report is not None
        fabric.link.loans._report.cancel()
        given.book._heard_at -= 2 * STALE_S
        await until(lambda: gateway.received > received)


async def test_words_that_do_not_fit_are_passed_over() -> None:
    """Rubbish, words of the wrong end, and of loans that are not: nothing follows from them."""
    async with scene(echo, LENT) as made:
        channel = await made.connect()
        assert channel is not None
        fabric = made.fabric
        (other_end,) = fabric.gateway.channels._open.values()  # type: ignore[union-attr]
        for end in (channel, other_end):
            for word in (
                Recall(77, "no such loan", at_once=True),
                Account(77, 1, {}, 1),
                Lend(77, "127.0.0.1", 1, "", 1, 1),
                Borrow(""),
            ):
                end.publish(wire.encode(word))
            end.publish(b"\x0a" + bytes(8) + b"\xc1")
        assert (await fabric.ask(b"x").wait()).body == b"x"
        lent = loan(fabric)
        assert lent is not None
        assert lent.book.number == 1
        assert fabric.gateway.lending._number == 1


async def test_a_router_that_ends_leaves_nothing_behind() -> None:
    """Its requests are withdrawn, the engine's connections close, and the session is idle."""
    async with scene(Stream(), LENT) as made:
        await made.connect()
        await begun(made.fabric)
        made.fabric.link.close()
        await until(lambda: made.fabric.gateway.lending._given == {})
        assert made.fabric.gateway.in_flight == 0
        assert made.fabric.link.in_flight == 0
