"""The sessions that a registry holds, watches and judges, and what follows when one changes."""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final, NamedTuple

from opentela.core import ids
from opentela.core.ids import ProviderId, SessionId
from opentela.core.record import (
    Lifecycle,
    SessionRecord,
    SignedClaim,
    claim_of,
    held_against,
    is_final,
    is_suspected,
    lifecycle_of,
    names_of,
)
from opentela.core.refusal import Reason, Rejection, lone, supported
from opentela.core.session_map import Applied, Change, SessionMap, Verify
from opentela.core.warrant import Seal
from opentela.registry import judgement
from opentela.registry.config import RegistryConfig
from opentela.registry.detector import Detector, Failed, SendProbe
from opentela.registry.events import events_of
from opentela.registry.local_health import LocalHealth
from opentela.registry.messages import (
    Action,
    PublishEvent,
    PublishProbe,
    PublishVerdict,
    Refused,
)
from opentela.registry.peers import Peers
from opentela.registry.repeats import Repeats
from opentela.registry.restraint import Restraint
from opentela.registry.throttle import KEYS_MAX, Throttle
from opentela.view import exchange
from opentela.wire.control import Beat, Probe, Verdict
from opentela.wire.subjects import SessionPath

REMIND_EVERY_S: Final = 1.0
"""Seconds between two reminders to one owner: that it is suspected, unknown, or has left."""


class Moment(NamedTuple):
    """An instant on both clocks: monotonic and Unix seconds."""

    now: float
    wall: float


class Sessions:
    """The map and everything that is derived from it.

    Attributes:
        held: The map.
        detector: Who lives, as this registry sees it.
        restraint: Whether it may believe that.
        local_health: How far it trusts its own ears.
        repeats: What it says again.
        is_settled: Whether what is new here is news; while booting, it mostly is not.
    """

    def __init__(self, *, seal: Seal, verify: Verify, config: RegistryConfig, peers: Peers) -> None:
        self._seal = seal
        self._name = seal.name
        self._grace_s = config.detector.grace_s
        self._peers = peers
        self._reminders = Throttle(REMIND_EVERY_S)
        self.repeats = Repeats(seal.name)
        self._down_at: dict[SessionId, float] = {}
        self._unknown: OrderedDict[SessionId, SessionPath] = OrderedDict()
        self.held = SessionMap(verify, sessions_per_provider=config.sessions_per_provider)
        self.detector = Detector(config.detector)
        self.restraint = Restraint(config.restraint)
        self.local_health = LocalHealth(config.restraint)
        self.is_settled = False

    # What owners say ---------------------------------------------------------

    def claimed(self, at: Moment, path: SessionPath, signed: SignedClaim) -> list[Action]:
        """Take a claim that its owner published: always news."""
        return self._admit(at, path, signed, is_news=True)

    def answered(
        self, at: Moment, provider: ProviderId, session: SessionId, signed: SignedClaim
    ) -> list[Action]:
        """Take a claim that its owner answered a probe with, over the path that was probed."""
        path = self._probed_path(session)
        if path is None or path.provider != provider:
            return []
        return self._admit(at, path, signed, is_news=self.is_settled)

    def refused(self, at: Moment, provider: ProviderId, session: SessionId) -> None:
        """Take "no responders" from *provider*'s side; nobody says it for another's session."""
        path = self._probed_path(session)
        if path is not None and path.provider == provider:
            self.detector.refused(session, at.now)

    def _probed_path(self, session: SessionId) -> SessionPath | None:
        record = self.held.get(session)
        return self._unknown.get(session) if record is None else exchange.path_to(record)

    def beaten(self, at: Moment, path: SessionPath, beat: Beat) -> list[Action]:
        """Take a beat; one that this registry cannot place makes it ask or tell."""
        record = self.held.get(path.session)
        if record is None:
            is_forgotten = ids.is_older(path.session, self.held.horizon_ms)
            asked = self._deny if is_forgotten else self._inquire
            return asked(at, path, beat.incarnation)
        if exchange.path_to(record) != path:
            detail = f"a beat over the subject of {'.'.join(path)}"
            foreign = self.held.refuse(Reason.FOREIGN, detail, record)
            return [Refused(rejected=(foreign,), source="beat")]
        if lifecycle_of(record) is Lifecycle.LEFT:
            return self._remind(at, path, judgement.verdict_on(record, registry=self._name))
        actions = self._heard(at, path, every_s=beat.every_s)
        if beat.incarnation > claim_of(record).incarnation:
            actions += self._remind(at, path, Probe(sequence=0))
        return actions

    def _admit(
        self, at: Moment, path: SessionPath, signed: SignedClaim, *, is_news: bool
    ) -> list[Action]:
        applied = self.held.admit(signed, path, wall=at.wall)
        actions = self._take(at, applied, "owner", is_news=is_news)
        return actions if applied.rejected else actions + self._heard(at, path)

    def _heard(self, at: Moment, path: SessionPath, *, every_s: float = 0.0) -> list[Action]:
        """Take a sign of life, and let its owner know if it is thought dead."""
        record = self.held.records[path.session]
        self.detector.heard(path.session, at.now, every_s=every_s)
        suspected = judgement.held_against(record, self._name)
        if not suspected or lifecycle_of(record) >= Lifecycle.DOWN:
            return []
        return self._remind(at, path, Probe(sequence=0, suspected=suspected))

    def _inquire(self, at: Moment, path: SessionPath, _incarnation: int) -> list[Action]:
        """Ask a session that beats, but of which nothing is held, for its claim."""
        actions = self._remind(at, path, Probe(sequence=0))
        if actions:
            self._unknown[path.session] = path
            self._unknown.move_to_end(path.session)
            if len(self._unknown) > KEYS_MAX:
                self._unknown.popitem(last=False)
        return actions

    def _remind(self, at: Moment, path: SessionPath, what: Probe | Verdict) -> list[Action]:
        if not self._reminders.may(path.session, at.now):
            return []
        match what:
            case Probe():
                return [PublishProbe(path=path, probe=what)]
            case Verdict():
                return [PublishVerdict(path=path, verdict=what)]

    # What registries say -----------------------------------------------------

    def judged(self, at: Moment, path: SessionPath, verdict: Verdict) -> list[Action]:
        """Take another registry's verdict."""
        part = exchange.judged(self.held, path, verdict)
        if part is None:
            return self._second(at, path, verdict)
        source = f"verdict of {verdict.registry}"
        refused: list[Rejection] = []
        applied = self.held.apply(
            [part],
            wall=at.wall,
            source=source,
            believe=lambda record: self._believed(at, record, refused),
        )
        actions = self._take(at, applied.without(refused), source, is_news=True)
        if part.witnesses or part.ending:
            # Somebody cannot reach it: look oneself before its next beat is late.
            self.detector.urge(path.session, at.now)
            actions += self._weigh(at, path.session)
        return actions

    def _believed(
        self, at: Moment, record: SessionRecord, refused: list[Rejection]
    ) -> SessionRecord:
        """Return what to believe of a record, without what one registry says alone.

        One that lies, or is cut off without knowing, ends no session that others may still hear:
        while there are others, it is their own failing to reach it that adds to its word.
        """
        mine = self.held.like(record)
        if mine is None or lifecycle_of(mine) >= Lifecycle.DOWN:
            return record
        part = supported(record, self._peers.quorum(at.now))
        session = claim_of(mine).session
        if part is record or session in self.detector.failing:
            return record
        is_heard = self.detector.is_heard(session, at.now)
        if is_final(record.ending) and not is_heard:
            return record  # only known from hearsay, and long forgotten elsewhere
        if record.ending and is_heard:
            self.held.count(Reason.UNSUPPORTED)
            refused.append(lone(record))
        return part

    def _second(self, at: Moment, path: SessionPath, verdict: Verdict) -> list[Action]:
        """Second a peer that says of a session long forgotten that it has left."""
        if not verdict.ending or self.held.get(path.session) is not None:
            return []
        if not ids.is_older(path.session, self.held.horizon_ms):
            return []
        if self._name in names_of(verdict.ending) or verdict.session != path.session:
            return []
        ended_at_ms = int(at.wall * 1000)
        seconded = judgement.seconded(verdict, self._seal, ended_at_ms=ended_at_ms)
        return self._remind(at, path, seconded)

    def merged(self, at: Moment, records: Iterable[SessionRecord], source: str) -> list[Action]:
        """Take records from another registry, or from an earlier life of this one."""
        probes: list[Action] = []
        refused: list[Rejection] = []

        def believe(record: SessionRecord) -> SessionRecord:
            part = self._believed(at, record, refused)
            doubted = self._doubted(at, record)
            probes.extend(doubted)
            return judgement.without_suspicion(part) if doubted else part

        applied = self.held.apply(records, wall=at.wall, source=source, believe=believe)
        taken = applied.without(refused)
        return probes + self._take(at, taken, source, is_news=self.is_settled)

    def relayed(self, at: Moment, records: Iterable[SessionRecord], source: str) -> list[Action]:
        """Take what a view holds and no registry does any more.

        Only claims are believed, for their owners' signatures, and looked for anew. A suspicion
        that registries have forgotten is refuted by its owner, lest the view keeps it for ever.
        """
        actions: list[Action] = []
        for record in records:
            applied = self.held.admit(record.signed, None, wall=at.wall, source=source)
            actions += self._take(at, applied, source, is_news=self.is_settled)
            actions += self._cleared(at, record)
        return actions

    def _cleared(self, at: Moment, record: SessionRecord) -> list[Action]:
        """Return how to have refuted what a view holds against a session that is heard here."""
        mine = self.held.like(record)
        against = held_against(record)
        # Of an incarnation that was never claimed nobody suspects anything in good faith.
        if mine is None or against != claim_of(mine).incarnation:
            return []
        path = exchange.path_to(mine)
        if not self.detector.is_heard(path.session, at.now):
            return []
        return self._remind(at, path, Probe(sequence=0, suspected=against))

    def _doubted(self, at: Moment, record: SessionRecord) -> list[Action]:
        """Return how to have a suspicion refuted before it is believed; empty to believe it.

        Two halves of a mesh suspect each other's sessions; when they meet again, nobody shall stop
        using what works. The owner of a session that is heard here refutes first; the suspicion is
        merged in by a later exchange, when it does no more harm.
        """
        mine = self.held.like(record)
        against = held_against(record)
        if mine is None or not is_suspected(record) or is_suspected(mine):
            return []
        path = exchange.path_to(mine)
        is_heard = self.detector.is_heard(path.session, at.now)
        if against < claim_of(mine).incarnation or not is_heard:
            return []
        return [PublishProbe(path=path, probe=Probe(sequence=0, suspected=against))]

    # What follows ------------------------------------------------------------

    def _take(self, at: Moment, applied: Applied, source: str, *, is_news: bool) -> list[Action]:
        actions: list[Action] = []
        for change in applied.changes:
            if is_news:
                actions += self._news(at, change)
            self._follow(at, change)
        refused: list[Rejection] = []
        for rejection in applied.rejected:
            record = rejection.record
            if rejection.reason is not Reason.FORGOTTEN:
                refused.append(rejection)
            elif lifecycle_of(record) < Lifecycle.LEFT:
                path = exchange.path_to(record)
                actions += self._deny(at, path, claim_of(record).incarnation)
        if refused:
            actions.append(Refused(rejected=tuple(refused), source=source))
        return actions

    def _news(self, at: Moment, change: Change) -> list[Action]:
        path = exchange.path_to(change.after)
        events = events_of(change, registry=self._name, wall=at.wall)
        return [PublishEvent(path=path, event=event) for event in events]

    def _follow(self, at: Moment, change: Change) -> None:
        """Watch what lives, and wait for the end of what is down."""
        before, record = change
        claim, lifecycle = claim_of(record), lifecycle_of(record)
        self._unknown.pop(claim.session, None)
        if lifecycle < Lifecycle.DOWN:
            self.detector.watch(claim.session, at.now)
            if before is not None and claim_of(before).incarnation < claim.incarnation:
                if self._peers.there(at.now) and names_of(before.witnesses) == (self._name,):
                    self.local_health.was_wrong()
                # Whoever told it, the owner lives or lately did: suspicion begins anew.
                self.detector.heard(claim.session, at.now)
            return
        self.detector.unwatch(claim.session)
        if lifecycle is Lifecycle.DOWN:
            self._down_at.setdefault(claim.session, at.now)
        else:
            self._down_at.pop(claim.session, None)

    def _deny(self, at: Moment, path: SessionPath, incarnation: int) -> list[Action]:
        """Tell whoever still believes in a forgotten session that it has left long ago."""
        denial = judgement.denial(
            path.session,
            incarnation,
            self._seal,
            self._peers.bar(at.now),
            ended_at_ms=int(at.wall * 1000),
        )
        return self._remind(at, path, denial)

    # Judging -----------------------------------------------------------------

    def detect(self, at: Moment) -> list[Action]:
        """Probe what is late and testify against what has failed."""
        actions: list[Action] = []
        for finding in self.detector.due(at.now):
            record = self.held.records[finding.session]
            match finding:
                case SendProbe(sequence=sequence):
                    suspected = judgement.held_against(record, self._name)
                    probe = Probe(sequence=sequence, suspected=suspected)
                    actions.append(PublishProbe(path=exchange.path_to(record), probe=probe))
                case Failed():
                    actions += self._testify(at, record)
        return actions

    def conclude(self, at: Moment) -> list[Action]:
        """Weigh every silence again, and end what has been silent or down for all of grace."""
        actions: list[Action] = []
        failing = self.detector.failing
        self.restraint.observe(at.now, watched=len(self.detector), failing=len(failing))
        for session in tuple(failing):
            actions += self._weigh(at, session)
        for session, down_at in tuple(self._down_at.items()):
            if at.now >= down_at + self._grace_s:
                actions += self._end(at, session, ended_at_ms=0)
        allowance = self.restraint.allowance(at.now, living=len(self.held.living))
        for session in self._overdue(at)[:allowance]:
            self.restraint.evicted(at.now)
            actions += self._end(at, session, ended_at_ms=int(at.wall * 1000))
        return actions

    def _overdue(self, at: Moment) -> list[SessionId]:
        if self._peers.may_hear_more(at.now):
            # It may hear whom nobody here does, and nothing takes an eviction back.
            return []
        bar = self._peers.bar(at.now)
        overdue: list[SessionId] = []
        for session, failed_at in self.detector.failing.items():
            record = self.held.records[session]
            is_confirmed = judgement.is_met(bar, record.witnesses)
            # Who is silent and whose job is over is not waited for.
            is_over = self.detector.is_over(session, at.now)
            is_due = is_over or at.now >= failed_at + self._grace_s
            if is_due and is_suspected(record) and is_confirmed:
                overdue.append(session)
        return overdue

    def _weigh(self, at: Moment, session: SessionId) -> list[Action]:
        """Testify again if this registry cannot reach the session: others may have joined in."""
        if session not in self.detector.failing:
            return []
        return self._testify(at, self.held.records[session])

    def _testify(self, at: Moment, record: SessionRecord) -> list[Action]:
        part = judgement.testimony(record, self._seal, self._peers.bar(at.now))
        return [] if part is None else self._judge(at, part, "own probes")

    def _end(self, at: Moment, session: SessionId, *, ended_at_ms: int) -> list[Action]:
        record = self.held.records[session]
        part = judgement.ending(
            record, self._seal, self._peers.bar(at.now), ended_at_ms=ended_at_ms
        )
        return self._judge(at, part, "end of grace")

    def _judge(self, at: Moment, part: SessionRecord, source: str) -> list[Action]:
        """Merge what this registry holds against a session, and publish all that is held."""
        applied = self.held.apply([part], wall=at.wall, source=source, is_own=True)
        actions = self._take(at, applied, source, is_news=True)
        path = exchange.path_to(part)
        self.repeats.said(path.session, at.now)
        verdict = judgement.verdict_on(self.held.records[path.session], registry=self._name)
        return [*actions, PublishVerdict(path=path, verdict=verdict)]
