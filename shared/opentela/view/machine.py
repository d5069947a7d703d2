"""What a view does with what it hears: apply at once, boot by pages, repair by digest.

Deltas of owners and verdicts of registries arrive unasked. Beside them one conversation goes on
with whichever registry answers: first the whole map in pages, then every `repair_s` a digest
exchange.
What the registry lacks, because all of them forgot it, it is told: else a session that died
meanwhile would be believed in here for ever, and looked for by nobody.
Without any registry the view stays as it is and says since when.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final, TypeAlias

import msgspec

from opentela.core.record import SessionRecord, SignedClaim
from opentela.core.refusal import Reason, Rejection, lone, supported
from opentela.core.rng import Rng
from opentela.core.session_map import Applied, SessionMap, Verify
from opentela.view import exchange
from opentela.view.config import ViewConfig
from opentela.view.presence import fault_of
from opentela.wire.control import (
    Page,
    PageAsk,
    Presence,
    Records,
    Repair,
    SnapshotAnswer,
    SnapshotAsk,
    Verdict,
)
from opentela.wire.subjects import SessionPath

REGISTRIES_MAX: Final = 64
"""Registries that are remembered; nobody runs that many."""
ASKS_AT_ONCE: Final = 8
"""Questions under way: descending into 16 buckets takes two round trips instead of sixteen."""
ASKS_WAITING_MAX: Final = 1024
"""Questions that wait; what is beyond is found by the next repair."""
_JITTER: Final = 0.4
"""Repairs are spread by this share, so that routers started together do not ask together."""


class DeltaHeard(msgspec.Struct, frozen=True, kw_only=True):
    """An owner published a claim over the subject of *path*."""

    path: SessionPath
    signed: SignedClaim


class VerdictHeard(msgspec.Struct, frozen=True, kw_only=True):
    """A registry published a verdict over the subject of *path*."""

    path: SessionPath
    verdict: Verdict


class PresenceHeard(msgspec.Struct, frozen=True, kw_only=True):
    """A registry said that it is there, or leaves."""

    presence: Presence


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """A registry answered question *number*."""

    number: int
    answer: SnapshotAnswer


class AskFailed(msgspec.Struct, frozen=True, kw_only=True):
    """Nobody answered question *number*, or not what was asked."""

    number: int


class MeshBack(msgspec.Struct, frozen=True, kw_only=True):
    """The connection was lost and is back: deltas were missed."""


class Tick(msgspec.Struct, frozen=True, kw_only=True):
    """Time has passed: `next_deadline` is reached."""


Event: TypeAlias = (
    DeltaHeard | VerdictHeard | PresenceHeard | Answered | AskFailed | MeshBack | Tick
)


class AskRegistry(msgspec.Struct, frozen=True, kw_only=True):
    """Request *ask* on the snapshot subject; tell `Answered` or `AskFailed` with *number*."""

    number: int
    ask: SnapshotAsk


class TellRegistry(msgspec.Struct, frozen=True, kw_only=True):
    """Publish *records* on the relay subject: a registry wants them; no answer comes."""

    records: Records


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """Tell the application: these records are new or different; some may have `LEFT`."""

    records: tuple[SessionRecord, ...]


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """Log and count: these records were refused."""

    rejected: tuple[Rejection, ...]
    source: str


Action: TypeAlias = AskRegistry | TellRegistry | Changed | Refused


class ViewMachine:
    """The sessions of the mesh, kept up to date.

    Attributes:
        held: The map itself; applications read `held.living`.
        caught_up: The whole map of a registry has been taken over once.
        stale_since: Monotonic time since which no registry has answered; None while one does.
    """

    def __init__(
        self, *, name: str, verify: Verify, rng: Rng, config: ViewConfig, relays: bool = True
    ) -> None:
        self._verify = verify
        self._relays = relays
        self._name = name
        self._rng = rng
        self._config = config
        self._waiting: deque[SnapshotAsk] = deque(maxlen=ASKS_WAITING_MAX)
        self._under_way: dict[int, float] = {}
        self._registries: dict[str, tuple[float, Presence]] = {}
        self._number = 0
        self._round_at: float | None = 0.0
        self._booted_to = PageAsk()
        self.held = SessionMap(verify, sessions_per_provider=config.sessions_per_provider)
        self.caught_up = False
        self.stale_since: float | None = None

    def next_deadline(self) -> float:
        """Return when `Tick` is due; there is always a round or an answer to wait for."""
        deadlines = list(self._under_way.values())
        if self._round_at is not None:
            deadlines.append(self._round_at)
        return min(deadlines)

    def step(self, now: float, wall: float, event: Event) -> list[Action]:
        """Take one event and return what is to be done about it."""
        match event:
            case DeltaHeard(path=path, signed=signed):
                return _told(self.held.admit(signed, path, wall=wall), "owner")
            case VerdictHeard() | PresenceHeard():
                return self._hear(now, wall, event)
            case Answered():
                return self._on_answer(now, wall, event)
            case AskFailed(number=number):
                is_awaited = self._under_way.pop(number, None) is not None
                return self._on_failure(now) if is_awaited else []
            case MeshBack():
                self._under_way.clear()
                return self._begin(now)
            case Tick():
                return self._on_tick(now)

    def _hear(self, now: float, wall: float, event: VerdictHeard | PresenceHeard) -> list[Action]:
        if isinstance(event, PresenceHeard):
            self._see(now, event.presence)
            return []
        record = exchange.judged(self.held, event.path, event.verdict)
        if record is None:
            return []
        source = f"verdict of {event.verdict.registry}"
        return self._merge(now, wall, [record], source)

    def _merge(
        self, now: float, wall: float, records: Iterable[SessionRecord], source: str
    ) -> list[Action]:
        """Take a registry's records, without what it alone says while there are others."""
        quorum = self._quorum(now)
        refused: list[Rejection] = []

        def believe(record: SessionRecord) -> SessionRecord:
            part = supported(record, quorum)
            if part is not record and record.ending:
                self.held.count(Reason.UNSUPPORTED)
                refused.append(lone(record))
            return part

        applied = self.held.apply(records, wall=wall, source=source, believe=believe)
        return _told(applied.without(refused), source)

    def _see(self, now: float, presence: Presence) -> None:
        """Take note of which registries there are: they judge together."""
        name = presence.registry
        known = self._registries.get(name)
        # They say the same words every second: what was checked once need not be again.
        if not (known and known[1] == presence) and fault_of(presence, self._verify):
            self.held.count(Reason.FORGED)
            return
        self._registries.pop(name, None)
        if not presence.leaving:
            self._registries[name] = (now, presence)
            if len(self._registries) > REGISTRIES_MAX:
                del self._registries[next(iter(self._registries))]
        elif known is not None and known[1].instance != presence.instance:
            self._registries[name] = known  # an earlier life of it has left

    def _quorum(self, now: float) -> int:
        oldest = now - self._config.registries_s
        there = sum(at > oldest for at, _ in self._registries.values())
        return max(1, min(self._config.quorum, there))

    def _on_answer(self, now: float, wall: float, event: Answered) -> list[Action]:
        # An answer that comes late is as true as any; it only no longer moves the conversation.
        is_awaited = self._under_way.pop(event.number, None) is not None
        answer = event.answer
        source = f"registry {answer.registry}"
        actions = self._merge(now, wall, answer.records, source)
        if not is_awaited:
            return actions
        self.stale_since = None
        match answer:
            case Page():
                self._on_page(answer)
            case Repair():
                self.held.forget(answer.cut_ms)
                self._waiting.extend(exchange.asks(self.held, self._name, answer))
                wanted = answer.wanted if self._relays else ()
                for records in exchange.wanted(self.held, self._name, wanted):
                    actions.append(TellRegistry(records=records))
        return actions + self._converse(now)

    def _on_page(self, page: Page) -> None:
        following = exchange.following(page)
        if following is not None:
            self._booted_to = following
            self._waiting.append(following)
            return
        # Not before: old sessions on later pages would have been taken for forgotten ones.
        self.held.adopt_horizon(cut_ms=page.cut_ms, horizon_ms=page.horizon_ms)
        self.caught_up = True

    def _on_failure(self, now: float) -> list[Action]:
        if self.stale_since is None:
            self.stale_since = now
        self._waiting.clear()
        if not self._under_way:
            self._round_at = now + self._config.retry_s
        return []

    def _on_tick(self, now: float) -> list[Action]:
        late = [number for number, deadline in self._under_way.items() if deadline <= now]
        for number in late:
            del self._under_way[number]
        if late:
            return self._on_failure(now)
        if self._round_at is not None and self._round_at <= now:
            return self._begin(now)
        return []

    def _begin(self, now: float) -> list[Action]:
        """Start a round: the next page while booting, later a comparison."""
        assert not self._under_way, "one round at a time"
        self._round_at = None
        self._waiting.clear()
        self._waiting.append(
            exchange.opening(self.held, self._name) if self.caught_up else self._booted_to
        )
        return self._converse(now)

    def _converse(self, now: float) -> list[Action]:
        """Ask what waits; when nothing is left, the round is over."""
        actions: list[Action] = []
        while self._waiting and len(self._under_way) < ASKS_AT_ONCE:
            self._number += 1
            self._under_way[self._number] = now + self._config.ask_timeout_s
            actions.append(AskRegistry(number=self._number, ask=self._waiting.popleft()))
        if not self._under_way:
            spread = 1 + _JITTER * (self._rng.random() - 0.5)
            self._round_at = now + self._config.repair_s * spread
        return actions


def _told(applied: Applied, source: str) -> list[Action]:
    actions: list[Action] = []
    # Tombstones that a registry still holds while we have dropped them are refused in silence.
    refused = tuple(r for r in applied.rejected if r.reason is not Reason.FORGOTTEN)
    if applied.changes:
        records = tuple(change.after for change in applied.changes)
        actions.append(Changed(records=records))
    if refused:
        actions.append(Refused(rejected=refused, source=source))
    return actions
