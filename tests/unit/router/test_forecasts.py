"""Each model has its own forecast, from whole answers alone."""

import msgspec
import pytest

from opentela.core.ids import ProviderId, SessionId, SiteId
from opentela.router.attempt_events import Outcome
from opentela.router.forecasts import EVERY_MS, MODELS_MAX, Forecasts
from opentela.wire.usage import UsageRecord


def finished(
    model: str, duration_s: float, tokens_out: int = 0, outcome: str = "ok"
) -> UsageRecord:
    """Return the record of a request."""
    return UsageRecord(
        id="1",
        request="r",
        at_ms=0,
        router="r1",
        model=model,
        session=SessionId("s"),
        provider=ProviderId("p"),
        site=SiteId("alps"),
        path="/v1/chat/completions",
        status=200,
        outcome=outcome,
        attempts=1,
        streamed=True,
        tokens_in=1,
        tokens_cached=0,
        tokens_out=tokens_out,
        ttft_s=0.1,
        duration_s=duration_s,
    )


def test_models_are_learned_apart() -> None:
    """A small one's pace says nothing of a large one's."""
    forecasts = Forecasts()
    forecasts.learn(finished("small", 1.0, 100), b"{}")
    forecasts.learn(finished("large", 10.0, 100), b"{}")
    assert forecasts.lasts_s("small", b'{"max_tokens":1000}') == pytest.approx(10.0)
    assert forecasts.lasts_s("large", b'{"max_tokens":1000}') == pytest.approx(100.0)
    assert forecasts.lasts_s("unheard of", b"{}") == 0.0


def test_a_busy_model_is_learned_of_now_and_then() -> None:
    """What all its answers would tell, some do."""
    forecasts = Forecasts()
    for at_ms, duration_s in ((1000, 1.0), (1001, 9.0), (1000 + EVERY_MS, 2.0)):
        record = msgspec.structs.replace(finished("m", duration_s), at_ms=at_ms)
        forecasts.learn(record, b"{}")
    assert forecasts.lasts_s("m", b"{}") == 2.0


@pytest.mark.parametrize("outcome", [one.value for one in Outcome if one is not Outcome.OK])
def test_what_did_not_end_well_teaches_nothing(outcome: str) -> None:
    """A broken answer is shorter than it would have been, a time-out longer."""
    forecasts = Forecasts()
    forecasts.learn(finished("m", 500.0, 5, outcome), b"{}")
    assert forecasts.lasts_s("m", b"{}") == 0.0


def test_models_are_forgotten_oldest_first() -> None:
    """However many there were."""
    forecasts = Forecasts()
    for number in range(MODELS_MAX + 1):
        forecasts.learn(finished(f"m{number}", 5.0), b"{}")
    assert forecasts.lasts_s("m0", b"{}") == 0.0
    assert forecasts.lasts_s("m1", b"{}") == 5.0


def test_a_model_that_is_asked_for_again_and_again_is_not_forgotten() -> None:
    """Be it the first of all: others come and go."""
    forecasts = Forecasts()
    for number in range(3 * MODELS_MAX):
        forecasts.learn(finished("busy", 3.0), b"{}")
        forecasts.learn(finished(f"m{number}", 1.0), b"{}")
    assert forecasts.lasts_s("busy", b"{}") == 3.0
    assert forecasts.lasts_s("m0", b"{}") == 0.0


def test_a_clock_that_is_set_back_stops_no_learning() -> None:
    """For an hour nothing would be learnt, and requests be sent where they do not fit any more."""
    forecasts = Forecasts()
    for at_ms, duration_s in ((3_600_000, 1.0), (1_000, 100.0)):
        record = msgspec.structs.replace(finished("m", duration_s), at_ms=at_ms)
        forecasts.learn(record, b"{}")
    assert forecasts.lasts_s("m", b"{}") > 1.0
