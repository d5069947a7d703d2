"""The registry: every event enters by `step`, and what it returns is all that is to be done.

What it composes: sessions and judgement (`sessions`), the other registries (`peers`,
`view.exchange`), how to begin (`boot`) and to forget (`compaction`), and whether all is well.
"""

from typing import Final

from opentela.core.errors import WireError
from opentela.core.rng import Rng
from opentela.core.session_map import SessionMap, Verify
from opentela.core.warrant import Seal
from opentela.registry import messages as m
from opentela.registry.boot import Boot, Phase
from opentela.registry.compaction import own_cut_ms, shared_cut_ms
from opentela.registry.config import RegistryConfig
from opentela.registry.hints import Hints
from opentela.registry.models import routable_sessions
from opentela.registry.peers import Peers
from opentela.registry.sessions import Moment, Sessions
from opentela.registry.throttle import Budget
from opentela.view import exchange
from opentela.view.presence import fault_of, presence_of
from opentela.wire.control import (
    DigestAsk,
    Gossip,
    Leaves,
    Page,
    PageAsk,
    Presence,
    Records,
    Repair,
    SnapshotAsk,
)

ASKS_PER_S: Final = 256.0
"""Questions to peers; what is beyond them is found by a later round. Each may bring 192 KiB."""
ANSWERS_PER_S: Final = 1_000.0
"""Answers to peers and views; who gets none asks again. Bounds what a flood of questions costs."""
LAG_MAX_S: Final = 1.0
"""Seconds by which a deadline may be missed before this registry blames silence on itself."""
_TOO_MANY: Final = f"more than {ANSWERS_PER_S:.0f} questions a second"
_JITTER: Final = 0.2
"""Rounds are spread by this share, so that registries do not keep step."""


class RegistryMachine:
    """One registry.

    Attributes:
        held: The map; to be read, not written.
        models: Each offered model with its routable sessions, as of the last round.
        is_ready, reason: Whether the registry is well, and if not, why.
    """

    def __init__(
        self,
        *,
        seal: Seal,
        verify: Verify,
        rng: Rng,
        config: RegistryConfig,
        instance: str = "",
    ) -> None:
        self._name = seal.name
        self._verify = verify
        self._seal = seal
        self._presence = presence_of(seal, instance)
        self._namesake_until = 0.0
        self._rng = rng
        self._config = config
        self._peers = Peers(config.peers, site=seal.site)
        self._boot = Boot(config.peers)
        self._sessions = Sessions(seal=seal, verify=verify, config=config, peers=self._peers)
        self._hints = Hints(self._sessions.held, self._sessions.detector)
        self._round_at = self._sweep_at = self._expected_at = self._pardoned_at = 0.0
        self._compared_at = 0.0
        self._asked = 0
        self._asks, self._answers = Budget(ASKS_PER_S), Budget(ANSWERS_PER_S)
        self._mesh_is_lost = False
        self.models: dict[str, int] = {}
        self._unroutable: list[str] = []
        self.is_ready, self.reason = False, "starting"

    @property
    def held(self) -> SessionMap:
        """The map of all sessions."""
        return self._sessions.held

    def next_deadline(self) -> float:
        """Return when `Tick` is due; never later than the next round."""
        return self._expected_at or self._deadline()

    def _deadline(self) -> float:
        deadlines = [self._round_at, self._boot.next_deadline()]
        if not self._mesh_is_lost:
            deadlines.append(self._sessions.detector.next_deadline())
        return min(deadline for deadline in deadlines if deadline is not None)

    def step(self, now: float, wall: float, event: m.Event) -> list[m.Action]:
        """Take one event and return what is to be done about it."""
        at = Moment(now, wall)
        health = self._sessions.local_health
        if self._expected_at:
            health.woke(now - self._expected_at)
        self._sessions.detector.widening = health.widening
        if now > max(self._expected_at, self._pardoned_at) + LAG_MAX_S:
            # Whoever wakes up late has heard nobody meanwhile. Once is enough: what it costs for
            # each session would else keep a registry that is late from ever catching up.
            self._pardoned_at = now
            self._sessions.detector.pardon(now)
        actions = self._on_event(at, event)
        if not self._mesh_is_lost:
            actions += self._sessions.detect(at)
        if isinstance(event, m.Tick):
            actions += self._on_tick(at)
        if self._boot.phase is Phase.KNOWING and not self._sessions.is_settled:
            self._sessions.is_settled = True
            actions.append(m.ServeSnapshots())
        actions += self._readiness(at)
        self._expected_at = self._deadline()
        return actions

    def status(self, now: float) -> dict[str, object]:
        """Return what operators are told."""
        detector, restraint = self._sessions.detector, self._sessions.restraint
        doubting = restraint.doubting_since
        return {
            "registry": self._name,
            "healthy": self.is_ready and not self._unroutable,
            "phase": self._boot.phase.name.lower(),
            "sessions": len(self.held.living),
            "tombstones": len(self.held) - len(self.held.living),
            "silent": len(detector.failing),
            "doubting_s": None if doubting is None else round(now - doubting, 1),
            "widening": detector.widening,
            "peers": self._peers.there(now),
            "peers_away": self._peers.away(now),
            "models": self.models,
            "models_unroutable": self._unroutable,
            "rejected": {reason.value: n for reason, n in sorted(self.held.rejections.items())},
        }

    # Events ------------------------------------------------------------------

    def _on_event(self, at: Moment, event: m.Event) -> list[m.Action]:
        sessions = self._sessions
        actions: list[m.Action] = []
        match event:
            case m.BeatHeard(path=path, beat=beat):
                actions = sessions.beaten(at, path, beat)
            case m.DeltaHeard(path=path, signed=signed):
                actions = sessions.claimed(at, path, signed)
            case m.ProbeAnswered():
                actions = sessions.answered(at, event.provider, event.session, event.reply.signed)
            case m.ProbeRefused(provider=provider, session=session):
                sessions.refused(at, provider, session)
            case m.Advised(path=path, advice=advice):
                actions = self._hints.advised(at.now, path, advice)
            case m.Sighted(path=path):
                self._hints.sighted(at.now, path)
            case m.Restored():
                self._boot.has_state = bool(event.records)
                actions = sessions.merged(at, event.records, "state file")
                self.held.adopt_horizon(cut_ms=event.cut_ms, horizon_ms=event.horizon_ms)
            case m.Leaving():
                farewell = presence_of(self._seal, self._presence.instance, leaving=True)
                actions = [m.PublishPresence(presence=farewell)]
            case m.Tick():
                pass
            case _:
                actions = self._on_peers(at, event)
        return actions

    def _on_peers(self, at: Moment, event: m.PeerEvent) -> list[m.Action]:
        actions: list[m.Action] = []
        match event:
            case m.VerdictHeard(path=path, verdict=verdict):
                if verdict.registry != self._name:
                    actions = self._sessions.judged(at, path, verdict)
            case m.PresenceHeard(presence=presence):
                actions = self._on_presence(at, presence)
            case m.GossipHeard(message=message):
                actions = self._on_gossip(at, message)
            case m.SnapshotAsked(ask=ask, reply=reply):
                actions = self._on_snapshot(at, ask, reply)
            case m.Relayed(records=relay):
                actions = self._sessions.relayed(at, relay.records, f"view {relay.sender}")
            case m.PageHeard(page=page):
                actions = self._on_page(at, page)
            case m.PageFailed():
                self._boot.failed(at.now)
            case m.MeshLost() | m.MeshBack():
                self._on_mesh(at, is_lost=isinstance(event, m.MeshLost))
        return actions

    def _on_mesh(self, at: Moment, *, is_lost: bool) -> None:
        self._mesh_is_lost = is_lost
        if not is_lost:
            self._sessions.detector.pardon(at.now)
            self._round_at = self._compared_at = at.now

    # Peers -------------------------------------------------------------------

    def _on_presence(self, at: Moment, presence: Presence) -> list[m.Action]:
        peer, instance = presence.registry, presence.instance
        if presence == self._presence:
            return []
        fault = fault_of(presence, self._verify)
        if fault:
            return [m.RefusedMessage(kind="registries", error=WireError(fault))]
        if peer == self._name:
            return self._on_namesake(at, presence)
        if presence.leaving:
            self._peers.left(peer, instance)
            return []
        if not self._peers.heard(peer, at.now, site=presence.warrant.site, instance=instance):
            return []
        # It was away: compare at once, much may have happened on its side.
        return [m.PublishGossip(peer=peer, message=exchange.opening(self.held, self._name))]

    def _on_namesake(self, at: Moment, presence: Presence) -> list[m.Action]:
        """Take a presence under our own name: our own, or of somebody who must not have it."""
        if presence.instance == self._presence.instance:
            return []
        was_alone = self._namesake_until <= at.now
        # Answers and gossip go by name: what is meant for one of us, either may get.
        heard_s = 0.0 if presence.leaving else self._config.peers.heard_s
        self._namesake_until = at.now + heard_s
        return [m.NameTaken(instance=presence.instance)] if was_alone and heard_s else []

    def _on_gossip(self, at: Moment, message: Gossip) -> list[m.Action]:
        match message:
            case DigestAsk() | Leaves():
                self._follow_cut(at, message.cut_ms)
                return self._answer(at, message)
            case Repair():
                self._compared_at = at.now
                self._follow_cut(at, message.cut_ms)
                return self._on_repair(at, message)
            case Records():
                return self._sessions.merged(at, message.records, f"registry {message.sender}")

    def _on_repair(self, at: Moment, repair: Repair) -> list[m.Action]:
        actions = self._sessions.merged(at, repair.records, f"registry {repair.registry}")
        replies: list[Gossip] = [
            *exchange.asks(self.held, self._name, repair),
            *exchange.wanted(self.held, self._name, repair.wanted),
        ]
        # What is left out is asked for by a later round, which begins elsewhere: else buckets that
        # always differ would keep the others from their turn.
        start = self._asked % len(replies) if replies else 0
        for reply in (*replies[start:], *replies[:start]):
            if self._asks.may(at.now):
                self._asked += 1
                actions.append(m.PublishGossip(peer=repair.registry, message=reply))
        return actions

    def _answer(self, at: Moment, ask: DigestAsk | Leaves) -> list[m.Action]:
        if not self._answers.may(at.now):
            return [m.RefusedMessage(kind="gossip", error=WireError(_TOO_MANY))]
        try:
            repair = exchange.answer(self.held, self._name, ask)
        except WireError as error:
            return [m.RefusedMessage(kind="gossip", error=error)]
        return [m.PublishGossip(peer=ask.asker, message=repair)]

    def _follow_cut(self, at: Moment, cut_ms: int) -> None:
        self.held.forget(shared_cut_ms(cut_ms, at.wall, self._config.retention))

    def _on_snapshot(self, at: Moment, ask: SnapshotAsk, reply: str) -> list[m.Action]:
        if not reply:
            return []  # whoever does not say where to gets no answer
        if not self._answers.may(at.now):
            return [m.RefusedMessage(kind="snapshot", error=WireError(_TOO_MANY))]
        if isinstance(ask, PageAsk):
            return [m.Answer(reply=reply, answer=exchange.page(self.held, self._name, ask))]
        try:
            return [m.Answer(reply=reply, answer=exchange.answer(self.held, self._name, ask))]
        except WireError as error:
            return [m.RefusedMessage(kind="snapshot", error=error)]

    def _on_page(self, at: Moment, page: Page) -> list[m.Action]:
        actions = self._sessions.merged(at, page.records, f"registry {page.registry}")
        following = exchange.following(page)
        self._boot.paged(following)
        if following is None:
            # Not before: old sessions on later pages would have been taken for forgotten ones.
            cut_ms = shared_cut_ms(page.cut_ms, at.wall, self._config.retention)
            self.held.adopt_horizon(cut_ms=cut_ms, horizon_ms=page.horizon_ms)
        return actions

    # Time --------------------------------------------------------------------

    def _on_tick(self, at: Moment) -> list[m.Action]:
        actions: list[m.Action] = []
        ask = self._boot.due(at.now)
        if ask is not None:
            actions.append(m.AskPage(ask=ask))
        if at.now >= self._round_at:
            spread = 1 + _JITTER * (self._rng.random() - 0.5)
            self._round_at = at.now + self._config.peers.gossip_s * spread
            if not self._mesh_is_lost:
                actions += self._round(at)
        return actions

    def _round(self, at: Moment) -> list[m.Action]:
        """Do what is done once in a while: tell peers, compare, conclude, forget."""
        self._sessions.local_health.rounded()
        actions: list[m.Action] = [m.PublishPresence(presence=self._presence)]
        partner = self._peers.partner(at.now, self._rng)
        if partner is None:
            self._compared_at = at.now  # with nobody there is nothing to miss
        else:
            opening = exchange.opening(self.held, self._name)
            actions.append(m.PublishGossip(peer=partner, message=opening))
        actions += self._sessions.repeats.due(at.now, self.held)
        actions += self._sessions.conclude(at)
        if at.now >= self._sweep_at:
            self._sweep_at = at.now + self._config.retention.sweep_s
            self.held.forget(own_cut_ms(at.wall, self._config.retention))
        self.models = routable_sessions(self.held.living.values())
        self._unroutable = [model for model, sessions in self.models.items() if not sessions]
        return actions

    def _readiness(self, at: Moment) -> list[m.Action]:
        reason = self._trouble(at.now)
        if (not reason, reason) == (self.is_ready, self.reason):
            return []
        self.is_ready, self.reason = not reason, reason
        return [m.SetReady(flag=self.is_ready, reason=reason)]

    def _trouble(self, now: float) -> str:
        if self._mesh_is_lost:
            return "the mesh does not answer"
        if now < self._namesake_until:
            return f"another registry is called {self._name}, too: give one another access file"
        if self._boot.phase is not Phase.KNOWING:
            return f"{self._boot.phase.name.lower()} what there is"
        doubt = self._doubt(now)
        if doubt:
            return doubt
        if self._unroutable and self._config.unroutable_is_unready:
            return f"no session to route to: {', '.join(self._unroutable)}"
        return ""

    def _doubt(self, now: float) -> str:
        """Return why this registry does not trust itself, if so."""
        is_stale = now - self._compared_at > self._config.peers.stale_s
        if is_stale and self._peers.there(now):
            return "no peer compares maps any more: this one may be out of date"
        if self._sessions.restraint.doubting_since is None:
            return ""
        detector = self._sessions.detector
        return (
            f"{len(detector.failing)} of {len(detector)} sessions are silent:"
            " this registry may be cut off"
        )
