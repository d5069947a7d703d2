"""The way to the engine, without a mesh: sockets of every kind, and what connections do."""

import asyncio
from pathlib import Path

import pytest
from tests.integration.data.raw_engine import RawEngine, RawRequest

from opentela.core.errors import WireError
from opentela.engine import pool
from opentela.engine.connection import AnswerHead
from opentela.engine.pool import EngineAddress, EngineHttp, EngineSettings
from opentela.testing.mesh import until
from opentela.wire.frames import FailKind, Open


class Listener:
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.head: AnswerHead | None = None
        self.body = b""
        self.taken = 0
        self.failed: tuple[FailKind, str] | None = None
        self.done = asyncio.Event()

    def on_connected(self) -> None:
        self.told.append("connected")

    def on_took(self, size: int) -> None:
        self.taken += size

    def on_read(self, head: AnswerHead | None, data: bytes, *, ended: bool) -> None:
        self.told.append("read")
        self.head = head or self.head
        self.body += data
        if ended:
            self.done.set()

    def on_failed(self, kind: FailKind, message: str) -> None:
        self.failed = (kind, message)
        self.done.set()


def post(body: bytes = b"{}", *, more: bool = False, length: int = 0) -> Open:
    return Open(1, "POST", "/", (), body, more=more, length=length)


async def echo(request: RawRequest) -> None:
    request.answer(request.body)


async def answered(engine: EngineHttp, request: Open) -> Listener:
    listener = Listener()
    engine.ask(request, listener)
    await listener.done.wait()
    return listener


async def test_an_engine_behind_a_unix_socket_is_reached(tmp_path: Path) -> None:
    """As vLLM offers it."""
    async with RawEngine(echo, socket=tmp_path / "engine.sock") as engine:
        client = EngineHttp(engine.address, api_key="secret")
        assert (await answered(client, post())).body == b"{}"
        assert engine.requests[0].headers["host"] == "localhost"
        assert engine.requests[0].headers["authorization"] == "Bearer secret"
        client.close()


async def test_a_socket_that_does_not_exist_is_unreachable(tmp_path: Path) -> None:
    """With a reason."""
    listener = await answered(EngineHttp(EngineAddress(socket=str(tmp_path / "none"))), post())
    assert listener.failed is not None
    assert listener.failed[0] is FailKind.ENGINE_UNREACHABLE


async def test_a_port_that_nobody_listens_on_is_unreachable() -> None:
    """At once."""
    async with RawEngine(echo) as engine:
        address = engine.address
    listener = await answered(EngineHttp(address), post())
    assert listener.failed is not None
    assert listener.failed[0] is FailKind.ENGINE_UNREACHABLE


async def test_an_address_of_the_next_protocol_is_written_as_its_field_wants_it() -> None:
    """In brackets."""
    assert EngineAddress("::1", 80).shown == "[::1]:80"


@pytest.mark.parametrize("length", [0, 11])
async def test_a_body_in_parts_arrives_whole(length: int) -> None:
    """In chunks, or under its length; parts that come before the connection wait for it."""
    async with RawEngine(echo) as engine:
        client = EngineHttp(engine.address)
        await answered(client, post())  # leaves a connection, which is not taken for this
        listener = Listener()
        exchange = client.ask(post(b"hello", more=True, length=length), listener)
        exchange.write(b" wor", more=True)
        await until(lambda: listener.taken == 9)
        exchange.write(b"ld", more=False)
        await listener.done.wait()
        assert listener.body == b"hello world"
        assert listener.taken == 11
        assert len(engine.connections) == 2
        client.close()


async def test_a_request_aborted_before_its_connection_stands_is_never_sent() -> None:
    """Nor does anybody hear of it."""
    async with RawEngine(echo) as engine:
        client = EngineHttp(engine.address)
        listener = Listener()
        exchange = client.ask(post(), listener)
        exchange.pause()
        exchange.abort()
        exchange.abort()
        exchange.write(b"x", more=False)
        assert (await answered(client, post(b"next"))).body == b"next"
        assert [request.body for request in engine.requests] == [b"next"]
        assert listener.told == []
        client.close()


async def test_a_request_that_is_over_leaves_its_connection_to_others() -> None:
    """Its abort must not end the next one's."""
    async with RawEngine(echo) as engine:
        client = EngineHttp(engine.address)
        first, second = Listener(), Listener()
        over = client.ask(post(), first)
        await first.done.wait()
        client.ask(post(b"second"), second)
        over.abort()
        over.pause()
        over.resume()
        await second.done.wait()
        assert second.body == b"second"
        assert len(engine.connections) == 1
        client.close()


async def test_pausing_before_the_connection_stands_holds_the_answer() -> None:
    """Until it is resumed."""
    async with RawEngine(echo) as engine:
        client = EngineHttp(engine.address)
        listener = Listener()
        exchange = client.ask(post(), listener)
        exchange.pause()
        await until(lambda: len(engine.requests) == 1)
        # A second answer on another connection has come by then.
        assert (await answered(client, post(b"other"))).body == b"other"
        assert listener.body == b""
        exchange.resume()
        await listener.done.wait()
        assert listener.body == b"{}"
        client.close()


async def test_only_so_many_connections_are_kept() -> None:
    """The rest is closed after use."""
    async with RawEngine(echo) as engine:
        client = EngineHttp(engine.address, settings=EngineSettings(idle_max=2))
        listeners = [Listener() for _ in range(5)]
        for listener in listeners:
            client.ask(post(), listener)
        for listener in listeners:
            await listener.done.wait()
        await until(lambda: sum(one.closed.is_set() for one in engine.connections) == 3)
        client.close()
        await until(lambda: all(one.closed.is_set() for one in engine.connections))


async def test_closing_gives_up_what_is_being_dialled() -> None:
    """Nothing is left behind."""
    async with RawEngine(echo) as engine:
        client = EngineHttp(engine.address)
        client.ask(post(), Listener())
        client.close()
        await until(lambda: not client._dialling)


async def test_what_http_cannot_carry_is_not_sent() -> None:
    """The caller is told at once."""
    with pytest.raises(WireError):
        EngineHttp(EngineAddress()).ask(Open(1, "GET", "no path", ()), Listener())


async def test_an_engine_that_dies_of_a_request_may_have_begun_it() -> None:
    """Also where the request had a connection that was kept, and a fresh one is refused."""

    async def script(request: RawRequest) -> None:
        if request.body == b"fatal":
            assert engine._server is not None
            engine._server.close()
            request.reset()
        else:
            request.answer(b"ok")

    async with RawEngine(script) as engine:
        client = EngineHttp(engine.address)
        await answered(client, post())
        listener = await answered(client, post(b"fatal"))
        assert listener.failed is not None
        assert listener.failed[0] is FailKind.ENGINE_LOST
        client.close()


async def test_a_connection_that_was_not_stale_is_not_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An engine that closes it after a while had the request, and is not given it twice."""
    monkeypatch.setattr(pool, "CLOSED_WITHIN_S", -1.0)

    async def script(request: RawRequest) -> None:
        if request.body == b"fatal":
            request.reset()
        else:
            request.answer(b"ok")

    async with RawEngine(script) as engine:
        client = EngineHttp(engine.address)
        await answered(client, post())
        listener = await answered(client, post(b"fatal"))
        assert listener.failed is not None
        assert listener.failed[0] is FailKind.ENGINE_LOST
        assert len(engine.requests) == 2
        client.close()


async def test_two_stale_connections_in_a_row_are_one_too_many() -> None:
    """A request is sent twice at most."""

    async def script(request: RawRequest) -> None:
        if request.body == b"fail":
            request.reset()
        else:
            request.answer(b"ok")

    async with RawEngine(script) as engine:
        client = EngineHttp(engine.address)
        await answered(client, post())
        listener = await answered(client, post(b"fail"))
        assert listener.failed is not None
        assert listener.failed[0] is FailKind.ENGINE_LOST
        assert len(engine.requests) == 3
