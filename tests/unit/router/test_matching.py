"""Wishes are kept; everything else is preference."""

from tests.unit.router.parts import NEVER, candidate

from opentela.router.directory import Pool
from opentela.router.matching import NO_WISH, Wish, admitted, best_tier

A = candidate("a", site="alps")
B = candidate("b", site="jura", ends_at=1000.0)
C = candidate("c", site="jura", provider="epfl")
POOL = Pool((A, B, C), 1000.0)


def test_without_wishes_nothing_is_copied() -> None:
    """Most requests wish nothing."""
    assert admitted(POOL, NO_WISH) is POOL.candidates


def test_sites_and_providers_are_kept() -> None:
    """Several of one kind are alternatives; both kinds must hold."""
    assert admitted(POOL, Wish(sites=("jura",))) == [B, C]
    assert admitted(POOL, Wish(sites=("jura", "alps"))) == [A, B, C]
    assert admitted(POOL, Wish(providers=("epfl",))) == [C]
    assert admitted(POOL, Wish(sites=("alps",), providers=("epfl",))) == []


def test_what_was_tried_is_left_out() -> None:
    """A retry never goes back."""
    assert admitted(POOL, NO_WISH, ("a", "c")) == [B]


def test_a_wish_says_what_it_is() -> None:
    """As it stands in the error."""
    wish = Wish(sites=("alps", "jura"), providers=("epfl",))
    assert str(wish) == "site alps or jura, provider epfl"
    assert str(Wish(providers=("epfl",))) == "provider epfl"


def tier(*ejected: str, before: float = 0.0) -> list[str]:
    """Return the tier to pick from."""
    best = best_tier(POOL.candidates, ejected=ejected, ends_first_at=1000.0, ends_before=before)
    return [one.session for one in best]


def test_everybody_is_in_the_best_tier_on_a_good_day() -> None:
    """And nothing is copied."""
    best = best_tier(POOL.candidates, ejected=(), ends_first_at=NEVER, ends_before=5.0)
    assert best is POOL.candidates


def test_allocations_about_to_end_are_a_last_resort() -> None:
    """At the margin exactly they still count as lasting."""
    assert tier(before=1000.0) == ["a", "b", "c"]
    assert tier(before=1000.1) == ["a", "c"]
    assert tier("a", "c", before=1000.1) == ["b"]


def test_ejected_sessions_are_the_very_last_resort() -> None:
    """Better a doubtful session than none."""
    assert tier("a") == ["b", "c"]
    assert tier("a", "b", "c") == ["a", "b", "c"]
