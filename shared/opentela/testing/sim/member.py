"""A member: what a supervisor says to registries, and nothing else of it.

It claims, beats, answers probes and refutes by the supervisor's own `claims`, in the rhythm of the
supervisor's machine; an engine and requests it has none, so that thousands fit into one process.
"""

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from opentela.core.ids import NONCE_BYTES, NodeId, ProviderId, SessionId, SiteId
from opentela.core.record import CLAIM_ENCODER, Claim, Lifecycle, ModelOffer, Offer, SignedClaim
from opentela.mesh.bus import Message
from opentela.supervisor.claims import OwnSession, Place
from opentela.testing.sim import keys
from opentela.testing.sim.keys import FakeIdentity
from opentela.testing.world_network import Interest
from opentela.testing.world_node import Node
from opentela.wire import control, subjects
from opentela.wire.control import BEAT_EVERY_S, Beat, Delta, ProbeReply

BEAT_JITTER: Final = 0.1
"""As the supervisor's machine has it."""
RENEW_S: Final = 1.0
"""From an eviction to the session that follows: the first back-off of a supervisor."""


class Member:
    """One life of one member process.

    Attributes:
        session: The present session; None before the first and after a farewell.
        renewals: Sessions that it made because the one before was evicted.
    """

    def __init__(
        self,
        node: Node,
        *,
        provider: str,
        model: str,
        on_session: Callable[[SessionId], None],
    ) -> None:
        self.node = node
        self.session: OwnSession | None = None
        self.renewals = 0
        self._on_session = on_session
        self._place = Place(ProviderId(provider), SiteId(node.site), NodeId(node.name))
        self._offer = Offer(models=(ModelOffer(name=model),), engine="openai")
        self._signed = SignedClaim(body=b"", signature=b"")
        self._interests: list[Interest] = []
        self._is_renewing = False
        node.on_mesh_back = self._announce

    @property
    def claim(self) -> Claim | None:
        """What it last claimed, if it has a session."""
        return None if self.session is None else self.session.claim

    def begin(self) -> None:
        """Be born, serving at once."""
        self._identity = FakeIdentity(self.node.rng)
        self.session = OwnSession(
            self._place,
            key=self._identity.key,
            nonce=self.node.rng.randbytes(NONCE_BYTES),
            wall=self.node.wall(),
            offer=self._offer,
        )
        self.session.move(Lifecycle.SERVING, wall=self.node.wall())
        path = self.session.path
        for interest in self._interests:
            self.node.unsubscribe(interest)
        self._interests = [
            self.node.subscribe(subjects.probe(path), self._on_probe),
            self.node.subscribe(subjects.verdict(path), self._on_verdict),
        ]
        self._beat_subject = subjects.beat(path)
        self._on_session(path.session)
        self._announce()
        self._wait()

    def leave(self) -> None:
        """Say farewell, as a supervisor that was asked to stop does when it is idle."""
        if self.session is not None and self.session.move(Lifecycle.LEFT, wall=self.node.wall()):
            self._announce()
            self.session = None

    def _wait(self) -> None:
        every_s = BEAT_EVERY_S * (1 + BEAT_JITTER * (2 * self.node.rng.random() - 1))
        self._every_s = every_s
        self.node.arm("beat", self.node.now() + every_s, self._beat)

    def _beat(self, _now: float) -> None:
        if self.session is None:
            return
        self._wait()
        beat = Beat(incarnation=self.session.claim.incarnation, every_s=self._every_s)
        self.node.publish(self._beat_subject, control.encode(beat))

    def _announce(self) -> None:
        session = self.session
        if session is None:
            return
        claim = session.claim
        warrant = keys.warrant(claim.key, claim.provider)
        body = CLAIM_ENCODER.encode(replace(claim, warrant=warrant))
        self._signed = SignedClaim(body=body, signature=self._identity.sign(body))
        self.node.publish(subjects.delta(session.path), control.encode(Delta(signed=self._signed)))

    def _on_probe(self, message: Message) -> None:
        session, probe = self.session, control.read_probe(message.payload)
        if session is None:
            return
        if session.refute(probe.suspected):
            self._announce()
        reply = ProbeReply(sequence=probe.sequence, signed=self._signed)
        self.node.publish(message.reply, control.encode(reply))

    def _on_verdict(self, message: Message) -> None:
        verdict = control.read_verdict(message.payload)
        session = self.session
        if session is None or verdict.session != session.claim.session:
            return
        if not session.is_evicted_by(verdict):
            if session.refute(verdict.held):
                self._announce()
        elif not self._is_renewing:
            self._is_renewing = True
            self.node.arm("renew", self.node.now() + RENEW_S, self._renew)

    def _renew(self, _now: float) -> None:
        self._is_renewing = False
        self.renewals += 1
        self.begin()
