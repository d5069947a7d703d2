"""Our sessions' voice on the mesh: signed claims, beats, answers; and what it hears."""

from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from opentela.core.errors import MeshUnavailableError, WireError
from opentela.core.ids import SessionId
from opentela.core.record import CLAIM_ENCODER, Claim, SignedClaim
from opentela.mesh import warrants
from opentela.mesh.access import Access
from opentela.mesh.bus import Bus, Message, Subscription
from opentela.supervisor.events import ProbeArrived, VerdictArrived
from opentela.telemetry import log as logs
from opentela.telemetry import metrics
from opentela.wire import control, subjects
from opentela.wire.subjects import SessionPath

log: Final = logs.get_logger()

_rejected: Final = metrics.counter(
    "otela_supervisor_messages_rejected_total",
    "Messages to the supervisor's sessions that could not be read.",
    ("kind",),
)


class Publisher(Protocol):
    """Who takes what is published."""

    async def publish(self, subject: str, payload: bytes) -> None:
        """Hand a message to the mesh."""


class Voice:
    """Speaks for every session of this supervisor, with the key that the mesh has warranted.

    Args:
        beats: Takes the heartbeats; the bus does unless somebody else is named.
    """

    def __init__(
        self,
        bus: Bus,
        access: Access,
        tell: Callable[[ProbeArrived | VerdictArrived], None],
        *,
        beats: Publisher | None = None,
    ) -> None:
        self._bus = bus
        self._beats = beats or bus
        self._tell = tell
        self._identity = access.identity
        self._warrant = warrants.of(access)
        self._authority = warrants.authority(access)
        self._spoken: dict[SessionId, SignedClaim] = {}
        self._subscriptions: dict[SessionId, list[Subscription]] = {}

    @property
    def key(self) -> str:
        """The public half of the key."""
        return self._identity.key

    async def announce(self, claim: Claim) -> None:
        """Sign *claim*, publish it, and keep it for whoever asks."""
        body = CLAIM_ENCODER.encode(msgspec.structs.replace(claim, warrant=self._warrant))
        signed = SignedClaim(body=body, signature=self._identity.sign(body))
        path = SessionPath(claim.provider, claim.site, claim.session)
        self._spoken[claim.session] = signed
        log.info(
            "session_announced",
            session=claim.session,
            lifecycle=claim.lifecycle.name,
            incarnation=claim.incarnation,
            models=[model.name for model in claim.offer.models],
            reason=claim.reason,
        )
        await self._publish(subjects.delta(path), control.Delta(signed=signed))

    async def beat(self, path: SessionPath, beat: control.Beat) -> None:
        """Publish a heartbeat."""
        await self._publish(subjects.beat(path), beat, by=self._beats)

    async def answer(self, path: SessionPath, sequence: int, reply: str) -> None:
        """Answer a probe with the latest claim."""
        signed = self._spoken[path.session]
        await self._publish(reply, control.ProbeReply(sequence=sequence, signed=signed))

    async def listen(self, path: SessionPath) -> None:
        """Hear probes and verdicts of a session from now on, and forget those before it.

        Raises:
            CredentialError: The access does not allow sessions of this provider or site.
        """
        if path.session in self._subscriptions:
            return
        for session in list(self._spoken):
            if session != path.session:
                await self._forget(session)
        listened = self._subscriptions[path.session] = []
        for subject, handler in (
            (subjects.probe(path), self._on_probe),
            (subjects.verdict(path), self._on_verdict),
        ):
            subscription = await self._bus.subscribe(subject, handler)
            if self._subscriptions.get(path.session) is not listened:
                await subscription.unsubscribe()  # forgotten meanwhile
            else:
                listened.append(subscription)

    async def _forget(self, session: SessionId) -> None:
        """Neither speak for a session any more nor listen."""
        del self._spoken[session]
        for subscription in self._subscriptions.pop(session, ()):
            await subscription.unsubscribe()

    def _on_probe(self, message: Message) -> None:
        try:
            probe = control.read_probe(message.payload)
        except WireError as error:
            self._reject("probe", error)
        else:
            if message.reply:
                self._tell(ProbeArrived(probe, message.reply))

    def _on_verdict(self, message: Message) -> None:
        try:
            verdict = self._read_verdict(message.payload)
        except WireError as error:
            self._reject("verdict", error)
        else:
            self._tell(VerdictArrived(verdict))

    def _read_verdict(self, payload: bytes) -> control.Verdict:
        verdict = control.read_verdict(payload)
        for said in (*verdict.witnesses, *verdict.ending):
            fault = self._authority.statement(verdict.session, said)
            if fault:
                raise WireError(fault)
        return verdict

    def _reject(self, kind: str, error: WireError) -> None:
        _rejected.labels(kind).inc()
        log.debug("message_rejected", kind=kind, error=str(error))

    async def _publish(
        self, subject: str, message: msgspec.Struct, *, by: Publisher | None = None
    ) -> None:
        try:
            await (by or self._bus).publish(subject, control.encode(message))
        except MeshUnavailableError:
            # Closed: we are on our way out, and have said what we had to say.
            log.debug("message_unsent", subject=subject)
