"""A head that comes again is known by its bytes, and by nothing less."""

import pytest

from opentela.core.familiar import Familiar

HEAD = b"HTTP/1.1 200 OK\r\nX-A: 1\r\nContent-Length:  12 \r\nX-B: 12\r\n\r\n"


def known(head: bytes = HEAD) -> Familiar:
    """Return how a head is known that has a length."""
    familiar = Familiar.of(head)
    assert familiar is not None
    return familiar


@pytest.mark.parametrize("digits", [b"0", b"7", b"12", b"123456789012345"])
def test_another_length_is_found_in_it(digits: bytes) -> None:
    """Where it stands, whatever follows the head."""
    data = HEAD.replace(b"  12 ", b"  %b " % digits)
    familiar = known(data.replace(b" \r\n", b"\r\n"))
    again = data.replace(b" \r\n", b"\r\n")
    assert familiar.length_in(again + b"body\r\n") == digits
    assert familiar.bytes_but_length + len(digits) == len(again)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        HEAD[:-1],
        HEAD.replace(b"X-A: 1", b"X-A: 2"),
        HEAD.replace(b"X-B: 12", b"X-B: 13"),
        HEAD.replace(b"  12 ", b"  "),
        HEAD.replace(b"  12 ", b"  +12 "),
        HEAD.replace(b"  12 ", b"  1x "),
        HEAD.replace(b"  12 ", b"  1234567890123456 "),
        HEAD.replace(b"  12 ", b"  12\r\n "),
    ],
)
def test_any_other_byte_makes_it_another_head(data: bytes) -> None:
    """A number that is none, or too long, is for who reads all of it."""
    assert not known().length_in(data)


def test_a_head_without_just_one_length_is_not_known() -> None:
    """There would be no telling which counts."""
    assert Familiar.of(b"HTTP/1.1 200 OK\r\nX-A: content-length: 1\r\n\r\n") is None
    assert Familiar.of(HEAD[:-2] + b"content-length: 12\r\n\r\n") is None
