"""The tap tells apart what NATS says, however it is cut into packets."""

from collections import Counter

from tests.bench.registry_tap import ENCRYPTED, Direction

BEAT = b"PUB otela.v1.beat.acme.s.N 5\r\nhello\r\n"
DELTA = b"LMSG otela.v1.delta.acme.s.N 4\r\n\r\n\r\n\r\n"
SAID = b"CONNECT {}\r\n" + BEAT + b"PING\r\nLS+ otela.v1.probe.acme.*.> 1\r\n" + DELTA


def test_messages_count_for_their_conversation() -> None:
    """Each byte is counted once, for the conversation of its subject or for what it is."""
    counted = Direction().kinds(SAID)
    assert counted["beat"] == len(BEAT)
    assert counted["delta"] == len(DELTA)
    assert counted["pings"] == len(b"PING\r\n")
    assert set(counted) == {"handshake", "beat", "pings", "interest", "delta"}
    assert counted.total() == len(SAID)


def test_packets_may_end_anywhere() -> None:
    """Byte by byte, the same is counted."""
    direction, counted = Direction(), Counter[str]()
    for byte in SAID:
        counted.update(direction.kinds(bytes((byte,))))
    assert counted == Direction().kinds(SAID)


def test_what_is_encrypted_is_not_guessed_at() -> None:
    """From the first record of TLS on, bytes are only counted."""
    direction = Direction()
    hello, record = b"\x16\x03\x01" + b"x" * 40, b"\x17\x03\x03PING\r\n"
    assert direction.kinds(hello) == {ENCRYPTED: len(hello)}
    assert direction.kinds(record) == {ENCRYPTED: len(record)}
