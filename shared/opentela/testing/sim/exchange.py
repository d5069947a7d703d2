"""One request in a simulated router: performs what `Attempts` decides, into the history."""

from typing import TYPE_CHECKING, Final

import msgspec

from opentela.core.ids import SessionId
from opentela.router.attempt import Attempts
from opentela.router.attempt_events import (
    Action,
    Break,
    ClientGone,
    Commit,
    EndAttempt,
    Event,
    Finish,
    Forward,
    GiveUp,
    Hold,
    Outcome,
    Reply,
    Tick,
    TryOn,
)
from opentela.router.choosing import Held
from opentela.router.directory import Candidate
from opentela.router.endings import MAY_BE_SLOW
from opentela.router.fault import Fault, of_fail
from opentela.router.matching import NO_WISH
from opentela.router.paths import KNOWN
from opentela.router.policies.base import Call, Observed
from opentela.stream.failures import failure
from opentela.testing.sim import history
from opentela.testing.sim.driver import Driver
from opentela.testing.sim.history import Request
from opentela.testing.sim.leg import Leg
from opentela.wire import control, subjects

if TYPE_CHECKING:
    from opentela.testing.sim.router_shell import RouterShell

_PATH: Final = KNOWN[b"/v1/chat/completions"]
_ERROR: Final = 400
_SLOW: Final = {of_fail(failure(0, kind, "", may_have_begun=True)).message for kind in MAY_BE_SLOW}


class Exchange:
    """A client's request in one router.

    Attributes:
        request: What the history knows of it.
    """

    def __init__(self, router: "RouterShell", request: Request) -> None:
        self._router = router
        self.request = request
        self._body = msgspec.json.encode(request.ask)
        self._call = Call(request.ask.model, request.name)
        self._leg: Leg | None = None
        self._is_ended = False
        node = router.node
        self._attempts = Attempts(
            config=router.form.attempts,
            path=_PATH,
            streams=request.ask.stream,
            choose=self._choose,
            rng=node.rng,
        )
        self._driver = Driver[Event | None, Action](
            node,
            f"exchange/{request.name}",
            step=self._step,
            perform=self._perform,
            next_deadline=self._attempts.next_deadline,
            tick=Tick(),
        )

    def begin(self) -> None:
        """Start."""
        self._driver.feed(None)

    def feed(self, event: Event) -> None:
        """Take what happened."""
        self._driver.feed(event)

    def client_gone(self) -> None:
        """Let the client leave."""
        if not self._is_ended:
            self._router.node.note(".", f"client of {self.request.name} leaves")
            self.feed(ClientGone())
            if self._attempts.outcome is Outcome.CANCELLED:
                self._end(history.Outcome.CANCELLED, "the client left")

    def _step(self, now: float, event: Event | None) -> list[Action]:
        return self._attempts.start(now) if event is None else self._attempts.step(now, event)

    def _choose(self, tried: tuple[SessionId, ...]) -> Candidate | Fault | Held:
        node = self._router.node
        return self._router.chooser.choose(
            self._call, NO_WISH, tried, now=node.now(), wall=node.wall()
        )

    def _perform(self, action: Action) -> None:
        request = self.request
        match action:
            case TryOn():
                self._try_on(action)
            case Hold():
                raise AssertionError("a simulated router lets nobody wait")
            case EndAttempt():
                self._end_attempt(action)
            case Commit(status=status, data=data):
                request.status = status
                request.received += data
            case Forward(data=data):
                request.received += data
            case Reply(answer=answer):
                request.status = answer.status
                request.received += answer.body
                is_error = answer.status >= _ERROR
                outcome = history.Outcome.ERROR if is_error else history.Outcome.OK
                self._end(outcome, f"status {answer.status}")
            case Finish():
                self._end(history.Outcome.OK, "finished")
            case GiveUp(fault=fault) | Break(fault=fault):
                request.status = request.status or fault.http_status
                self._end(history.Outcome.ERROR, fault.message)

    def _try_on(self, action: TryOn) -> None:
        router = self._router
        router.outcomes.start(router.node.now(), action.candidate.session)
        router.policy.on_request_start(self._call, action.candidate)
        self._leg = Leg(router, self, self.request, action, self._body)
        self._leg.begin()

    def _end_attempt(self, action: EndAttempt) -> None:
        router, leg = self._router, self._leg
        assert leg is not None
        leg.is_over = True
        if action.why in _SLOW:
            attempts = self.request.attempts
            attempts[-1] = msgspec.structs.replace(attempts[-1], may_be_slow=True)
        if action.cancel:
            leg.cancel(action.why)
        router.policy.on_request_end(self._call, action.candidate, Observed(action.result))
        router.outcomes.end(router.node.now(), action.candidate.session, action.result)
        router.sightings.saw(router.node.now(), action.candidate.path, action.result)
        for sighted in router.sightings.taken():
            sighting = control.Sighting(router=router.node.name)
            router.node.publish(subjects.sighting(sighted), control.encode(sighting))
        if action.why:
            session = action.candidate.session[-6:]
            router.node.note(".", f"{self.request.name} at {session} failed: {action.why}")

    def _end(self, outcome: history.Outcome, why: str) -> None:
        """Tell the history; that a request ends once is for the checkers to see."""
        node = self._router.node
        self.request.ends.append((node.world.now, outcome, why))
        node.note(".", f"{self.request.name} ended: {outcome} ({why})")
        self._is_ended = True
        self._driver.stop()
        self._router.exchanges.pop(self.request.name, None)
