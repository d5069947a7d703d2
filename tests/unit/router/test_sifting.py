"""Bodies of every kind are read in slices, and what cannot be told so is left to others."""

import json
from typing import Any

import msgspec
import pytest

from opentela.router import sifting
from opentela.router.members import members
from opentela.router.sifting import FIELDS_MAX, NESTING_MAX, UNCUT_BYTES_MAX, Sifter, decode

READ_BYTES = 1000
SLICE_BYTES = 2000
TEXT = 'A "quoted" word, a \\ and 中文😀 in {some} [text]:\n'
CALL = {"type": "function", "function": {"name": "f", "parameters": {"model": {"type": "x"}}}}
LARGE: dict[str, dict[str, Any]] = {
    "a long text": {"messages": [{"role": "user", "content": TEXT * 500}], "model": "m"},
    "many texts": {"model": "m", "input": [TEXT] * 500},
    "many numbers": {"input": list(range(9000)), "stream": True, "model": "m"},
    "many messages": {"messages": [{"role": "user", "content": "hi, {"}] * 900, "model": "m"},
    "many tools": {"model": "m", "tools": [CALL] * 200, "stream": None},
    "many fields": {**{f"field, {number}": number for number in range(900)}, "model": "m"},
    "what is for us, among others": {
        "prompt": TEXT * 100,
        "otela": {"site": ["a", "b"]},
        "stream": False,
        "suffix": TEXT * 100,
        "model": "a/b@c",
        "user": TEXT,
    },
}


def sifted(body: bytes, read_bytes: int = READ_BYTES) -> Sifter:
    """Return what has read *body*."""
    sifter = Sifter(SLICE_BYTES)
    for at in range(0, len(body), read_bytes):
        sifter.feed(body[at : at + read_bytes])
    sifter.end()
    return sifter


@pytest.mark.parametrize("kind", LARGE)
@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_what_people_send_is_read(kind: str, indent: int | None, *, ascii_only: bool) -> None:
    """However it is written."""
    body = json.dumps(LARGE[kind], indent=indent, ensure_ascii=ascii_only).encode()
    assert len(body) > 3 * SLICE_BYTES
    sifter, read = sifted(body), decode(body)
    assert (sifter.has_given_up, sifter.error) == (False, None)
    assert sifter.model == LARGE[kind]["model"] == read.model
    assert (sifter.stream, sifter.otela) == (bytes(read.stream), bytes(read.otela))
    assert sifter.members == members(body)


@pytest.mark.parametrize(
    "wrong",
    [b"]", b"}", b'"x"', b",", b"nul", b"\x00", b"01", b'{"a"}', b'"\\q"', b"\\", b"[,]"],
)
@pytest.mark.parametrize("at", [0, 4001, 30_001])
def test_what_is_wrong_is_told_as_of_the_whole(wrong: bytes, at: int) -> None:
    """With the place."""
    numbers = b"[" + b"123," * 10_000 + b"0]"
    body = b'{"model":"m","x":' + numbers[:at] + wrong + numbers[at:] + b"}"
    with pytest.raises(msgspec.DecodeError) as told:
        decode(body)
    assert str(sifted(body).error) == str(told.value)


def test_nothing_is_read_behind_what_is_wrong() -> None:
    """It is refused in any case."""
    sifter = Sifter(10)
    sifter.feed(b'{"model":3,"a":4}')
    error = sifter.error
    assert isinstance(error, msgspec.ValidationError)
    sifter.feed(b"!")
    sifter.end()
    assert sifter.error is error


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"m","x":' + b"[" * NESTING_MAX + b"0" + b"]" * NESTING_MAX + b"}",
        b'{"a":1,"a":1,"model":"m"}',
        b'{"a":1,"x":[%b0],"a":2,"model":"m"}' % (b"12," * SLICE_BYTES),
        b'{"model":"%b"}' % (b"m," * UNCUT_BYTES_MAX),
        b'{"otela":[%b0]}' % (b"1," * UNCUT_BYTES_MAX),
        b'{"a":0%b}' % (b" " * UNCUT_BYTES_MAX),
        b'{"%b":1}' % (b"a" * (UNCUT_BYTES_MAX + 1)),
        json.dumps({str(number): 0 for number in range(FIELDS_MAX + 1)}).encode(),
    ],
    ids=lambda body: body[:20].decode(),
)
def test_what_nobody_sends_is_left_to_who_reads_the_whole(body: bytes) -> None:
    """Rather than to say something else about it than of a small one."""
    sifter = sifted(body, UNCUT_BYTES_MAX // 10)
    assert sifter.has_given_up
    sifter.feed(b"more")
    sifter.end()
    assert sifter.has_given_up


def test_no_slice_is_longer_than_what_came(monkeypatch: pytest.MonkeyPatch) -> None:
    """So much is read at once, and what was left of the slice before; what is open is little."""
    read: list[int] = []

    def counted(document: bytes) -> sifting.Body:
        read.append(len(document))
        return decode(document)

    monkeypatch.setattr(sifting, "decode", counted)
    for fields in LARGE.values():
        sifted(json.dumps(fields).encode())
    assert max(read) < SLICE_BYTES + READ_BYTES + 100
