"""One attempt in a simulated router: the caller's half of its stream."""

from typing import TYPE_CHECKING

from opentela.router.attempt_events import (
    Acked,
    End,
    Event,
    Failed,
    TryOn,
)
from opentela.router.attempt_events import Data as DataCame
from opentela.router.attempt_events import Head as HeadCame
from opentela.stream import caller
from opentela.stream.events import (
    TICK,
    Acknowledged,
    Begin,
    CallerAction,
    CallerEvent,
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

    def feed(self, event: CallerEvent) -> None:
        """Take an event."""
        self._driver.feed(event)

    def _settle(self) -> None:
        if self._caller.ended:
            self._driver.stop()
            self._router.legs.pop(self._caller.stream, None)

    def _perform(self, action: CallerAction) -> None:
        match action:
            case Open():
                self._publish(action, reply=self._reply)
            case Body() | Credit() | Cancel():
                self._publish(action)
            case Acknowledged():
                self._tell(Acked())
            case Head(status=status, headers=headers):
                self._tell(HeadCame(status, headers))
            case Data(data=data):
                self._tell(DataCame(data))
                self._driver.feed(Consumed(len(data)))
            case frames.End():
                self._tell(End())
            case Fail():
                self._tell(Failed(action))

    def _publish(self, frame: Open | Body | Credit | Cancel, *, reply: str = "") -> None:
        payload = frames.encode(frame)
        self._router.node.publish(subjects.data(self._path), payload, reply=reply)

    def _tell(self, event: Event) -> None:
        if not self.is_over:
            self._exchange.feed(event)
