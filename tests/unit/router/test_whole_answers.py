"""Answers that come as one, against the same in parts."""

import pytest
from tests.unit.router.requests import DELTA, DONE, EVENTS, JSON, STOP, Client

from opentela.router.attempt_events import (
    Action,
    Break,
    Commit,
    EndAttempt,
    Finish,
    Forward,
    GiveUp,
    Hold,
    Outcome,
    Reply,
    TryOn,
)
from opentela.router.config import AttemptConfig
from opentela.wire.frames import Headers


def said(actions: list[Action]) -> tuple[object, ...]:
    """Return what comes of it: for the session, and for the client, without its framing."""
    body, others = b"", []
    for action in actions:
        match action:
            case Reply(answer=answer):
                body += answer.body
            case Commit(data=data) | Forward(data=data):
                body += data
            case EndAttempt() | TryOn() | Hold() | GiveUp() | Break():
                others.append(action)
            case Finish():
                pass
    return (body, *others)


@pytest.mark.parametrize("status", [200, 204, 302, 400, 429, 500, 502, 503, 99, 700])
@pytest.mark.parametrize("headers", [JSON, EVENTS, (*EVENTS, ("content-encoding", "gzip"))])
@pytest.mark.parametrize("body", [b"", b"{}", DELTA, STOP + DONE, b"data: [DONE]"])
def test_an_answer_that_comes_as_one_means_what_its_parts_would(
    status: int, headers: Headers, body: bytes
) -> None:
    """Errors, streams and what has no body included; how it is framed may differ."""
    config = AttemptConfig()
    whole, parts = Client(config=config, streams=True), Client(config=config, streams=True)
    told = whole.whole(status, body, headers)
    in_parts = [*parts.head(status, headers), *parts.data(body), *parts.end()]
    assert said(told) == said(in_parts)
    assert whole.outcome is parts.outcome
    assert whole.attempts.status == parts.attempts.status


def test_what_the_client_gets_as_it_is_makes_no_action() -> None:
    """A success that is no stream; of everything else nothing is taken, and `step` has it."""
    client = Client()
    for status, headers in ((200, EVENTS), (204, JSON), (404, JSON), (503, JSON), (99, JSON)):
        assert not client.attempts.answers(status, headers)
    assert client.attempts.answers(200, JSON)
    assert client.attempts.is_done
    assert client.outcome is Outcome.OK
    assert (client.attempts.status, client.due) == (200, None)
    assert not client.attempts.answers(200, JSON)
