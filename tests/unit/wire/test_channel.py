"""What passes on a channel, and how it is cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opentela.core.errors import WireError
from opentela.wire import channel
from opentela.wire.channel import Hello, Parser, Proof, Welcome

NONCE = bytes(16)
HELLO = Hello(1, "i", "s", NONCE)


def opened() -> Parser:
    """Return a parser after the greeting."""
    parser = Parser()
    parser.bytes_max = channel.PAYLOAD_BYTES_MAX
    return parser


@given(st.lists(st.binary(max_size=50), max_size=6), st.data())
def test_payloads_come_whole_wherever_the_bytes_are_cut(
    payloads: list[bytes], data: st.DataObject
) -> None:
    """Empty ones too, which only show life."""
    words = b"".join(channel.length_of(payload) + payload for payload in payloads)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(words)), max_size=8)))
    parser, came = opened(), []
    for start, end in zip([0, *cuts], [*cuts, len(words)], strict=True):
        came += parser.feed(words[start:end])
    assert came == payloads


def test_a_sign_of_life_is_an_empty_payload() -> None:
    """It is told like any other; who takes it passes it over."""
    assert opened().feed(channel.ALIVE) == [b""]


def test_who_has_proved_nothing_cannot_fill_memory() -> None:
    """A greeting is short, and no frame is longer than those of the mesh."""
    with pytest.raises(WireError, match="1025 bytes, more than 1024"):
        Parser().feed((1025).to_bytes(4, "big"))
    with pytest.raises(WireError, match="more than 1048576"):
        opened().feed((channel.PAYLOAD_BYTES_MAX + 1).to_bytes(4, "big"))


def test_every_part_of_the_greeting_reads_back() -> None:
    """As it was written."""
    assert channel.read_hello(channel.encode(HELLO)) == HELLO
    welcome = Welcome(NONCE, b"signature")
    assert channel.read_welcome(channel.encode(welcome)) == welcome
    assert channel.read_proof(channel.encode(Proof(b"x"))) == Proof(b"x")


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xc1",
        b"GET / HTTP/1.1\r\n\r\n",
        channel.encode(Hello(2, "i", "s", NONCE)),
        channel.encode(Hello(1, "i", "s", b"short")),
        b"\x91" * 900,
    ],
)
def test_rubbish_is_no_greeting(payload: bytes) -> None:
    """Whatever comes to an open port."""
    with pytest.raises(WireError):
        channel.read_hello(payload)


def test_what_is_signed_differs_by_role_and_by_all_that_was_said() -> None:
    """No signature of one greeting is of use in another."""
    words = {
        channel.words_of_router(HELLO, NONCE, ""),
        channel.words_of_session(HELLO, NONCE, ""),
        channel.words_of_session(HELLO, b"1" * 16, ""),
        channel.words_of_session(HELLO, NONCE, "ab"),
        channel.words_of_session(Hello(1, "j", "s", NONCE), NONCE, ""),
        channel.words_of_session(Hello(1, "i", "t", NONCE), NONCE, ""),
    }
    assert len(words) == 6
