"""NATS's protocol, read from any split of its bytes."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opentela.core.errors import WireError
from opentela.mesh import nats_wire
from opentela.mesh.nats_wire import Fine, Info, Message, Parser, Ping, Pong, Refusal

NO_RESPONDERS = b"NATS/1.0 503\r\n\r\n"
TALK = (
    b'INFO {"server_name":"hub","nonce":"n","tls_required":true,"max_payload":9,"x":1}\r\n'
    b"+OK\r\n"
    b"PING\r\n"
    b"MSG a.b 7 5\r\nhe\r\no\r\n"
    b"MSG a.b 7 re.ply 0\r\n\r\n"
    b"PONG\r\n" + b"HMSG re.x 9 16 16\r\n" + NO_RESPONDERS + b"\r\n"
    b"HMSG a 1 re 12 15\r\nNATS/1.0\r\n\r\nabc\r\n"
    b"-ERR 'Stale Connection'\r\n"
    b"MSG b 10 4\r\nPING\r\n"
)
EVENTS = [
    Info(server_name="hub", nonce="n", tls_required=True, max_payload=9),
    Fine(),
    Ping(),
    Message("a.b", 7, "", b"he\r\no"),
    Message("a.b", 7, "re.ply", b""),
    Pong(),
    Message("re.x", 9, "", b"", status=503),
    Message("a", 1, "re", b"abc"),
    Refusal("Stale Connection"),
    Message("b", 10, "", b"PING"),
]


def read(*pieces: bytes) -> list[nats_wire.Event]:
    parser = Parser()
    return [event for piece in pieces for event in parser.feed(piece)]


@pytest.mark.parametrize("at", range(len(TALK) + 1))
def test_every_split_reads_the_same(at: int) -> None:
    """TCP may cut anywhere."""
    assert read(TALK[:at], TALK[at:]) == EVENTS


def test_single_bytes_read_the_same() -> None:
    """The slowest of all links."""
    assert read(*(bytes([byte]) for byte in TALK)) == EVENTS


@given(st.lists(st.binary(max_size=200), max_size=8), st.lists(st.integers(0, 2000), max_size=6))
def test_messages_survive_any_cuts(payloads: list[bytes], cuts: list[int]) -> None:
    """Whatever the payloads hold, line ends and words of the protocol included."""
    talk = b"".join(b"MSG s 1 %d\r\n%b\r\n" % (len(one), one) for one in payloads)
    edges = [0, *sorted(min(cut, len(talk)) for cut in cuts), len(talk)]
    pieces = [talk[start:end] for start, end in itertools.pairwise(edges)]
    assert read(*pieces) == [Message("s", 1, "", one) for one in payloads]


@pytest.mark.parametrize(
    "talk",
    [
        b"HTTP/1.1 400 Bad Request\r\n",
        b"MSG a\r\n",
        b"MSG a 1 2 3 4\r\n",
        b"MSG a x 3\r\nabc\r\n",
        b"MSG a 1 -1\r\n",
        b"MSG a 1 99999999999\r\n",
        b"MSG a 1 1\r\nabc",
        b"HMSG a 1 20 10\r\n",
        b"HMSG a 1 4 4\r\nHTTP\r\n",
        b"INFO {\r\n",
        b"\r\n",
        b"MSG \xff 1 0\r\n\r\n",
        b"MSG a 1 +1\r\nx\r\n",
        b"MSG a 1 " + b"1" * 5000 + b"\r\n",
        b"MSG a 1 1\r\nx\r\nMSG a 1 \r\n\r\n",
        b"MSG a 1 1\r\nx\r\nMSG a 1 1\r\nxyz",
        b"MSG a 1 \xff 0\r\n\r\n",
        b"WHAT\r\n",
        b"I" * nats_wire.LINE_BYTES_MAX,
    ],
)
def test_what_is_not_nats_is_refused(talk: bytes) -> None:
    """With one error, whatever it is."""
    with pytest.raises(WireError):
        read(talk)


def test_more_subjects_than_are_remembered_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long-lived connection meets any number of sessions."""
    monkeypatch.setattr(nats_wire, "LINES_KNOWN_MAX", 2)
    talk = b"".join(b"MSG s%d 1 1\r\nx\r\n" % (number % 5) for number in range(20))
    parser = Parser()
    expected = [Message(f"s{number % 5}", 1, "", b"x") for number in range(20)]
    assert parser.feed(talk) == expected
    assert len(parser._known) <= 2


def test_a_status_without_a_number_is_none() -> None:
    """Such as that of a message with ordinary headers."""
    assert read(b"HMSG a 1 12 12\r\nNATS/1.0\r\n\r\n\r\n") == [Message("a", 1, "", b"")]


@given(st.binary(max_size=300))
def test_rubbish_is_refused_or_waited_for(talk: bytes) -> None:
    """Never another exception."""
    try:
        read(talk)
    except WireError:
        return


def test_what_clients_say() -> None:
    """Word for word."""
    assert nats_wire.connect({"verbose": False}) == b'CONNECT {"verbose":false}\r\n'
    assert nats_wire.subscribe("a.>", 3) == b"SUB a.> 3\r\n"
    assert nats_wire.unsubscribe(3) == b"UNSUB 3\r\n"
    assert nats_wire.publish("a", "", b"xy").split() == [b"PUB", b"a", b"2", b"xy"]
    assert nats_wire.publish("a", "re", b"xy") == b"PUB a re 2\r\nxy\r\n"
