"""Channels between a router and a session, whoever of the two dials: requests pass no server."""

import asyncio
import hashlib
import socket

import pytest
from tests.integration.data.carriers import CHANNELS, Scene, digest, echo, hang, scene
from tests.integration.data.fabric import PATH, Fabric
from tests.integration.data.raw_engine import RawRequest

from opentela.core.errors import WireError
from opentela.mesh.channel import Channel
from opentela.mesh.identity import Identity
from opentela.stream.caller import CallerSettings
from opentela.testing.mesh import UNTIL_TIMEOUT_S, until
from opentela.wire import channel as wire
from opentela.wire import frames
from opentela.wire.frames import FailKind, Invite

pytestmark = pytest.mark.nats

MIB = 1 << 20
over_either = pytest.mark.parametrize("way", CHANNELS)
in_either_direction = pytest.mark.parametrize("way", ["home", "direct"])


def mesh_frames(fabric: Fabric) -> list[bytes]:
    """Return what the link publishes on the mesh from now on, as it comes."""
    sent: list[bytes] = []
    publish = fabric.router_client.publish

    def noted(subject: str, payload: bytes, reply: str = "") -> bool:
        sent.append(payload)
        return publish(subject, payload, reply)

    fabric.router_client.publish = noted  # type: ignore[method-assign]
    return sent


async def settled(made: Scene) -> Channel:
    """Return the channel once it is there."""
    channel = await made.settle()
    assert channel is not None
    return channel


@over_either
async def test_requests_take_the_channel_once_there_is_one(way: str) -> None:
    """Nothing of them passes the mesh, large bodies included."""
    async with scene(digest, way) as made:
        await settled(made)
        sent = mesh_frames(made.fabric)
        body = bytes(range(256)) * (4 * MIB // 256)
        answer = await made.fabric.ask(body).wait()
        assert answer.body == hashlib.sha256(body).hexdigest().encode()
        assert sent == []
        assert made.fabric.link.in_flight == made.fabric.gateway.in_flight == 0


@in_either_direction
async def test_a_request_in_between_takes_the_mesh(way: str) -> None:
    """The first one does not wait for the call."""
    async with scene(echo, way) as made:
        assert made.channel is None
        answer = await made.fabric.ask(b"first").wait()
        assert answer.body == b"first"


@over_either
async def test_who_cannot_prove_to_be_the_session_gets_no_channel(way: str) -> None:
    """It is answered over the mesh, where its permissions are its proof."""
    async with scene(echo, way, known=Identity.new()) as made:
        await made.fabric.ask().wait()
        await until(lambda: made.refused == 1)
        assert made.channel is None
        assert (await made.fabric.ask(b"again").wait()).body == b"again"


async def test_a_session_proves_nothing_to_who_did_not_invite_it() -> None:
    """The invitation names the router's key; another one that listens there is left."""
    async with scene(echo, "home") as made:
        host, port = made.address
        made.fabric.link.invite(Invite(0, (f"{host}:{port}",), Identity.new().key))
        await made.fabric.ask().wait()
        await until(lambda: made.refused == 1)
        assert made.channel is None


@pytest.mark.parametrize("way", ["direct", "direct, tls"])
async def test_a_router_that_proves_another_key_than_it_said_is_not_let_in(way: str) -> None:
    """Its word over the mesh is what makes a key a router's."""
    async with scene(echo, way) as made:
        stranger, told = Identity.new(), made.router.key
        assert made.door is not None
        made.dial(made.door.offer, known=made.key.key, router=stranger)
        tell = made.fabric.link.tell_key
        made.fabric.link.tell_key = lambda path, key: tell(path, told)  # type: ignore[method-assign]
        await made.fabric.ask().wait()
        await until(lambda: made.refused == 1)
        assert made.channel is None
        made.dialler.close()


async def test_who_says_nothing_over_the_mesh_is_not_let_in() -> None:
    """A key opens no door: it waits for the mesh's word, and no longer than a greeting may."""
    async with scene(echo, "direct") as made:
        made.fabric.link.tell_key = lambda path, key: None  # type: ignore[method-assign]
        await made.fabric.ask().wait()
        await until(lambda: made.refused == 1)
        assert made.channel is None
        assert made.door is not None
        assert not made.door._greetings
        assert not made.door._waiting


async def test_a_router_that_calls_before_its_word_arrives_waits_for_it() -> None:
    """A connection may be faster than the mesh."""
    async with scene(echo, "direct") as made:
        tell, told = made.fabric.link.tell_key, []
        made.fabric.link.tell_key = lambda path, key: told.append((path, key))  # type: ignore[method-assign]
        await made.fabric.ask().wait()
        assert made.door is not None
        door = made.door
        await until(lambda: len(door._waiting) == 1)
        tell(*told[0])
        await until(lambda: made.channel is not None)
        assert (await made.fabric.ask(b"in").wait()).body == b"in"


async def test_a_door_that_is_shut_leaves_the_session_to_call_home() -> None:
    """The router tried; the next way is taken without another request."""
    async with scene(echo, "direct") as made:
        assert made.door is not None
        made.door.close()
        made.way = "home"
        asks = made.fabric.link.invite_home
        invited: list[object] = []
        made.fabric.link.invite_home = lambda path: (invited.append(path), asks(path))[1]  # type: ignore[method-assign, func-returns-value]
        await made.fabric.ask().wait()
        await until(lambda: invited == [PATH])
        assert (await made.fabric.ask(b"still").wait()).body == b"still"


@in_either_direction
async def test_an_engine_is_stopped_over_the_channel(way: str) -> None:
    """Cancellation goes the way of the request."""
    async with scene(hang, way) as made:
        await made.connect()
        asked = [made.fabric.ask(), made.fabric.ask()]
        await until(lambda: len(made.engine.requests) == len(asked))
        for one in asked:
            assert one.stream is not None
            one.stream.cancel("the client left")
        await until(lambda: made.fabric.gateway.in_flight == 0)


@in_either_direction
async def test_what_a_lost_channel_carried_fails_and_the_next_request_takes_the_mesh(
    way: str,
) -> None:
    """Both ends know; the engine is stopped; then the session is called again."""
    async with scene(hang, way) as made:
        first = made.fabric.ask()
        await until(lambda: made.channel is not None)
        channel = made.channel
        asked = made.fabric.ask()
        await until(lambda: len(made.engine.requests) == 2)
        assert channel is not None
        channel.close("the test cut it")
        await asked.wait()
        assert asked.failure is not None
        assert (asked.failure.kind, asked.failure.retryable) == (FailKind.CHANNEL_LOST, True)
        assert not asked.failure.definite
        await until(lambda: made.fabric.gateway.in_flight == 1)
        assert first.failure is None, "what the mesh carries goes on"
        assert made.channel is None


async def test_a_router_that_ends_stops_its_engines_at_once() -> None:
    """The connection says it: nothing is waited for."""
    async with scene(hang, "home") as made:
        await made.connect()
        made.fabric.ask()
        await until(lambda: made.fabric.gateway.in_flight == 1)
        channel = made.channel
        assert channel is not None
        assert channel._transport is not None
        channel._transport.abort()
        # A router that only fell silent would be given up after 5 s.
        await until(lambda: made.fabric.gateway.in_flight == 0, timeout_s=4.0)


@in_either_direction
async def test_rubbish_on_the_port_ends_the_connection_and_nothing_else(way: str) -> None:
    """Scanners, browsers, and who says hello and falls silent."""
    async with scene(echo, way) as made:
        host, port = made.address
        pairs = []
        for words in (b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 64, b"\0\0\0\x01\xc1", b""):
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(words)
            pairs.append((reader, writer))
        for reader, writer in pairs:
            async with asyncio.timeout(UNTIL_TIMEOUT_S):
                assert await reader.read() == b""
            writer.close()
        assert (made.door or made.port)._greetings == {}
        assert (await settled(made)).peer == PATH.session


@pytest.mark.parametrize("way", ["home, tls", "direct, tls"])
async def test_who_is_mute_where_tls_is_spoken_is_closed(way: str) -> None:
    """It cannot hold a socket for longer than a greeting may take."""
    async with scene(echo, way) as made:
        reader, writer = await asyncio.open_connection(*made.address)
        async with asyncio.timeout(UNTIL_TIMEOUT_S):
            with pytest.raises(ConnectionError):
                raise ConnectionResetError if not await reader.read() else AssertionError
        writer.close()


async def test_a_channel_that_was_closed_before_it_was_made_keeps_no_socket() -> None:
    """Its greeting took too long, or there were too many, while TLS was agreed on."""
    gone = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        gone.set()
        writer.close()

    async with scene(echo, "home") as made:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        channel = Channel(made.port)
        channel.close("early")
        host, port = server.sockets[0].getsockname()[:2]
        await asyncio.get_running_loop().create_connection(lambda: channel, host, port)
        async with asyncio.timeout(UNTIL_TIMEOUT_S):
            await gone.wait()
        server.close()


async def test_an_address_that_answers_nothing_does_not_hide_the_next() -> None:
    """Something listens there, and is no router."""

    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with scene(echo, "home") as made:
        server = await asyncio.start_server(mute, "127.0.0.1", 0)
        addresses = [server.sockets[0].getsockname(), made.address]
        told = tuple(f"{host}:{port}" for host, port in addresses)
        made.fabric.link.invite(Invite(0, told, made.router.key))
        await made.fabric.ask().wait()
        await until(lambda: made.channel is not None)
        server.close()


@in_either_direction
async def test_whoever_calls_again_replaces_the_channel(way: str) -> None:
    """What the older one carried fails; there is never a second."""
    async with scene(echo, way) as made:
        before = await settled(made)
        owner = made.port if way == "home" else made.dialler
        made.fabric.link.attach(PATH, after := Channel(owner))
        assert made.channel is after
        assert not before.publish(b"late")
        after.close("done")


async def test_the_mesh_is_taken_while_a_channel_does_not_answer() -> None:
    """A connection that died without a word costs a request one try, and the next ones none."""
    async with scene(echo, "home") as made:
        channel = await settled(made)
        transport = channel._transport
        assert transport is not None
        transport.pause_reading()
        lost = await made.fabric.ask(b"lost").wait()
        assert lost.failure is not None
        assert lost.failure.kind is FailKind.CHANNEL_LOST, "so that the same session may be tried"
        for body in (b"1", b"2"):
            assert (await made.fabric.ask(body).wait()).body == body
        transport.resume_reading()
        await until(lambda: not channel.is_doubted)
        sent = mesh_frames(made.fabric)
        assert (await made.fabric.ask(b"3").wait()).body == b"3"
        assert sent == []


async def test_the_last_answers_leave_before_the_session_has_ended() -> None:
    """A session that drains counts as busy until its socket has taken them."""

    async def much(request: RawRequest) -> None:
        request.answer(b"y" * 80_000)

    patient = CallerSettings(ack_timeout_s=30.0, idle_timeout_s=30.0)
    async with scene(much, "home", caller=patient) as made:
        channel = await made.connect()
        assert channel is not None
        gateway = made.fabric.gateway
        assert gateway.channels is not None
        (other,) = gateway.channels._open.values()
        for end, option in ((channel, socket.SO_RCVBUF), (other, socket.SO_SNDBUF)):
            assert end._transport is not None
            end._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, option, 8192)
        assert channel._transport is not None
        channel._transport.pause_reading()
        asked = [made.fabric.ask() for _ in range(10)]
        await until(lambda: len(made.engine.requests) == len(asked) and not gateway._streams)
        gateway.drain()
        assert gateway.in_flight == 1
        idle = asyncio.create_task(gateway.wait_idle())
        channel._transport.resume_reading()
        await idle
        gateway.stop()
        for one in asked:
            assert len((await one.wait()).body) == 80_000


@in_either_direction
async def test_who_floods_with_signs_of_life_is_closed(way: str) -> None:
    """They are a few bytes each, and cost us more than the sender."""
    async with scene(echo, way) as made:
        await settled(made)
        channels = made.fabric.gateway.channels
        assert channels is not None
        (other,) = channels._open.values()
        for _ in range(5000):
            other._outbox.send(wire.ALIVE)
        await until(lambda: made.channel is None)
        assert (await made.fabric.ask(b"mesh").wait()).body == b"mesh"


@in_either_direction
async def test_a_frame_larger_than_any_ends_the_channel(way: str) -> None:
    """Nobody holds gigabytes for it."""
    async with scene(echo, way) as made:
        await settled(made)
        channels = made.fabric.gateway.channels
        assert channels is not None
        (other,) = channels._open.values()
        other._outbox.send(b"\x7f\xff\xff\xff")
        await until(lambda: made.channel is None)
        await until(lambda: channels._open == {})


async def test_a_session_takes_no_more_channels_than_it_may() -> None:
    """Further routers are answered over the mesh."""
    async with scene(echo, "home") as made:
        await settled(made)
        channels = made.fabric.gateway.channels
        assert channels is not None
        channels._open.update({f"other{number}": Channel(channels) for number in range(64)})
        with pytest.raises(WireError, match="no more channels"):
            channels.adopt(Channel(channels), "one too many")


@pytest.mark.parametrize("more", [b"\x01x", wire.ACCEPTED])
async def test_more_than_a_greeting_ends_the_channel_and_not_the_router(more: bytes) -> None:
    """A session may say anything together with its last word, or be gone at that moment."""
    async with scene(echo, "direct") as made:
        assert made.door is not None
        let_in = made.door._let_in

        def let_in_and_say_more(channel: Channel, proof: bytes) -> None:
            let_in(channel, proof)
            if channel.peer:
                channel.say(more)
                channel.close("gone", flush=True)

        made.door._let_in = let_in_and_say_more  # type: ignore[method-assign]
        await made.fabric.ask().wait()
        await until(lambda: not made.dialler._dialling)
        await until(lambda: made.channel is None)
        assert not made.dialler._greetings
        assert (await made.fabric.ask(b"again").wait()).body == b"again"


async def test_two_that_dial_each_other_keep_one_channel() -> None:
    """The older one is closed at both ends, and nothing is left waiting on it."""
    async with scene(echo, "home") as made:
        channel = await settled(made)
        channels = made.fabric.gateway.channels
        assert channels is not None
        ((asker, older),) = channels._open.items()
        channels._dialling.add(asker)
        invite = frames.decode(made.fabric.link._invite)
        assert isinstance(invite, Invite)
        await channels._dial(asker, invite)
        await until(lambda: made.channel not in (None, channel))
        assert channels._open[asker] is not older
        assert not older.publish(b"late")
        assert (await made.fabric.ask(b"one").wait()).body == b"one"
