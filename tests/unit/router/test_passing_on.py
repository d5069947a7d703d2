"""Streams under way pass, watched where they can be read."""

from tests.unit.router.requests import CONFIG, DELTA, DONE, EVENTS, STOP, Client

from opentela.router.attempt_events import Break, Commit, Forward
from opentela.wire.frames import FailKind


def test_what_flows_is_passed_on_without_a_step() -> None:
    """Whole events at once, half ones when they are whole; the engine has more time by each."""
    client = Client(streams=True)
    client.head(headers=EVENTS)
    assert client.attempts.pass_on(client.now, DELTA) is None
    client.data(DELTA)
    client.at(3.0)
    assert client.attempts.pass_on(client.now, DELTA[:9]) == b""
    assert client.attempts.pass_on(client.now, DELTA[9:]) == DELTA
    assert client.attempts.next_deadline() == client.now + CONFIG.idle_s
    client.at(99.0)
    assert client.attempts.pass_on(client.now, STOP) == STOP
    assert client.attempts.next_deadline() == 1000.0 + CONFIG.total_s
    client.data(DONE)
    client.end()
    assert client.attempts.pass_on(client.now, DELTA) is None


def test_a_compressed_stream_passes_unread_and_cannot_say_that_it_broke() -> None:
    """Our event would not be gzip."""
    headers = (*EVENTS, ("content-encoding", "gzip"))
    client = Client(streams=True)
    client.head(200, headers)
    assert client.data(b"\x1f") == [Commit(200, headers, b"\x1f")]
    assert client.data(b"\x8b") == [Forward(b"\x8b")]
    last = client.fail(FailKind.ENGINE_LOST)[-1]
    assert isinstance(last, Break)
    assert not last.can_say
