"""What was measured counts; before that, what hardware promises, as the others keep it."""

import pytest
from tests.unit.router.parts import candidate

from opentela.router.outcomes import Result
from opentela.router.policies import speeds as module
from opentela.router.policies.base import Observed
from opentela.router.policies.speeds import Speeds

FAST, SLOW = candidate("a", hardware="NVIDIA H100 80GB HBM3"), candidate("b", hardware="NVIDIA L4")


def answered(tokens: int, seconds: float, **more: int) -> Observed:
    """Return a request that took *seconds*."""
    return Observed(Result.ANSWERED, seconds, tokens_out=tokens, **more)


def test_before_anything_is_known_hardware_decides() -> None:
    """In proportion to its memory's bandwidth."""
    speeds = Speeds()
    assert speeds.of("m", FAST) / speeds.of("m", SLOW) == pytest.approx(3350 / 300)


def test_what_was_measured_overrules_what_was_promised() -> None:
    """A fast GPU that others use is a slow one."""
    speeds = Speeds()
    for _ in range(200):
        speeds.learn("m", FAST, answered(100, 10.0))
        speeds.learn("m", SLOW, answered(100, 2.0))
    assert speeds.of("m", FAST) == pytest.approx(10, rel=0.3)
    assert speeds.of("m", SLOW) == pytest.approx(50, rel=0.3)


def test_an_unknown_session_is_measured_by_what_others_kept() -> None:
    """If the others reach a tenth of a token a second for each GB/s, it will as well."""
    speeds = Speeds()
    for _ in range(50):
        speeds.learn("m", FAST, answered(335, 1.0))
    assert speeds.of("m", SLOW) == pytest.approx(30)
    assert speeds.of("other", SLOW) == 300


def test_prompts_are_work_too_but_not_what_a_cache_held() -> None:
    """An embedding has no answer that could be counted."""
    speeds = Speeds()
    for _ in range(2000):
        speeds.learn("e", FAST, answered(0, 1.0, tokens_in=6400 + 64, tokens_cached=64))
    assert speeds.of("e", FAST) == pytest.approx(100)


@pytest.mark.parametrize("result", [one for one in Result if one is not Result.ANSWERED])
def test_what_failed_teaches_nothing(result: Result) -> None:
    """A client that left after a second says nothing of speed."""
    speeds = Speeds()
    speeds.learn("m", FAST, Observed(result, 1.0, tokens_out=5))
    speeds.learn("m", FAST, answered(0, 1.0))
    assert (speeds.lessons, speeds.of("m", FAST)) == (0, 3350)


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The longest known are forgotten, and learnt anew if they are still there."""
    monkeypatch.setattr(module, "SESSIONS_MAX", 2)
    monkeypatch.setattr(module, "MODELS_MAX", 1)
    speeds = Speeds()
    for model in ("x", "y", "z"):
        speeds.learn(model, FAST, answered(100, 1.0))
    assert [model for model, _ in speeds._learnt] == ["y", "z"]
    assert list(speeds._kept) == ["z"]
