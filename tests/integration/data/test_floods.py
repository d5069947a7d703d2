"""A session that sends what nobody asked for does not take a router down with it."""

import time

import pytest
from tests.integration.data.builder import Builder
from tests.integration.data.carriers import echo, hang, scene
from tests.integration.data.fabric import PATH

from opentela.stream.flood import LATE_MAX, STRANGE_WEIGHT
from opentela.testing.mesh import until
from opentela.wire import frames, subjects
from opentela.wire.frames import Data, FailKind, Head

pytestmark = pytest.mark.nats


async def test_who_floods_over_the_mesh_is_cut_off_and_logged_once(
    build: Builder, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its streams end, its frames are thrown away unread, and its requests go elsewhere."""
    fabric, engine = await build(hang)
    asked = fabric.ask()
    await until(lambda: len(engine.requests) == 1)
    link = fabric.link
    answers = link._learn(PATH).answers
    late = frames.encode(Data(1, 0, b"x"))
    for _ in range(LATE_MAX + 2000):
        fabric.session_client.publish(answers, late)
    failure = (await asked.wait()).failure
    assert failure is not None
    assert failure.kind is FailKind.PROTOCOL
    refused = (await fabric.ask().wait()).failure
    assert refused is not None
    assert (refused.kind, refused.definite) == (FailKind.REFUSED, True)
    assert capsys.readouterr().out.count("sender_cut_off") == 1


async def test_rubbish_under_names_that_were_never_asked_counts_against_the_provider(
    build: Builder,
) -> None:
    """Made-up names do not multiply what it may send; another provider goes on."""
    fabric, _ = await build(echo)
    instance = fabric.link.instance
    for number in range(LATE_MAX // STRANGE_WEIGHT + 100):
        tail = f"madeup{number}"
        fabric.session_client.publish(
            subjects.reply("router1", PATH.provider, instance, tail), b"\xff"
        )
    guard = fabric.link._guard
    await until(lambda: guard.has_cut)
    assert len(guard._counts) <= 1
    assert fabric.link._is_cut(f"otela.v1.reply.router1.{instance}.p.any")
    assert not fabric.link._is_cut(f"otela.v1.reply.router1.{instance}.q.any")


async def test_who_floods_over_its_channel_loses_it() -> None:
    """And is cut off on the mesh as well."""
    async with scene(echo, "home") as made:
        await made.connect()
        channels = made.fabric.gateway.channels
        assert channels is not None
        (other,) = channels._open.values()
        for _ in range(LATE_MAX // STRANGE_WEIGHT + 100):
            other.publish(b"\xff")
        await until(lambda: made.channel is None)
        failure = (await made.fabric.ask().wait()).failure
        assert failure is not None
        assert failure.kind is FailKind.REFUSED


async def test_empty_frames_on_a_stream_that_runs_are_bounded(build: Builder) -> None:
    """They would hold the router busy without being late or strange."""
    fabric, engine = await build(hang)
    asked = fabric.ask()
    await until(lambda: len(engine.requests) == 1)
    assert asked.stream is not None
    number, answers = asked.stream.caller.stream, asked.stream.answers
    for _ in range(500):
        fabric.session_client.publish(answers, frames.encode(Data(number, 0, b"")))
    failure = (await asked.wait()).failure
    assert failure is not None
    assert failure.kind is FailKind.PROTOCOL
    await until(lambda: fabric.gateway.in_flight == 0)


@pytest.mark.parametrize("garbled", [b"\x05%b\xff", b"\x05%b\0\xc8\0\0\xff\xff"])
async def test_a_frame_that_cannot_be_read_fails_its_stream(build: Builder, garbled: bytes) -> None:
    """At once, and retryably; a client does not wait for a time-out."""
    fabric, engine = await build(hang)
    asked = fabric.ask()
    await until(lambda: len(engine.requests) == 1)
    assert asked.stream is not None
    payload = garbled % asked.stream.caller.stream.to_bytes(8)
    fabric.session_client.publish(asked.stream.answers, payload)
    failure = (await asked.wait()).failure
    assert failure is not None
    assert (failure.kind, failure.retryable) == (FailKind.PROTOCOL, True)


async def test_headers_larger_than_any_client_takes_fail_the_stream(build: Builder) -> None:
    """They are neither passed on nor cut."""
    fabric, engine = await build(hang)
    asked = fabric.ask()
    await until(lambda: len(engine.requests) == 1)
    assert asked.stream is not None
    headers = tuple((f"x-{number}", "v" * 1000) for number in range(100))
    head = frames.encode(Head(asked.stream.caller.stream, 200, headers))
    fabric.session_client.publish(asked.stream.answers, head)
    failure = (await asked.wait()).failure
    assert failure is not None
    assert failure.kind is FailKind.PROTOCOL


async def test_who_is_cut_off_with_its_provider_is_not_asked_in_vain(build: Builder) -> None:
    """Its answers would be thrown away: a request learns that at once, and goes elsewhere."""
    fabric, _ = await build(echo)
    provider = fabric.link._learn(PATH).answers.rpartition(".")[0]
    while not fabric.link._guard.strange(time.monotonic(), provider):
        pass
    refused = (await fabric.ask().wait()).failure
    assert refused is not None
    assert (refused.kind, refused.definite) == (FailKind.REFUSED, True)
