"""Frames: what goes in comes out, and rubbish is refused in one way."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opentela.core.errors import WireError
from opentela.wire import frames
from opentela.wire.frames import (
    Body,
    Cancel,
    Credit,
    Data,
    End,
    Fail,
    FailKind,
    Frame,
    Head,
    Loan,
    Open,
    Timings,
)

# Frozen for ever: a peer of any later version must read what this one sends.
GOLDEN: list[tuple[Frame, str]] = [
    (
        Open(
            7,
            "POST",
            "/v1/x",
            (("a", "b"),),
            b"hi",
            more=True,
            credit=9,
            deadline_s=1.5,
            length=70000,
        ),
        (
            "01000000000000000700000023"
            "98a4504f5354a52f76312f789192a161a162c309cb3ff8000000000000a0ce000111706869"
        ),
    ),
    (Body(1, 5, b"x", more=False), "020000000000000001000000050078"),
    (Credit(1, 65536), "0300000000000000010000000000010000"),
    (Cancel(1, "gone"), "040000000000000001676f6e65"),
    (Head(1, 200, (("a", "é"),)), "05000000000000000100c800000009929192a161a2c3a9c0"),
    (
        Head(1, 200, (), b"hi", Timings(1.0, 2.0, 3.0)),
        (
            "05000000000000000100c80000001e"
            "929093cb3ff0000000000000cb4000000000000000cb40080000000000006869"
        ),
    ),
    (Data(1, 3, b"zz"), "060000000000000001000000037a7a"),
    (
        End(1, 4, Timings(1.0, 2.0, 3.0)),
        "070000000000000001000000049193cb3ff0000000000000cb4000000000000000cb4008000000000000",
    ),
    (
        Fail(2**64 - 1, FailKind.REFUSED, definite=True, retryable=True, message="full"),
        "08ffffffffffffffff94a772656675736564c3c3a466756c6c",
    ),
    (Loan(0, b"word"), "0a0000000000000000776f7264"),
]

streams = st.integers(0, 2**64 - 1)
texts = st.text(max_size=40)
headers = st.lists(st.tuples(texts, texts), max_size=5).map(tuple)
some_bytes = st.binary(max_size=300)
u32 = st.integers(0, 2**32 - 1)
moments = st.floats(0, 1e6)
any_frame: st.SearchStrategy[Frame] = st.one_of(
    st.builds(
        Open,
        streams,
        texts,
        texts,
        headers,
        body=some_bytes,
        more=st.booleans(),
        credit=u32,
        deadline_s=moments,
        trace=texts,
        length=u32,
    ),
    st.builds(Body, streams, u32, some_bytes, st.booleans()),
    st.builds(Credit, streams, streams),
    st.builds(Cancel, streams, texts),
    st.builds(
        Head,
        streams,
        st.integers(100, 599),
        headers,
        some_bytes,
        st.none() | st.builds(Timings, moments, moments, moments),
    ),
    st.builds(Data, streams, u32, some_bytes),
    st.builds(End, streams, u32, st.builds(Timings, moments, moments, moments)),
    st.builds(Fail, streams, st.sampled_from(FailKind), st.booleans(), st.booleans(), texts),
    st.builds(Loan, streams, some_bytes),
)


@pytest.mark.parametrize(("frame", "golden"), GOLDEN, ids=lambda v: type(v).__name__)
def test_the_bytes_of_a_frame_never_change(frame: Frame, golden: str) -> None:
    """Both directions, so that neither end of an upgrade misreads the other."""
    assert frames.encode(frame).hex() == golden
    assert frames.decode(bytes.fromhex(golden)) == frame


@given(any_frame)
def test_a_frame_survives_the_wire(frame: Frame) -> None:
    """Encoding then decoding is the identity for every frame."""
    assert frames.decode(frames.encode(frame)) == frame


@given(st.binary(max_size=200))
def test_rubbish_is_refused_and_never_crashes(payload: bytes) -> None:
    """Any bytes are a frame or a WireError, nothing else."""
    with contextlib.suppress(WireError):
        frames.decode(payload)


@given(any_frame, st.data())
def test_a_truncated_frame_is_a_shorter_frame_or_refused(frame: Frame, data: st.DataObject) -> None:
    """Cutting bytes off cannot make another kind or another stream of it."""
    whole = frames.encode(frame)
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    try:
        shorter = frames.decode(cut)
    except WireError:
        return
    assert (type(shorter), shorter.stream) == (type(frame), frame.stream)


def test_a_longer_array_of_a_newer_peer_is_read() -> None:
    """Elements that we do not know are passed over."""
    newer = bytes.fromhex("08" + "00" * 8 + "95a772656675736564c3c3a466756c6cc0")
    assert frames.decode(newer) == Fail(0, FailKind.REFUSED, True, True, "full")  # noqa: FBT003


def test_a_reason_that_we_do_not_know_is_still_a_failure() -> None:
    """A newer peer's kind of failure is taken as `UNKNOWN`, with its flags."""
    frame = frames.decode(bytes.fromhex("08" + "00" * 8 + "94a36e6577c2c3a0"))
    assert frame == Fail(0, FailKind.UNKNOWN, definite=False, retryable=True)


def test_a_bottomless_frame_is_none() -> None:
    """A field of a newer peer is skipped, and only so deep."""
    end = frames.encode(End(1, 0))
    prefix, part = end[:13], end[13:]
    payload = prefix + bytes([part[0] + 1]) + part[1:] + b"\x91" * 100_000 + b"\xc0"
    with pytest.raises(WireError):
        frames.decode(payload)


def test_a_frame_that_cannot_be_read_names_the_stream_that_it_breaks() -> None:
    """But not one of a kind that a newer peer may have sent."""
    with pytest.raises(WireError):
        frames.decode(b"\x05" + (7).to_bytes(8) + b"\xff")
    assert frames.stream_broken_by(b"\x05" + (7).to_bytes(8) + b"\xff") == 7
    assert frames.stream_broken_by(b"\xfe" + (7).to_bytes(8)) == 0
    assert frames.stream_broken_by(b"\x05") == frames.stream_broken_by(b"") == 0


def test_headers_of_any_length_are_not_taken() -> None:
    """A client would take a fraction of them."""
    fits = tuple((f"x-{number}", "v" * 1000) for number in range(60))
    assert isinstance(frames.decode(frames.encode(Head(1, 200, fits))), Head)
    with pytest.raises(WireError, match="bytes of headers"):
        frames.decode(frames.encode(Head(1, 200, fits + fits)))
