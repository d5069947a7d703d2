"""Failures say whether the engine may have begun, and whether another session may do better."""

from opentela.stream.failures import NEVER_BEGUN, RETRYABLE, failure
from opentela.wire.frames import Fail, FailKind


def test_every_kind_has_its_place_in_the_table() -> None:
    """A new kind without a decision is caught here."""
    assert set(RETRYABLE) == set(FailKind)


def test_definite_is_a_fact_of_the_moment() -> None:
    """The same kind is definite or not, by whether the engine may have begun."""
    assert failure(3, FailKind.ENGINE_LOST, "reset", may_have_begun=True) == Fail(
        3, FailKind.ENGINE_LOST, definite=False, retryable=True, message="reset"
    )
    assert failure(3, FailKind.TOO_LARGE, may_have_begun=False) == Fail(
        3, FailKind.TOO_LARGE, definite=True, retryable=False
    )


def test_what_comes_before_the_engine_is_always_definite() -> None:
    """It never had the request."""
    for kind in NEVER_BEGUN:
        assert failure(3, kind, may_have_begun=True).definite
