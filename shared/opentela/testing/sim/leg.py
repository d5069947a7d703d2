"""One attempt in a simulated router: the caller's half of its stream."""

from typing import TYPE_CHECKING

from opentela.router.attempt_events import Data as DataCame
from opentela.router.attempt_events import (
    End,
    Event,
    Failed,
    TryOn,
    Whole,
)
from opentela.router.attempt_events import Head as HeadCame
from opentela.stream import caller
from opentela.stream.events import (
    TICK,
    Acknowledged,
    Begin,
    CallerAction,
    CallerEvent,
    CarrierLost,
    Consumed,
    Withdraw,
)
from opentela.testing.sim.driver import Driver
from opentela.testing.sim.history import Request
from opentela.wire import frames, subjects
from opentela.wire.frames import Body, Cancel, Credit, Data, Fail, Head, Open

if TYPE_CHECKING:
    from opentela.testing.sim.exchange import Exchange
    from opentela.testing.sim.router_shell import RouterShell


class Leg:
    """A stream to one session, for one attempt.

    Attributes:
        is_over: What it still tells concerns nobody.
    """

    def __init__(
        self,
        router: "RouterShell",
        exchange: "Exchange",
        request: Request,
        action: TryOn,
        body: bytes,
    ) -> None:
        self.request = request
        self.is_over = False
        self._router = router
        self._exchange = exchange
        self._path = action.candidate.path
        stream = router.open(action, self)
        self._caller = caller.Caller(
            stream,
            caller.Request(
                method="POST",
                path="/v1/chat/completions",
                headers=(("x-request-id", request.name),),
                body=body,
                deadline_s=action.deadline_s,
            ),
            router.form.stream,
        )
        self._reply = subjects.reply(
            router.node.name, self._path.provider, router.instance, f"{stream:016x}"
        )
        self._answers = subjects.answer(self._reply, self._path)
        self._driver = Driver[CallerEvent, CallerAction](
            router.node,
            f"caller/{stream}",
            step=self._caller.step,
            perform=self._perform,
            next_deadline=self._caller.next_deadline,
            tick=TICK,
            after=self._settle,
        )

    def begin(self) -> None:
        """Send the request."""
        self.feed(Begin())

    def cancel(self, reason: str) -> None:
        """Stop the engine; nothing more is told."""
        self.feed(Withdraw(reason))

    def is_answered_on(self, subject: str) -> bool:
        """Return whether nobody but the asked session may publish on *subject*."""
        return subject == self._answers

    def feed(self, event: CallerEvent) -> None:
        """Take an event."""
        self._driver.feed(event)

    def _settle(self) -> None:
        if self._caller.ended:
            self._driver.stop()
            self._router.legs.pop(self._caller.stream, None)

    def _perform(self, action: CallerAction) -> None:
        match action:
            case Open() | Body() | Credit() | Cancel():
                self._publish(action)
            case Acknowledged():
                pass  # of the stream's time-outs, not of the request's
            case Head(status=status, headers=headers, end=None):
                self._tell(HeadCame(status, headers))
            case Head(status=status, headers=headers, data=data):
                self._tell(Whole(status, headers, data))
            case Data(data=data):
                self._tell(DataCame(data))
                self._driver.feed(Consumed(len(data)))
            case frames.End():
                self._tell(End())
            case Fail():
                self._tell(Failed(action))

    def lose_carrier(self) -> None:
        """Fail without a mesh; the session is told when there is one again."""
        self._router.owe(self._letter(Cancel(self._caller.stream, "the router lost the mesh")))
        self.feed(CarrierLost())

    def _letter(self, frame: Open | Body | Credit | Cancel) -> tuple[str, bytes, str]:
        return subjects.data(self._path), frames.encode(frame), self._reply

    def _publish(self, frame: Open | Body | Credit | Cancel) -> None:
        letter = self._letter(frame)
        subject, payload, reply = letter
        if self._router.node.publish(subject, payload, reply=reply):
            return
        if isinstance(frame, Cancel):
            self._router.owe(letter)
        else:
            self._driver.feed(CarrierLost(unsent=isinstance(frame, Open | Body)))

    def _tell(self, event: Event) -> None:
        if not self.is_over:
            self._exchange.feed(event)
