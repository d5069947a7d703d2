"""Wishes are kept; everything else is preference."""

import pytest
from tests.unit.router.parts import NEVER, candidate

from opentela.router.directory import Pool
from opentela.router.fault import FaultKind
from opentela.router.matching import (
    NO_WISH,
    RULES,
    Wish,
    admitted,
    best_tier,
    first_tier,
    unmatched,
)

A = candidate(
    "a", site="alps", quantisation="fp8", context_max=8192, labels={"tier": "gold", "zone": "x"}
)
B = candidate("b", site="jura", ends_at=1000.0, fingerprint="abcdef0123", labels={"tier": "iron"})
C = candidate("c", site="jura", provider="epfl", context_max=4096, fingerprint="abcdff0123")
POOL = Pool((A, B, C), 1000.0)


def test_without_wishes_nothing_is_copied() -> None:
    """Most requests wish nothing."""
    assert admitted(POOL, NO_WISH) is POOL.candidates


@pytest.mark.parametrize(
    ("wish", "kept"),
    [
        (Wish(sites=("jura",)), [B, C]),
        (Wish(sites=("jura", "alps")), [A, B, C]),
        (Wish(providers=("epfl",)), [C]),
        (Wish(sites=("alps",), providers=("epfl",)), []),
        (Wish(quantisations=("fp8", "int4")), [A]),
        (Wish(context_min=4096), [A, C]),
        (Wish(context_min=4097), [A]),
        (Wish(fingerprint="abcdef"), [B]),
        (Wish(fingerprint="abcd"), [B, C]),
        (Wish(walltime_min_s=900.0), [A, B, C]),
        (Wish(walltime_min_s=900.1), [A, C]),
        (Wish(labels=(("zone", ("x", "y")),)), [A]),
        (Wish(labels=(("zone", ("y",)),)), []),
        (Wish(tiers=("iron", "gold")), [A, B]),
        (Wish(tiers=("iron", "*")), [A, B, C]),
    ],
)
def test_wishes_are_kept(wish: Wish, kept: list[object]) -> None:
    """Several of one kind are alternatives; all kinds must hold; what nobody knows does not."""
    assert admitted(POOL, wish, wall=100.0) == kept


def test_every_wish_has_its_rule() -> None:
    """None could be forgotten."""
    assert [rule.field for rule in RULES if rule.is_wished(NO_WISH)] == []
    assert len(RULES) == len(Wish.__struct_fields__)


def test_what_was_tried_is_left_out() -> None:
    """A retry never goes back."""
    assert admitted(POOL, NO_WISH, ("a", "c")) == [B]


@pytest.mark.parametrize(
    ("wish", "field", "said"),
    [
        (
            Wish(sites=("etna",), context_min=1),
            "site",
            (
                "at site etna serves the model 'm'; without this constraint there is:"
                " jura (2), alps (1)."
            ),
        ),
        (
            Wish(sites=("jura",), quantisations=("fp8",)),
            "quantisation",
            (
                "at site jura with quantisation fp8 serves the model 'm'; without the last of these"
                " constraints there is: unknown (2)."
            ),
        ),
        (Wish(providers=("x", "y")), "provider", "of provider x or y serves"),
        (Wish(fingerprint="ffffff"), "fingerprint", "abcdef0123 (1), abcdff0123 (1)"),
        (Wish(context_min=10**6), "min_context", "8192 (1), unknown (1), 4096 (1)"),
        (Wish(labels=(("zone", ("q",)),)), "label", "zone=q serves"),
        (Wish(tiers=("tin",)), "tier", "gold (1), iron (1), unknown (1)"),
        (Wish(sites=("jura",), walltime_min_s=10**9), "site", ""),
    ],
)
def test_an_error_says_which_wish_leaves_nobody_and_what_there_is(
    wish: Wish, field: str, said: str
) -> None:
    """Of several the first that nobody keeps who kept those before."""
    pool = [A, B, C] if said else [A]
    fault = unmatched("m", wish, pool, 0.0)
    assert fault.kind is FaultKind.NO_MATCHING_SESSION
    assert fault.param == f"otela.{field}"
    assert said in fault.message


def test_an_error_tells_the_walltime_that_is_left() -> None:
    """Seconds from now."""
    fault = unmatched("m", Wish(walltime_min_s=500), [B], 900.0)
    assert "with 500 s of walltime left" in fault.message
    assert fault.message.endswith("there is: 100 s (1).")


def test_the_first_tier_with_a_sound_session_is_taken() -> None:
    """One of which all are ejected is passed over while there is another."""
    assert first_tier([A, B, C], ("iron", "gold"), ()) == [B]
    assert first_tier([A, B, C], ("iron", "gold"), ("b",)) == [A]
    assert first_tier([A, B, C], ("iron", "gold"), ("a", "b")) == [B]
    assert first_tier([A, C], ("iron", "*"), ()) == [A, C]


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
