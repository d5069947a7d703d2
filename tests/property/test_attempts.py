"""Whatever happens to a request, in whatever order: it ends once, and tells nothing false."""

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.router.parts import Dice, candidate

from opentela.core.ids import SessionId
from opentela.router.attempt import Attempts
from opentela.router.attempt_events import (
    Action,
    Break,
    ClientGone,
    Commit,
    Data,
    End,
    EndAttempt,
    Event,
    Failed,
    Finish,
    Forward,
    GiveUp,
    Head,
    Hold,
    Outcome,
    Recheck,
    Reply,
    Tick,
    TryOn,
)
from opentela.router.choosing import Held
from opentela.router.config import AttemptConfig
from opentela.router.directory import Candidate
from opentela.router.endings import MAY_BE_SLOW
from opentela.router.fault import Fault, FaultKind
from opentela.router.paths import EnginePath
from opentela.stream.failures import failure
from opentela.wire.frames import FailKind

CONFIG = AttemptConfig(
    attempts_max=3, backoff_s=0.1, first_s=5, unary_s=7, idle_s=2, total_s=30, held_bytes_max=20
)
EVENTS = (("content-type", "text/event-stream"),)
JSON = (("content-type", "application/json"),)
DELTA = b'data: {"choices":[{"index":0,"finish_reason":null}]}\n\n'
STOP = b'data: {"choices":[{"index":0,"finish_reason":"stop"}]}\n\n'

HEADS = st.builds(
    Head,
    st.sampled_from([200, 200, 200, 400, 429, 500, 502, 503, 99]),
    st.sampled_from([EVENTS, JSON]),
)
DATA = st.builds(
    Data, st.sampled_from([b"", b"x", b"x" * 30, DELTA, STOP, DELTA[:9], b"data: [DONE]\n\n"])
)
FAILURES = st.builds(
    lambda kind, begun: Failed(failure(1, kind, may_have_begun=begun)),
    st.sampled_from(FailKind),
    st.booleans(),
)
ANY = HEADS | DATA | FAILURES | st.sampled_from([End(), Tick(), Recheck()])
HELD = Held(4.0, Fault(kind=FaultKind.MODEL_BUSY, message="busy"))
STEPS = st.lists(st.tuples(st.floats(0, 8), ANY | st.just(ClientGone())), max_size=40)


class Client:
    """What a client has got so far, and what is under way for it."""

    def __init__(self) -> None:
        self.under_way: Candidate | None = None
        self.tried: list[SessionId] = []
        self.has_begun = False
        self.spared: SessionId | None = None
        self.endings: list[Action] = []

    def take(self, action: Action) -> None:
        """Take an action, which must fit what was before."""
        # The answer goes first, and the books after it.
        is_answered = [type(one) for one in self.endings] == [Reply]
        is_booked = is_answered and isinstance(action, EndAttempt)
        assert is_booked or not self.endings, f"{action} after {self.endings}"
        match action:
            case TryOn(candidate=chosen):
                assert self.under_way is None
                assert not self.has_begun, "another attempt after the answer began"
                # Only the way there broke, or it stood still; it may not even have noticed.
                is_spared = chosen.session == self.spared
                assert is_spared or chosen.session not in self.tried, "the same session twice"
                self.under_way = chosen
                self.tried.append(chosen.session)
            case Hold():
                assert self.under_way is None
            case EndAttempt(candidate=chosen):
                assert chosen is self.under_way
                self.under_way = None
            case Commit(data=data):
                assert not self.has_begun
                assert data
                self.has_begun = True
            case Forward(data=data):
                assert self.has_begun
                assert data, "nothing is forwarded"
            case Reply() | GiveUp():
                assert not self.has_begun, "a second answer"
                self.endings.append(action)
            case Finish() | Break():
                assert self.has_begun
                self.endings.append(action)


@given(
    steps=STEPS,
    streams=st.booleans(),
    only_computes=st.booleans(),
    count=st.integers(0, 5),
    holds=st.lists(st.booleans(), max_size=6),
)
def test_every_request_ends_once_and_every_attempt_too(
    steps: list[tuple[float, Event]],
    holds: list[bool],
    *,
    streams: bool,
    only_computes: bool,
    count: int,
) -> None:
    """No session is tried twice, none after the answer began, and nothing follows the end."""

    def choose(tried: tuple[SessionId, ...]) -> Candidate | Fault | Held:
        if holds and holds.pop():
            return HELD
        left = [one for one in map(candidate, "abcde"[:count]) if one.session not in tried]
        return left[0] if left else Fault(kind=FaultKind.NO_LIVE_SESSION, message="none")

    attempts = Attempts(
        config=CONFIG,
        path=EnginePath(only_computes=only_computes, ends_with_done=True),
        streams=streams,
        choose=choose,
        rng=Dice(),
    )
    client, now = Client(), 0.0

    def step(event: Event | None) -> None:
        actions = attempts.start(now) if event is None else attempts.step(now, event)
        for action in actions:
            client.take(action)
        assert attempts.is_done is (attempts.outcome is not Outcome.RUNNING)
        assert attempts.is_done or attempts.next_deadline() is not None, "it could last for ever"
        assert list(attempts.tried) == client.tried
        assert len(client.tried) <= CONFIG.attempts_max

    step(None)
    for pause_s, event in steps:
        now += pause_s
        if isinstance(event, Failed) and client.under_way:
            is_lost = event.fail.kind in MAY_BE_SLOW
            client.spared = client.under_way.session if is_lost else None
        step(event)
    while not attempts.is_done:
        deadline = attempts.next_deadline()
        assert deadline is not None
        now = max(now, deadline)
        step(Tick())
    assert client.under_way is None
    assert len(client.endings) == (attempts.outcome is not Outcome.CANCELLED)
    is_broken = any(isinstance(ending, Break) for ending in client.endings)
    assert is_broken is (attempts.outcome is Outcome.BROKEN)
