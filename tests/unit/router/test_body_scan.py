"""What is counted part by part is what would be counted of the whole."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opentela.router.body_scan import FLAT_MAX, BodyScan, says_one_thing
from opentela.router.sifting import NESTING_MAX

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


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b'{"model":"m","messages":[{"content":"hello"}]}', True),
        (b'{"model":"m","stream":true}', True),
        (b'{"model":"m","a":"\\n"}', True),
        (b'{"model":"m","model":"n"}', False),
        (b'{"model":"m","stream":true,"stream":false}', False),
        (b'{"mod\\u0065l":"m","model":"n"}', False),
        (b"{}", False),
        (b'{"model":"m","a":' + b"[" * 65, False),
    ],
)
def test_a_look_tells_of_most_bodies_that_no_key_is_repeated(body: bytes, *, says: bool) -> None:
    """Nor nested too deep; where it does not, all that is counted decides."""
    assert says_one_thing(body) is says


@given(st.lists(_PIECES, max_size=12))
def test_what_says_one_thing_at_a_look_does_so_when_counted(pieces: list[bytes]) -> None:
    """And never nests as deep as is refused."""
    body = b"".join(pieces)
    scan = BodyScan(body)
    assert not says_one_thing(body) or not scan.may_repeat
    assert not says_one_thing(body) or scan.brackets <= FLAT_MAX < NESTING_MAX
