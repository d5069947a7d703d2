"""A request that a test drives from its first attempt to its end."""

from tests.unit.router.parts import Dice, candidate

from opentela.core.ids import SessionId
from opentela.router.attempt import Attempts
from opentela.router.attempt_events import (
    Action,
    ClientGone,
    Data,
    End,
    Failed,
    Head,
    Outcome,
    Recheck,
    Tick,
    Whole,
)
from opentela.router.choosing import Held
from opentela.router.config import AttemptConfig
from opentela.router.directory import Candidate
from opentela.router.fault import Fault, FaultKind
from opentela.router.paths import EnginePath
from opentela.router.retries import RetryBudget
from opentela.stream.failures import failure
from opentela.wire.frames import FailKind, Headers

CONFIG = AttemptConfig(
    attempts_max=3,
    backoff_s=0.125,
    backoff_max_s=0.1875,
    first_s=10.0,
    unary_s=60.0,
    idle_s=5.0,
    total_s=100.0,
    held_bytes_max=10,
)
CHAT = EnginePath(ends_with_done=True)
STORING = EnginePath(only_computes=False)
A, B, C = (candidate(name) for name in "abc")
NONE_LEFT = Fault(kind=FaultKind.NO_LIVE_SESSION, message="none")

JSON: Headers = (("content-type", "application/json"),)
EVENTS: Headers = (("content-type", "text/event-stream"),)
DELTA = b'data: {"choices":[{"index":0,"finish_reason":null}]}\n\n'
STOP = b'data: {"choices":[{"index":0,"finish_reason":"stop"}]}\n\n'
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}\n\n'
DONE = b"data: [DONE]\n\n"


class Client:
    """Drives a request and remembers when it is."""

    def __init__(
        self,
        *,
        streams: bool = False,
        path: EnginePath = CHAT,
        candidates: tuple[Candidate, ...] = (A, B, C),
        config: AttemptConfig = CONFIG,
        dice: Dice | None = None,
        budget: RetryBudget | None = None,
        held: Held | None = None,
        held_for_again: Held | None = None,
    ) -> None:
        self.now = 1000.0
        self.candidates = candidates
        self.held_for_again = held_for_again
        asked: list[SessionId] = []

        self.held: Held | None = None

        def choose(tried: tuple[SessionId, ...]) -> Candidate | Fault | Held:
            if self.held is not None:
                return self.held
            left = [one for one in self.candidates if one.session not in tried]
            if not left:
                return NONE_LEFT
            if left[0].session in asked and self.held_for_again is not None:
                return self.held_for_again
            asked.append(left[0].session)
            return left[0]

        self.attempts = Attempts(
            config=config,
            path=path,
            streams=streams,
            choose=choose,
            rng=dice or Dice(),
            budget=budget,
        )
        self.held = held
        self.first = self.attempts.start(self.now)

    def at(self, now: float) -> "Client":
        """Let time pass until *now*, counted from the start."""
        self.now = 1000.0 + now
        return self

    def head(self, status: int = 200, headers: Headers = JSON) -> list[Action]:
        """The engine answers."""
        return self.attempts.step(self.now, Head(status, headers))

    def whole(self, status: int, body: bytes, headers: Headers = JSON) -> list[Action]:
        """Let the session answer at once."""
        return self.attempts.step(self.now, Whole(status, headers, body))

    def data(self, data: bytes) -> list[Action]:
        """A part comes."""
        return self.attempts.step(self.now, Data(data))

    def end(self) -> list[Action]:
        """The answer ends."""
        return self.attempts.step(self.now, End())

    def fail(self, kind: FailKind, *, begun: bool = True) -> list[Action]:
        """The attempt fails."""
        return self.attempts.step(self.now, Failed(failure(1, kind, may_have_begun=begun)))

    def tick(self) -> list[Action]:
        """Time is looked at."""
        return self.attempts.step(self.now, Tick())

    def recheck(self) -> list[Action]:
        """There may be a session."""
        return self.attempts.step(self.now, Recheck())

    def leave(self) -> list[Action]:
        """The client goes."""
        return self.attempts.step(self.now, ClientGone())

    @property
    def due(self) -> float | None:
        """When the next tick is due, counted from the start."""
        deadline = self.attempts.next_deadline()
        return None if deadline is None else round(deadline - 1000.0, 6)

    @property
    def outcome(self) -> Outcome:
        """How it ended."""
        assert self.attempts.is_done is (self.attempts.outcome is not Outcome.RUNNING)
        return self.attempts.outcome
