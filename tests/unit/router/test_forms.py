"""Of a form with files the router reads two fields, and engines the same ones."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opentela.core.pieces import Pieces
from opentela.router import forms
from opentela.router.fault import Fault
from opentela.router.forms import (
    FIELD_BYTES_MAX,
    PARTS_MAX,
    Boundaries,
    is_form,
    read_fields,
)

TYPE = b"multipart/form-data; boundary=XX"
NAMES = ("model", "stream")


def part(name: str, value: bytes, extra: str = "") -> bytes:
    """Return one part."""
    head = f'--XX\r\nContent-Disposition: form-data; name="{name}"{extra}\r\n\r\n'
    return head.encode() + value + b"\r\n"


SOUND = part("file", bytes(range(256)) * 10, '; filename="a.wav"\r\nContent-Type: audio/wav')
END = b"--XX--\r\n"


def test_fields_are_found_among_files() -> None:
    """Whatever bytes a file holds, as long as its boundary is none of them."""
    body = SOUND + part("model", b"a/b-\xc3\xa4") + part("language", b"de") + END
    assert read_fields(TYPE, body, NAMES) == {"model": "a/b-ä"}
    assert read_fields(TYPE, b"preamble\r\n" + body + b"epilogue", NAMES) == {"model": "a/b-ä"}


def test_text_within_a_file_is_no_field() -> None:
    """It has no boundary before it."""
    inner = b'Content-Disposition: form-data; name="model"\r\n\r\nevil\r\n'
    body = part("file", inner, '; filename="x"') + part("model", b"good") + END
    assert read_fields(TYPE, body, NAMES) == {"model": "good"}


@pytest.mark.parametrize(
    "content_type",
    [
        b"multipart/form-data;boundary=XX",
        b'Multipart/Form-Data; charset=utf-8; boundary="XX"',
        b"multipart/form-data; boundary=XX; charset=utf-8",
    ],
)
def test_a_boundary_is_named_in_several_ways(content_type: bytes) -> None:
    """Quoted or not, first or last."""
    assert is_form(content_type)
    assert read_fields(content_type, part("model", b"m") + END, NAMES) == {"model": "m"}


def test_names_may_stand_without_quotes() -> None:
    """Engines read those too."""
    body = b"--XX\r\ncontent-disposition:form-data;name=model\r\n\r\nm\r\n--XX--"
    assert read_fields(TYPE, body, NAMES) == {"model": "m"}


@pytest.mark.parametrize(
    ("content_type", "body", "param"),
    [
        (b"multipart/form-data", END, None),
        (TYPE, b"", None),
        (TYPE, b"nothing of the kind", None),
        (TYPE, b'--XX\r\nContent-Disposition: form-data; name="model"\r\n\r\nm', None),
        (TYPE, b"--XX\r\n\r\nm\r\n--XX--", None),
        (TYPE, b"--XX\r\nContent-Disposition: form-data\r\n\r\nm\r\n--XX--", None),
        (TYPE, part("model", b"m", "; name=other") + END, None),
        (TYPE, part("model", b"a") + part("model", b"b") + END, "model"),
        (TYPE, part("model", b"m" * (FIELD_BYTES_MAX + 1)) + END, "model"),
        (TYPE, part("model", b"\xff") + END, "model"),
        (TYPE, part("x", b"y") * (PARTS_MAX + 1) + END, None),
        (TYPE, b"--XX\r\n" + b"x" * 10_000 + b"\r\n\r\n\r\n--XX--", None),
    ],
)
def test_a_bad_form_is_refused_in_words(
    content_type: bytes, body: bytes, param: str | None
) -> None:
    """Naming the field where there is one."""
    fault = read_fields(content_type, body, NAMES)
    assert isinstance(fault, Fault)
    assert (fault.http_status, fault.param) == (400, param)


def test_other_types_are_no_forms() -> None:
    """Among them the one that curl claims for everything."""
    assert not is_form(b"application/x-www-form-urlencoded")
    assert not is_form(b"application/json")


FRAGMENTS = st.sampled_from(
    [
        *(b"\r\n--XX", b"--XX", b"--XX--", b"--", b"\r\n", b"\r\n\r\n", b"\r", b"-", b"X", b"a"),
        *(part("model", b"m"), part("stream", b"true"), SOUND, END),
        part("model", b"m" * (FIELD_BYTES_MAX + 1)),
    ]
)


@given(st.lists(FRAGMENTS, max_size=9), st.lists(st.integers(1, 30), min_size=1, max_size=5))
def test_a_large_form_is_read_as_a_small_one(fragments: list[bytes], cuts: list[int]) -> None:
    """However it comes."""
    body, pieces, at = b"".join(fragments), list[bytes](), 0
    boundaries = Boundaries.of(TYPE)
    assert boundaries is not None
    for size in itertools.cycle(cuts):
        if at >= len(body):
            break
        pieces.append(body[at : at + size])
        boundaries.feed(pieces[-1])
        at += size
    assert read_fields(TYPE, Pieces(pieces), NAMES, boundaries) == read_fields(TYPE, body, NAMES)


def test_a_file_full_of_boundaries_is_looked_through_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not each of them is kept in memory."""
    monkeypatch.setattr(forms, "BOUNDARIES_MAX", 5)
    body = part("file", b"\r\n--XX") + part("model", b"m") * 5 + END
    boundaries = Boundaries(b"--XX")
    boundaries.feed(body)
    assert not boundaries.are_told
    assert read_fields(TYPE, Pieces([body]), NAMES, boundaries) == read_fields(TYPE, body, NAMES)


def test_other_bodies_have_no_boundaries() -> None:
    """Nor does a form that names none."""
    assert Boundaries.of(b"application/json") is None
    assert Boundaries.of(b"multipart/form-data") is None
