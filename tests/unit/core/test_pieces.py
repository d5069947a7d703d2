"""A body in pieces is measured, cut and changed as if it were one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opentela.core.pieces import Pieces, replaced, whole

PIECES = st.lists(st.binary(max_size=5), max_size=6)
PLACE = st.integers(-40, 40)


@given(PIECES, PLACE, PLACE)
def test_it_is_cut_as_one(pieces: list[bytes], start: int, stop: int) -> None:
    """From both ends, and beyond them."""
    body, joined = Pieces(pieces), b"".join(pieces)
    assert len(body) == len(joined)
    assert whole(body) == joined
    assert body[start:stop] == joined[start:stop]
    assert body[start:] == joined[start:]
    assert body[:stop] == joined[:stop]
    assert body.startswith(joined[:stop])
    assert not body.startswith(joined + b"x")


@given(PIECES, st.integers(0, 30), st.integers(0, 30), st.binary(max_size=4))
def test_a_part_is_replaced_as_in_one(pieces: list[bytes], one: int, other: int, by: bytes) -> None:
    """And it stays what it was itself."""
    body, joined = Pieces(pieces), b"".join(pieces)
    start, stop = sorted(min(at, len(joined)) for at in (one, other))
    assert whole(replaced(body, start, stop, by)) == replaced(joined, start, stop, by)
    assert whole(replaced(joined, start, stop, by)) == joined[:start] + by + joined[stop:]
    assert whole(body) == joined


def test_what_is_passed_on_whole_is_not_copied() -> None:
    """A piece that is asked for as it came is the same object."""
    piece = b"x" * 1000
    assert Pieces([b"a", piece, b"b"])[1:1001] is piece


def test_it_is_not_cut_by_steps() -> None:
    """Nobody needs that."""
    with pytest.raises(ValueError, match="spans"):
        Pieces([b"abc"])[::2]
