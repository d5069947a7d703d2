"""What is counted part by part is what would be counted of the whole."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from opentela.router.body_scan import BodyScan

_PIECES = st.sampled_from(
    [b'"model"', b'"stream"', b"{", b"[[", b"\\u006d", b"\\u007", b"\\u00", b"\\u", b'"mod', b'el"',
     b'"', b"x", b" " * 9]
)  # fmt: skip


def counted(scan: BodyScan) -> tuple[int, int, int, bool]:
    """Return all that it counted."""
    return scan.brackets, scan.models, scan.streams, scan.may_hide


def test_each_thing_is_counted() -> None:
    """Also within strings: it is a bound, not a parser."""
    scan = BodyScan(b'{"model":"m","stream":[{"model":"{"}]}')
    assert counted(scan) == (4, 2, 1, False)
    assert BodyScan(b'{"\\u006dodel":1}').may_hide
    assert not BodyScan(b'{"a":"\\u00e4"}').may_hide


@given(st.lists(_PIECES, max_size=12), st.lists(st.integers(0, 80), max_size=6))
def test_cuts_change_nothing(pieces: list[bytes], cuts: list[int]) -> None:
    """However the body comes in."""
    body = b"".join(pieces)
    places = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
    scan = BodyScan()
    for start, end in itertools.pairwise(places):
        scan.feed(body[start:end])
    assert counted(scan) == (
        body.count(b"{") + body.count(b"["),
        body.count(b'"model"'),
        body.count(b'"stream"'),
        b"\\u006" in body or b"\\u007" in body,
    )
