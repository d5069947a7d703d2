"""What would not be finished before the session leaves is not begun."""

from opentela.core.forecast import TRUSTED_MIN
from opentela.engine.curfew import AnswerLength, Curfew

NOON = 1_800_000_000.0
LONG = b'{"max_tokens":4000}'


def counted(tokens: int) -> AnswerLength:
    """Return the length of an answer in one piece."""
    answer = AnswerLength()
    answer.read(b'{"usage":{"completion_tokens":%d}}' % tokens)
    return answer


def learned(leave_at: float = NOON, answers: int = TRUSTED_MIN) -> Curfew:
    """Return the curfew of an engine that takes 20 ms a token."""
    curfew = Curfew()
    curfew.leave_at = leave_at
    for _ in range(answers):
        curfew.learn(2.0, counted(100), 100)
    return curfew


def test_a_request_that_fits_is_begun_and_a_longer_one_is_not() -> None:
    """4000 tokens of 20 ms are 80 s."""
    curfew = learned()
    assert curfew.refusal(NOON - 80.0, LONG) == ""
    assert curfew.refusal(NOON - 79.0, b'{"max_tokens":100}') == ""
    said = curfew.refusal(NOON - 79.0, LONG)
    assert said == "the request may take 80 s, and the session leaves in 79 s"


def test_a_request_without_a_bound_is_as_long_as_the_others_were() -> None:
    """What is not said is learned."""
    curfew = learned()
    assert curfew.refusal(NOON - 2.0, b"{}") == ""
    assert curfew.refusal(NOON - 1.5, b"{}")


def test_without_an_end_nothing_is_refused() -> None:
    """However long it may take."""
    assert learned(leave_at=0.0).refusal(NOON, b'{"max_tokens":999999}') == ""


def test_before_the_pace_is_known_nothing_is_refused() -> None:
    """A guess would lock out whoever asks for much by habit, and then nothing is ever learned."""
    assert learned(answers=TRUSTED_MIN - 1).refusal(NOON - 1.0, LONG) == ""
    assert learned(answers=TRUSTED_MIN).refusal(NOON - 1.0, LONG)


def test_tokens_are_those_that_the_engine_counted() -> None:
    """At the end of a stream, too, where a client asked for usage."""
    assert counted(7).tokens == 7
    stream = AnswerLength()
    for part in (b"data: {}\n\n", b"", b'data: {"usage":{"completion_tokens": 9}}\n\n'):
        stream.read(part)
    assert stream.tokens == 9


def test_without_a_count_the_events_of_a_stream_are_its_tokens() -> None:
    """Less the two that carry none."""
    stream = AnswerLength()
    stream.read(b"data: a\n\ndata: b\n\n")
    stream.read(b"data: c\n\ndata: finish\n\n")
    stream.read(b"data: [DONE]\n\n")
    assert stream.tokens == 3
    unknown = AnswerLength()
    unknown.read(b'{"data":[]}')
    assert unknown.tokens == 0
