"""`round_robin` goes round, whoever joins or leaves."""

import pytest
from tests.unit.router.parts import Dice, candidate

from opentela.router.outcomes import Result
from opentela.router.policies import round_robin
from opentela.router.policies.base import Call, Observed
from opentela.router.policies.round_robin import RoundRobin

A, B, C, D = (candidate(name) for name in "abcd")


def test_each_session_has_its_turn() -> None:
    """In order of id, and again."""
    policy = RoundRobin(Dice())
    assert [policy.pick(Call("m", ""), [A, B, C]).session for _ in range(7)] == list("abcabca")


def test_turns_of_models_are_their_own() -> None:
    """A busy model does not skip a quiet one's sessions."""
    policy = RoundRobin(Dice())
    picked = [policy.pick(Call(model, ""), [A, B]).session for model in "mmnmn"]
    assert picked == list("abaab")


def test_a_session_that_leaves_or_joins_shifts_nobody() -> None:
    """After b comes c, whether b is still there or not."""
    policy = RoundRobin(Dice())
    assert policy.pick(Call("m", ""), [A, B, D]).session == "a"
    assert policy.pick(Call("m", ""), [A, B, D]).session == "b"
    assert policy.pick(Call("m", ""), [A, C, D]).session == "c"
    assert policy.pick(Call("m", ""), [A]).session == "a"


def test_turns_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The longest known model begins anew."""
    monkeypatch.setattr(round_robin, "MODELS_MAX", 2)
    policy = RoundRobin(Dice())
    for model in "xyz":
        assert policy.pick(Call(model, ""), [A, B]).session == "a"
    assert policy.pick(Call("y", ""), [A, B]).session == "b"
    assert policy.pick(Call("x", ""), [A, B]).session == "a"


def test_nothing_is_counted() -> None:
    """Starts and ends leave no trace."""
    policy = RoundRobin(Dice())
    policy.on_request_start(Call("m", ""), A)
    policy.on_request_end(Call("m", ""), A, Observed(Result.ANSWERED))
    assert policy.pick(Call("m", ""), [A, B]).session == "a"
