"""A body that is read in slices is read as if at once, whatever it is and however it comes."""

import itertools
import json
from typing import Any

import msgspec
from hypothesis import event, given
from hypothesis import strategies as st

from opentela.router.members import members
from opentela.router.sifting import Sifter, decode

WORDS = st.sampled_from(
    ["a", "model", "stream", "otela", ",", '"', "\\", "{", "}", "[", "]", ":", "é", "😀", "\n", " "]
)
TEXT = st.lists(WORDS, max_size=12).map("".join)
KEYS = st.sampled_from(["model", "stream", "otela", "<", ">", "k,ey", 'q"', "é"]) | TEXT
PLAIN: st.SearchStrategy[Any] = TEXT | st.sampled_from(
    [True, False, None, 0, -12.5e-7, 10**12, [], {}, [[{"a": [1, ","]}]]]
)
OBJECTS = st.lists(st.tuples(KEYS, PLAIN), max_size=4).map(dict)
VALUES = PLAIN | st.lists(PLAIN | OBJECTS, max_size=6) | OBJECTS
FIELDS = st.lists(st.tuples(KEYS, VALUES), max_size=6)
MODEL = st.tuples(st.just("model"), st.just("m") | VALUES)
SEPARATORS = st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", "\t:\r\n")])
CUTS = st.lists(st.integers(1, 60), min_size=1, max_size=8)


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """Draw an object, of which keys may stand there twice, in one of its spellings."""
    fields = draw(FIELDS)
    fields.insert(draw(st.integers(0, len(fields))), draw(MODEL))
    ascii_only, separators = draw(st.booleans()), draw(SEPARATORS)

    def spelled(value: Any) -> str:
        return json.dumps(value, ensure_ascii=ascii_only, separators=separators)

    comma, colon = separators
    pairs = comma.join(f"{spelled(name)}{colon}{spelled(value)}" for name, value in fields)
    return f"{{{pairs}}}".encode()


SPOILING = st.tuples(
    st.integers(0, 400),
    st.integers(0, 3),
    st.sampled_from([b"", *(bytes([byte]) for byte in b'"\\{}[],:0ux \x00\xff')]),
)


def told(body: bytes) -> tuple[object, ...]:
    """Return what is read of *body* at once, or why nothing is."""
    try:
        read = decode(body)
    except msgspec.DecodeError as error:
        return type(error), str(error)
    return read.model, bytes(read.stream), bytes(read.otela), members(body)


def sifted(body: bytes, cuts: list[int], slice_bytes: int) -> tuple[object, ...] | None:
    """Return what is read of it in slices; None when that is left to who reads the whole."""
    sifter = Sifter(slice_bytes)
    at = 0
    for size in itertools.cycle(cuts):
        if at >= len(body):
            break
        sifter.feed(body[at : at + size])
        at += size
    sifter.end()
    if sifter.has_given_up:
        return None
    if sifter.error is not None:
        return type(sifter.error), str(sifter.error)
    return sifter.model, sifter.stream, sifter.otela, sifter.members


@given(bodies(), st.lists(SPOILING, max_size=2), CUTS, st.integers(4, 80))
def test_slices_tell_what_the_whole_does(
    body: bytes, spoilt: list[tuple[int, int, bytes]], cuts: list[int], slice_bytes: int
) -> None:
    """The fields, where they are, and for what is no JSON the same words; or nothing."""
    for at, size, by in spoilt:
        body = body[:at] + by + body[at + size :]
    found = sifted(body, cuts, slice_bytes)
    event("told" if found else "left to others")
    if found is not None:
        assert found == told(body)
