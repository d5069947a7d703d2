"""A simulated router: view, directory, policy and attempts joined as its shells join them.

HTTP is left out: a client hands its request over in the router's own process, and what it gets is
written into the history.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final

import msgspec

from opentela.core.errors import WireError
from opentela.core.ids import SessionId
from opentela.core.record import SessionRecord, is_suspected, lifecycle_of
from opentela.core.session_map import SessionMap
from opentela.mesh.bus import Message
from opentela.router.attempt_events import TryOn
from opentela.router.choosing import Chooser
from opentela.router.config import AttemptConfig, EjectionConfig
from opentela.router.directory import Directory
from opentela.router.matching import NO_WISH, admitted
from opentela.router.outcomes import Outcomes
from opentela.router.policies.least_load import LeastLoad
from opentela.router.sightings import Sightings
from opentela.stream.caller import CallerSettings
from opentela.stream.events import NoResponders
from opentela.testing.sim import keys
from opentela.testing.sim.driver import Driver, Inbox
from opentela.testing.sim.exchange import Exchange
from opentela.testing.sim.history import Attempt, History, Request
from opentela.testing.sim.leg import Leg
from opentela.testing.world_node import Node
from opentela.view import machine as v
from opentela.view.config import ViewConfig
from opentela.wire import control, frames, subjects
from opentela.wire.frames import Credit, Data, End, Fail, Head

_EPOCH_BITS: Final = 32


class RouterForm(msgspec.Struct, frozen=True, kw_only=True):
    """The knobs of a simulated router; the defaults are the product's own."""

    view: ViewConfig = ViewConfig()
    attempts: AttemptConfig = AttemptConfig()
    ejection: EjectionConfig = EjectionConfig()
    stream: CallerSettings = CallerSettings()
    walltime_margin_s: float = 120.0


class RouterShell:
    """One life of one router process.

    Attributes:
        view: The real view machine; checkers read its map.
        exchanges: Requests under way, by name.
        legs: Streams under way, by stream id.
        unreadable: Messages that could not be read.
    """

    def __init__(self, node: Node, form: RouterForm, history: History) -> None:
        self.node = node
        self.form = form
        self.history = history
        self.view = v.ViewMachine(
            name=node.name, verify=keys.vouch(), rng=node.rng, config=form.view
        )
        self.directory = Directory()
        self.directory.is_complete = False
        self.outcomes = Outcomes(form.ejection)
        self.sightings = Sightings()
        self.policy = LeastLoad(node.rng)
        self.chooser = Chooser(
            self.directory, self.outcomes, self.policy, walltime_margin_s=form.walltime_margin_s
        )
        self.exchanges: dict[str, Exchange] = {}
        self.legs: dict[int, Leg] = {}
        self.unreadable = 0
        self._owed: list[tuple[str, bytes, str]] = []
        self.instance = f"i{node.epoch}"
        self._streams = node.rng.getrandbits(_EPOCH_BITS) << _EPOCH_BITS
        self._inbox = Inbox(node, node.name)
        self._driver = Driver[v.Event, v.Action](
            node,
            "view",
            step=lambda now, event: self.view.step(now, node.wall(), event),
            perform=self._perform,
            next_deadline=self.view.next_deadline,
            tick=v.Tick(),
            after=self._note_completeness,
        )
        node.subscribe(subjects.ALL_DELTAS, self._on_delta)
        node.subscribe(subjects.ALL_VERDICTS, self._on_verdict)
        node.subscribe(subjects.REGISTRIES, self._on_presence)
        node.subscribe(subjects.replies(node.name, self.instance), self._on_frame)
        node.on_no_responders = self._on_no_responders
        node.on_mesh_lost = self._on_mesh_lost
        node.on_mesh_back = self._on_mesh_back

    def begin(self) -> None:
        """Start to ask for the map."""
        self._driver.feed(v.Tick())

    @property
    def records(self) -> Mapping[SessionId, SessionRecord]:
        """Everything held, tombstones included."""
        return self.view.held.records

    @property
    def held(self) -> SessionMap:
        """The map."""
        return self.view.held

    # Clients -----------------------------------------------------------------

    def ask(self, request: Request) -> None:
        """Take a request of a client."""
        exchange = self.exchanges[request.name] = Exchange(self, request)
        exchange.begin()

    def leave(self, name: str) -> None:
        """Let the client of a request go, if it is still there."""
        exchange = self.exchanges.get(name)
        if exchange is not None:
            exchange.client_gone()

    def open(self, action: TryOn, leg: Leg) -> int:
        """Give a leg its stream id, and write the attempt down."""
        self._streams += 1
        self.legs[self._streams] = leg
        session = action.candidate.session
        record = self.records.get(session)
        lifecycle = "UNKNOWN" if record is None else lifecycle_of(record).name
        pool = self.directory.pool(leg.request.ask.model)
        tried = [attempt.session for attempt in leg.request.attempts]
        leg.request.attempts.append(
            Attempt(
                at=self.node.world.now,
                router=self.node.name,
                session=session,
                lifecycle=lifecycle,
                suspected=record is not None and is_suspected(record),
                others=len(admitted(pool, NO_WISH, tried, wall=self.node.wall())),
            )
        )
        return self._streams

    # Mesh --------------------------------------------------------------------

    def _on_delta(self, message: Message) -> None:
        try:
            signed = control.read_delta(message.payload).signed
            path = subjects.path_of(message.subject)
        except WireError:
            self.unreadable += 1
        else:
            self._driver.feed(v.DeltaHeard(path=path, signed=signed))

    def _on_verdict(self, message: Message) -> None:
        try:
            verdict = control.read_verdict(message.payload)
            path = subjects.path_of(message.subject)
        except WireError:
            self.unreadable += 1
        else:
            self._driver.feed(v.VerdictHeard(path=path, verdict=verdict))

    def _on_presence(self, message: Message) -> None:
        try:
            presence = control.read_presence(message.payload)
        except WireError:
            self.unreadable += 1
        else:
            self._driver.feed(v.PresenceHeard(presence=presence))

    def _on_frame(self, message: Message) -> None:
        try:
            frame = frames.decode(message.payload)
        except WireError:
            self.unreadable += 1
            return
        leg = self.legs.get(frame.stream)
        if leg is None or not leg.is_answered_on(message.subject):
            return
        if isinstance(frame, Head | Data | End | Fail | Credit):
            leg.feed(frame)

    def _on_no_responders(self, reply: str) -> None:
        if self._inbox.no_responders(reply):
            return
        leg = self.legs.get(int(reply.rpartition(".")[2], 16))
        if leg is not None:
            leg.feed(NoResponders())

    def _on_mesh_lost(self) -> None:
        for leg in list(self.legs.values()):
            leg.lose_carrier()

    def _on_mesh_back(self) -> None:
        owed, self._owed = self._owed, []
        for subject, payload, reply in owed:
            self.node.publish(subject, payload, reply=reply)
        self._driver.feed(v.MeshBack())

    def owe(self, letter: tuple[str, bytes, str]) -> None:
        """Keep a `Cancel` until the mesh is back."""
        self._owed.append(letter)

    def _perform(self, action: v.Action) -> None:
        match action:
            case v.AskRegistry(number=number, ask=ask):
                self._inbox.request(
                    subjects.SNAPSHOT,
                    control.encode(ask),
                    timeout_s=self.form.view.ask_timeout_s,
                    then=partial(self._answered, number),
                )
            case v.TellRegistry(records=records):
                self.node.publish(subjects.RELAY, control.encode(records))
            case v.Changed(records=changed):
                for session in self.directory.apply(changed):
                    self.outcomes.forget(session)
            case v.Refused():
                self.node.note(".", f"refused {action}")

    def _note_completeness(self) -> None:
        self.directory.is_complete = self.view.caught_up

    def _answered(self, number: int, payload: bytes | None) -> None:
        event: v.Event = v.AskFailed(number=number)
        if payload is not None:
            try:
                answer = control.read_snapshot_answer(payload)
                event = v.Answered(number=number, answer=answer)
            except WireError:
                self.unreadable += 1
        self._driver.feed(event)


def lane_of(subject: str) -> str:
    """Return which of a process' two connections a subject goes over."""
    is_data = subject.startswith((_DATA, _REPLY))
    return "data" if is_data else "control"


_DATA: Final = subjects.whole("data").removesuffix(">")
_REPLY: Final = subjects.whole("reply").removesuffix(">")
