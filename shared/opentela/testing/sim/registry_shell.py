"""A simulated registry: subscriptions and a timer around `registry.machine`; decides nothing."""

from collections.abc import Callable, Mapping
from functools import partial

from opentela.core.errors import WireError
from opentela.core.ids import SessionId
from opentela.core.record import SessionRecord
from opentela.core.session_map import SessionMap
from opentela.mesh.bus import Message
from opentela.registry import letters
from opentela.registry import messages as m
from opentela.registry.config import RegistryConfig
from opentela.registry.letters import Read
from opentela.registry.machine import RegistryMachine
from opentela.testing.sim import keys
from opentela.testing.sim.driver import Driver, Inbox
from opentela.testing.world_node import Node
from opentela.wire import control, subjects
from opentela.wire.subjects import SessionPath

_PAGE_TIMEOUT_S = 2.0


class RegistryShell:
    """One life of one registry process.

    Attributes:
        machine: The real machine; checkers read its map.
        ready: What it last said of its own health, and why.
        unreadable: Messages that could not be read.
    """

    def __init__(self, node: Node, config: RegistryConfig) -> None:
        self.node = node
        self._instance = f"i{node.epoch}"
        self.machine = RegistryMachine(
            seal=keys.seal(node.name, site=node.site),
            verify=keys.vouch(),
            rng=node.rng,
            config=config,
            instance=self._instance,
        )
        self.ready = (False, "")
        self.unreadable = 0
        self._inbox = Inbox(node, node.name)
        self._driver = Driver[m.Event, m.Action](
            node,
            "registry",
            step=lambda now, event: self.machine.step(now, node.wall(), event),
            perform=self._perform,
            next_deadline=self.machine.next_deadline,
            tick=m.Tick(),
        )
        for conversation in letters.conversations(name=node.name, instance=self._instance):
            node.subscribe(conversation.subject, self._handler(conversation.read))
            if conversation.kind == "reply":
                self._read_reply = conversation.read
        node.on_no_responders = self._on_no_responders
        node.on_mesh_lost = partial(self._driver.feed, m.MeshLost())
        node.on_mesh_back = partial(self._driver.feed, m.MeshBack())

    def begin(self) -> None:
        """Start to ask and to listen."""
        self._driver.feed(m.Tick())

    @property
    def records(self) -> Mapping[SessionId, SessionRecord]:
        """Everything held, tombstones included."""
        return self.machine.held.records

    @property
    def held(self) -> SessionMap:
        """The map."""
        return self.machine.held

    def leave(self) -> None:
        """Say farewell, as a registry does that was asked to stop."""
        self._driver.feed(m.Leaving())

    def restore(self, records: tuple[SessionRecord, ...], cut_ms: int, horizon_ms: int) -> None:
        """Give it the map of an earlier life; before `begin`."""
        self._driver.feed(m.Restored(records=records, cut_ms=cut_ms, horizon_ms=horizon_ms))

    def advise(self, path: SessionPath, *, alive: bool) -> None:
        """Let the scheduler say whether a session runs."""
        advice = control.Advice(alive=alive)
        self.node.handle(self._driver.feed, m.Advised(path=path, advice=advice))

    def _handler(self, read: Read) -> Callable[[Message], None]:
        def handle(message: Message) -> None:
            try:
                event = read(message)
            except WireError as error:
                self.unreadable += 1
                self.node.note(".", f"unreadable: {error}")
            else:
                self._driver.feed(event)

        return handle

    def _on_no_responders(self, reply: str) -> None:
        if not self._inbox.no_responders(reply):
            self._driver.feed(self._read_reply(Message(reply, b"")))

    def _perform(self, action: m.Action) -> None:
        node = self.node
        match action:
            case m.AskPage(ask=ask):
                self._ask(ask)
            case m.ServeSnapshots():
                for served in letters.SERVED:
                    handler = self._handler(served.read)
                    node.subscribe(served.subject, handler, queue=subjects.SNAPSHOT_QUEUE)
            case m.SetReady(flag=flag, reason=reason):
                self.ready = (flag, reason)
                node.note(".", f"ready: {flag} {reason}")
            case m.Refused() | m.RefusedMessage() | m.NameTaken():
                node.note(".", f"refused {action}")
            case _:
                letter = letters.letter(action, name=node.name, instance=self._instance)
                node.publish(letter.subject, letter.payload, reply=letter.reply)

    def _ask(self, ask: control.PageAsk) -> None:
        def then(payload: bytes | None) -> None:
            try:
                event = m.PageFailed() if payload is None else letters.page_of(payload)
            except WireError:
                self.unreadable += 1
                event = m.PageFailed()
            self._driver.feed(event)

        self._inbox.request(
            subjects.SNAPSHOT, control.encode(ask), timeout_s=_PAGE_TIMEOUT_S, then=then
        )
