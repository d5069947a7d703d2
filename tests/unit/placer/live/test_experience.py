"""What replicas were seen to do, and what is made of it."""

import msgspec
import pytest
from tests.unit.placer.live import parts

from opentela.placer.live.config import ModelConfig
from opentela.placer.live.experience import (
    ENOUGH,
    LEAST,
    MINUTE_S,
    MINUTES,
    MOST,
    Experience,
    Seen,
    ratio,
)
from opentela.placer.problem import Group
from opentela.wire.usage import UsageRecord

A = Group("a", "p", 1)
MODEL = ModelConfig(name="a", ttft_s=2.0, tpot_s=0.1)
END = (MINUTES + 1) * MINUTE_S


def told(*, ttft_s: float = 1.0, tpot_s: float = 0.05) -> UsageRecord:
    used = parts.used("a", tokens_out=11)
    return msgspec.structs.replace(used, ttft_s=ttft_s, duration_s=ttft_s + 10 * tpot_s)


def experience(count: int, **of: float) -> Experience:
    """Return what is known after *count* requests that were spread over the time."""
    one = Experience()
    for at in range(count):
        one.add(MINUTE_S + at * MINUTES * MINUTE_S / count, A, told(**of), MODEL)
    return one


def test_rate_and_promises_are_those_of_one_replica() -> None:
    """Two of them did it together."""
    (seen,) = experience(300).seen(END, {A: 2}).values()
    assert seen == pytest.approx(Seen(0.5, 1.0))


@pytest.mark.parametrize("of", [{"ttft_s": 2.5}, {"tpot_s": 0.2}])
def test_a_promise_is_broken_by_its_first_token_or_by_the_others(of: dict[str, float]) -> None:
    """By what the router has measured."""
    assert experience(300, **of).seen(END, {A: 1})[A].kept == 0.0


def test_an_answer_in_one_piece_has_no_first_token() -> None:
    """Only its whole time can be judged, and whether it came."""
    one = Experience()
    whole = parts.used("a")
    quick = msgspec.structs.replace(MODEL, e2e_s=0.5)
    for model in (MODEL, quick):
        for _ in range(ENOUGH):
            one.add(MINUTE_S, A, whole, model)
    failed = msgspec.structs.replace(whole, outcome="broken")
    for _ in range(ENOUGH):
        one.add(MINUTE_S, A, failed, MODEL)
    assert one.seen(END, {A: 1})[A].kept == pytest.approx(1 / 3)


def test_a_few_requests_say_nothing() -> None:
    """Nor does what was before the others came, or the minute that has not ended."""
    assert experience(ENOUGH - 1).seen(END, {A: 1}) == {}
    one = experience(300)
    assert one.seen(2 * END, {A: 1}) == {}
    assert one.seen(END, {}) == {}
    assert one.seen(END, {A: 1}) == {}


def test_who_breaks_promises_serves_as_much_as_it_can() -> None:
    """Whether that is less than believed or more; much less has another cause."""
    assert ratio(1.0, 2.0, Seen(1.0, 0.1)) == 0.5
    assert ratio(0.5, 2.0, Seen(3.0, 0.1)) == 1.5
    assert ratio(1.0, 2.0, Seen(2.0 * LEAST / 2, 0.0)) == 1.0


def test_who_keeps_them_does_at_least_that() -> None:
    """Within bounds; and where it is neither, nothing is learnt."""
    assert ratio(1.0, 2.0, Seen(1.0, 1.0)) == 1.0
    assert ratio(1.0, 2.0, Seen(3.0, 1.0)) == 1.5
    assert ratio(1.0, 2.0, Seen(90.0, 1.0)) == MOST
    assert ratio(0.7, 2.0, Seen(3.0, 0.7)) == 0.7
