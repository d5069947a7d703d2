"""A simulated supervisor: the mesh, a scripted engine and gateways around `supervisor.machine`."""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from opentela.core.errors import WireError
from opentela.core.ids import NodeId, ProviderId, SessionId, SiteId
from opentela.core.record import CLAIM_ENCODER, Claim, Lifecycle, ModelOffer, SignedClaim
from opentela.mesh.bus import Handler, Message
from opentela.supervisor import actions as a
from opentela.supervisor import events as e
from opentela.supervisor.claims import Place
from opentela.supervisor.config import SupervisorConfig
from opentela.supervisor.engines.base import EngineLoad, EngineOffer
from opentela.supervisor.machine import Machine
from opentela.supervisor.offer import Terms
from opentela.supervisor.walltime import plan
from opentela.testing.sim import keys
from opentela.testing.sim.driver import Driver
from opentela.testing.sim.engine import Condition, EngineForm, SimEngine
from opentela.testing.sim.gateway import SimGateway
from opentela.testing.sim.keys import FakeIdentity
from opentela.testing.world_network import Interest
from opentela.testing.world_node import Node
from opentela.wire import control, subjects
from opentela.wire.subjects import SessionPath

_LOCAL_S: Final = 0.001
"""What asking the engine something takes; its host is ours."""
_SPAWN_S: Final = 0.05
_STOP_S: Final = 0.5
_IDLE_POLL_S: Final = 0.5


class SupervisorForm(msgspec.Struct, frozen=True, kw_only=True):
    """What one supervisor is for.

    Attributes:
        walltime_s: From its start to the end of its allocation; 0 when it does not end.
        names: Models that its engine lists; may change while it runs.
    """

    provider: str
    model: str
    engine: EngineForm = EngineForm()
    config: SupervisorConfig = SupervisorConfig()
    walltime_s: float = 0.0


class SupervisorShell:
    """One life of one supervisor process.

    Attributes:
        machine: The real machine.
        engine: The scripted engine.
        model: What it is there for.
        models: What the engine lists; a scenario may change it.
        sessions: Every session of this process, with the latest claim of each.
    """

    def __init__(
        self,
        node: Node,
        form: SupervisorForm,
        sent: dict[tuple[str, str], bytes],
        *,
        on_session: Callable[[SessionId], None],
        on_exit: Callable[[], None],
    ) -> None:
        self.node = node
        self.engine = SimEngine(node, form.engine, sent)
        self.models: tuple[str, ...] = (form.model,)
        self.sessions: dict[SessionId, Claim] = {}
        self.model = form.model
        self._on_session = on_session
        self._on_exit = on_exit
        self._config = form.config
        self._identity = FakeIdentity(node.rng)
        self._signed: dict[SessionId, SignedClaim] = {}
        self._gateways: dict[SessionId, SimGateway] = {}
        self._interests: list[Interest] = []
        self._launch = -1
        wall = node.wall()
        ends_at = wall + form.walltime_s if form.walltime_s else 0.0
        self.machine = Machine(
            form.config,
            place=Place(ProviderId(form.provider), SiteId(node.site), NodeId(node.name)),
            terms=Terms(engine="openai", expected=(form.model,), walltime_ends_at=ends_at),
            walltime=plan(form.config.walltime, ends_at=ends_at, wall=wall),
            rng=node.rng,
            now=node.now(),
        )
        self._driver = Driver[e.Event, a.Action](
            node,
            "supervisor",
            step=lambda now, event: self.machine.step(now, node.wall(), event),
            perform=lambda action: self._performers[type(action)](action),
            next_deadline=lambda: self.machine.next_deadline(node.now(), node.wall()),
            tick=e.Tick(),
        )
        node.on_mesh_lost = self._on_mesh_lost
        node.on_mesh_back = self._on_mesh_back
        self._performers = self._performing()

    def _performing(self) -> Mapping[type, Callable[..., None]]:
        return {
            a.MakeSession: self._make_session,
            a.LaunchEngine: self._launch_engine,
            a.StopEngine: self._stop_engine,
            a.ProbeEngine: self._probe_engine,
            a.ReadOffer: self._read_offer,
            a.ReadLoad: self._read_load,
            a.TellUnread: self._tell,
            a.TellLeftOut: self._tell,
            a.Announce: self._announce,
            a.SendBeat: self._send_beat,
            a.AnswerProbe: self._answer_probe,
            a.OpenGateway: self._open_gateway,
            a.DrainGateway: self._drain_gateway,
            a.CloseGateway: self._close_gateway,
            a.RetireGateway: self._retire_gateway,
            a.Exit: self._exit,
        }

    def begin(self) -> None:
        """Make a session and launch the engine."""
        self._driver.feed(e.Tick())

    @property
    def session(self) -> SessionId | None:
        """The session that serves or is to serve."""
        return self.machine.session.claim.session if self.machine.session else None

    @property
    def is_serving(self) -> bool:
        """Whether its session claims to serve."""
        session = self.machine.session
        return session is not None and session.claim.lifecycle is Lifecycle.SERVING

    @property
    def in_flight(self) -> int:
        """Streams under way at all gateways."""
        return sum(len(gateway.streams) for gateway in self._gateways.values())

    # What may befall it ------------------------------------------------------

    def stop(self, reason: str) -> None:
        """Ask it to leave, as SIGTERM does."""
        self.node.handle(self._driver.feed, e.StopAsked(reason))

    def kill_engine(self) -> None:
        """Let the engine die under it."""
        if self.engine.condition is not Condition.OFF:
            self.node.note("!", "engine killed")
            self.node.handle(self._engine_ended, self._launch, "killed by signal 9")

    def hang_engine(self) -> None:
        """Let the engine take connections and do nothing."""
        self.node.note("!", "engine hangs")
        self.engine.hang()

    def _engine_ended(self, launch: int, reason: str) -> None:
        if launch == self._launch and self.engine.condition is not Condition.OFF:
            self.engine.end()
            self._driver.feed(e.EngineEnded(launch, reason))
            self._tell_carried()

    # Engine ------------------------------------------------------------------

    def _make_session(self, _: a.MakeSession) -> None:
        self._driver.feed(e.SessionMade(self._identity.key))

    def _launch_engine(self, action: a.LaunchEngine) -> None:
        launch = self._launch = action.launch
        self.engine.load()
        self.engine.later(_SPAWN_S, self._spawned, launch)
        self.engine.later(self.engine.form.load_s, self._loaded, launch)

    def _spawned(self, launch: int) -> None:
        if launch == self._launch and self.engine.condition is not Condition.OFF:
            self._driver.feed(e.EngineSpawned(launch))

    def _loaded(self, launch: int) -> None:
        if launch == self._launch:
            self.engine.serve()

    def _stop_engine(self, action: a.StopEngine) -> None:
        took_s = action.term_s if self.engine.condition is Condition.HUNG else _STOP_S
        self.engine.later(min(took_s, action.term_s), self._engine_ended, action.launch, "stopped")

    def _probe_engine(self, action: a.ProbeEngine) -> None:
        match self.engine.condition:
            case Condition.SERVING:
                self._answer_soon(e.ProbeAnswered(action.launch))
            case Condition.HUNG:
                timeout_s = self._config.watch.probe_timeout_s
                self.engine.later(timeout_s, self._driver.feed, e.ProbeTimedOut(action.launch))
            case Condition.OFF | Condition.LOADING:
                self._answer_soon(e.ProbeFailed(action.launch, "connection refused"))

    def _read_offer(self, action: a.ReadOffer) -> None:
        models = tuple(ModelOffer(name=name) for name in self.models)
        if self.engine.condition is Condition.SERVING:
            self._answer_soon(e.OfferRead(action.launch, EngineOffer("openai", models)))
        else:
            self._answer_soon(e.OfferUnread(action.launch, "connection refused"))

    def _read_load(self, action: a.ReadLoad) -> None:
        load = EngineLoad(running=self.engine.running)
        is_up = self.engine.condition is Condition.SERVING
        self._answer_soon(e.LoadRead(action.launch, load if is_up else None))

    def _tell(self, action: a.TellUnread | a.TellLeftOut) -> None:
        self.node.note(".", f"{action}")

    def _answer_soon(self, event: e.Event) -> None:
        self.engine.later(_LOCAL_S, self._driver.feed, event)

    # Mesh --------------------------------------------------------------------

    def _announce(self, action: a.Announce) -> None:
        claim = action.claim
        if claim.session not in self.sessions:
            self._listen(SessionPath(claim.provider, claim.site, claim.session))
            self._on_session(claim.session)
        self.sessions[claim.session] = claim
        warrant = keys.warrant(claim.key, claim.provider)
        body = CLAIM_ENCODER.encode(msgspec.structs.replace(claim, warrant=warrant))
        signed = SignedClaim(body=body, signature=self._identity.sign(body))
        self._signed[claim.session] = signed
        path = SessionPath(claim.provider, claim.site, claim.session)
        self.node.publish(subjects.delta(path), control.encode(control.Delta(signed=signed)))

    def _listen(self, path: SessionPath) -> None:
        """Hear what registries ask and hold; of the former session nothing is heard any more."""
        for interest in self._interests:
            self.node.unsubscribe(interest)
        self._interests = [
            self.node.subscribe(subjects.probe(path), self._guarded(self._on_probe)),
            self.node.subscribe(subjects.verdict(path), self._guarded(self._on_verdict)),
        ]

    def _guarded(self, handler: Handler) -> Handler:
        def guarded(message: Message) -> None:
            try:
                handler(message)
            except WireError as error:
                self.node.note(".", f"refused {error}")

        return guarded

    def _on_probe(self, message: Message) -> None:
        probe = control.read_probe(message.payload)
        self._driver.feed(e.ProbeArrived(probe, message.reply))

    def _on_verdict(self, message: Message) -> None:
        self._driver.feed(e.VerdictArrived(control.read_verdict(message.payload)))

    def _send_beat(self, action: a.SendBeat) -> None:
        self.node.publish(subjects.beat(action.path), control.encode(action.beat))

    def _answer_probe(self, action: a.AnswerProbe) -> None:
        reply = control.ProbeReply(
            sequence=action.sequence, signed=self._signed[action.path.session]
        )
        self.node.publish(action.reply, control.encode(reply))

    def _on_mesh_lost(self) -> None:
        for gateway in self._gateways.values():
            gateway.lose_carrier()

    def _on_mesh_back(self) -> None:
        for gateway in self._gateways.values():
            gateway.regain_carrier()
        self._driver.feed(e.MeshJoined())

    # Gateways ----------------------------------------------------------------

    def _open_gateway(self, action: a.OpenGateway) -> None:
        gateway = SimGateway(self.node, action.path, self.engine)
        gateway.on_carried = self._tell_carried
        self._gateways[action.path.session] = gateway

    def _tell_carried(self) -> None:
        received = sum(gateway.received for gateway in self._gateways.values())
        self._driver.feed(e.Carried(self.in_flight, received))

    def _drain_gateway(self, action: a.DrainGateway) -> None:
        self._gateways[action.path.session].drain()

    def _close_gateway(self, action: a.CloseGateway) -> None:
        gateway = self._gateways.pop(action.path.session, None)
        if gateway is not None:
            gateway.close()
            self._tell_carried()

    def _retire_gateway(self, action: a.RetireGateway) -> None:
        gateway = self._gateways[action.path.session]
        gateway.drain()
        self._await_idle(gateway, self.node.now() + action.limit_s)

    def _await_idle(self, gateway: SimGateway, limit_at: float) -> None:
        if gateway.streams and self.node.now() < limit_at:
            self.engine.later(_IDLE_POLL_S, self._await_idle, gateway, limit_at)
        else:
            self._close_gateway(a.CloseGateway(gateway.path))

    def _exit(self, action: a.Exit) -> None:
        assert all(claim.lifecycle >= Lifecycle.DOWN for claim in self.sessions.values())
        self.node.crash(f"process exited {action.reason}".strip())
        self._on_exit()
