"""The books say what became of a request."""

import random

from tests.unit.router.parts import candidate

from opentela.router.attempt import Attempts
from opentela.router.attempt_events import Data, End, Head, Outcome
from opentela.router.config import AttemptConfig
from opentela.router.paths import EnginePath
from opentela.router.policies.base import Call
from opentela.router.records import NO_USAGE, record_of, usage_of

EVENTS = (("content-type", "text/event-stream"),)
LAST = (
    b'data: {"choices":[{"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":9,"completion_tokens":4}}\n\n'
)


def test_an_answered_request_is_booked() -> None:
    """With the session, the tokens and the times."""
    attempts = Attempts(
        config=AttemptConfig(),
        path=EnginePath(),
        streams=True,
        choose=lambda _tried: candidate("s"),
        rng=random.Random(1),
    )
    attempts.start(10.0)
    for now, event in ((10.5, Head(200, EVENTS)), (11.0, Data(LAST)), (12.0, End())):
        attempts.step(now, event)
    record = record_of(
        Call("m", "r"),
        attempts,
        id="i",
        router="r1",
        path="/v1/completions",
        status=200,
        outcome=attempts.outcome,
        streamed=True,
        began_at=10.0,
        now=12.0,
        wall=1000.5,
    )
    assert (record.session, record.provider, record.site) == ("s", "cscs", "alps")
    assert (record.tokens_in, record.tokens_out, record.attempts) == (9, 4, 1)
    assert (record.ttft_s, record.duration_s, record.at_ms) == (1.0, 2.0, 1_000_500)
    assert (record.outcome, record.model, record.request) == ("ok", "m", "r")


def test_a_refused_request_is_booked_without_a_session() -> None:
    """None was looked for."""
    record = record_of(
        Call("", "r"),
        None,
        id="i",
        router="r1",
        path="/",
        status=400,
        outcome=Outcome.REJECTED,
        streamed=False,
        began_at=1.0,
        now=1.0,
        wall=0.0,
    )
    assert (record.session, record.attempts, record.ttft_s) == ("", 0, -1.0)
    assert usage_of(None) is NO_USAGE
