"""A websocket's client side, against the examples of RFC 6455 and a server made of bytes."""

import itertools
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opentela.core.errors import WireError
from opentela.mesh import websocket
from opentela.mesh.websocket import WebsocketClient

KEY = b"the sample nonce"  # section 1.3
ANSWER = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"sec-websocket-accept:  s3pPLMBiTxaQ9kYGzzhZRbK+xOo= \r\n\r\n"
)
MASK = bytes.fromhex("37fa213d")


def client() -> WebsocketClient:
    return WebsocketClient("hub:443", KEY, lambda _: MASK)


def opened() -> WebsocketClient:
    one = client()
    assert one.feed(ANSWER) == (b"", b"")
    assert one.is_open
    return one


def frame(payload: bytes, opcode: int = 0x82) -> bytes:
    """What a server sends: unmasked."""
    size = len(payload)
    if size <= 125:
        return bytes((opcode, size)) + payload
    if size < 1 << 16:
        return struct.pack("!BBH", opcode, 126, size) + payload
    return struct.pack("!BBQ", opcode, 127, size) + payload


def test_the_request_asks_for_the_upgrade() -> None:
    """With the key of the RFC's example."""
    lines = client().request().decode().split("\r\n")
    assert lines[0] == "GET / HTTP/1.1"
    assert "Host: hub:443" in lines
    assert "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==" in lines
    assert lines[-2:] == ["", ""]


def test_a_masked_frame_is_that_of_the_rfc() -> None:
    """Section 5.7: "Hello", masked; as binary."""
    assert opened().send(b"Hello") == bytes.fromhex("828537fa213d7f9f4d5158")


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65535, 65536, 100_000])
def test_what_is_sent_can_be_unmasked(size: int) -> None:
    """Each form of the length, and the mask applied to every byte."""
    data = bytes(index % 251 for index in range(size))
    sent = opened().send(data)
    head = 2 if size <= 125 else 4 if size < 65536 else 10
    assert sent[head : head + 4] == MASK
    body = sent[head + 4 :]
    assert bytes(byte ^ MASK[at % 4] for at, byte in enumerate(body)) == data
    length = {2: sent[1] & 0x7F, 4: struct.unpack_from("!H", sent, 2)[0]}.get(
        head, struct.unpack_from("!Q", sent + bytes(8), 2)[0]
    )
    assert length == size


@given(
    st.lists(st.integers(0, 70_000).map(bytes), max_size=4),
    st.lists(st.integers(0, 1000), max_size=5),
)
def test_bytes_arrive_whatever_the_cuts(payloads: list[bytes], cuts: list[int]) -> None:
    """Frames are no messages."""
    talk = ANSWER + b"".join(map(frame, payloads))
    edges = [0, *sorted(min(cut, len(talk)) for cut in cuts), len(talk)]
    one, arrived = client(), b""
    for start, end in itertools.pairwise(edges):
        arrived += one.feed(talk[start:end])[0]
    assert arrived == b"".join(payloads)


def test_an_upgrade_may_come_in_pieces() -> None:
    """The rest of the answer may hold the first frame already."""
    one = client()
    assert one.feed(ANSWER[:30]) == (b"", b"")
    assert one.feed(ANSWER[30:] + frame(b"INFO")) == (b"INFO", b"")


def test_continued_frames_join() -> None:
    """A server may split as it likes."""
    assert opened().feed(frame(b"ab", 0x02) + frame(b"cd", 0x80)) == (b"abcd", b"")


def test_a_ping_is_answered_and_a_pong_passed_over() -> None:
    """The connection's own business."""
    one = opened()
    arrived, answer = one.feed(frame(b"x") + frame(b"Hello", 0x89) + frame(b"", 0x8A))
    assert arrived == b"x"
    assert answer == bytes.fromhex("8a8537fa213d7f9f4d5158")


@pytest.mark.parametrize(
    "talk",
    [
        frame(b"\x03\xe8", 0x88),
        frame(b"text", 0x81),
        frame(b"", 0xC2),
        b"\x82\x81abcd",
        struct.pack("!BBQ", 0x82, 127, websocket.FRAME_BYTES_MAX + 1),
    ],
    ids=["close", "text", "reserved bit", "masked", "too large"],
)
def test_what_no_server_of_the_mesh_sends_ends_the_connection(talk: bytes) -> None:
    """With one error."""
    with pytest.raises(WireError):
        opened().feed(talk)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 403 Forbidden\r\n\r\n",
        b"\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: bm8=\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        b"H" * (websocket.HEAD_BYTES_MAX + 1),
    ],
    ids=["refused", "empty", "another key", "no key", "endless"],
)
def test_an_answer_that_is_no_upgrade_is_refused(answer: bytes) -> None:
    """Such as that of a proxy."""
    with pytest.raises(WireError):
        client().feed(answer)
