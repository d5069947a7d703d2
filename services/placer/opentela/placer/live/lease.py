"""Which of several placers leads: a lease that is renewed, and taken over when it is not.

No two clocks are compared. A leader counts from the moment at which it *sent* the write that was
taken, and stops a little before its time is up. Another takes over when it has *seen* the entry
unchanged for the whole of that time, which begins later. A write names the revision that it
replaces, so that of a renewal and a takeover only one is taken.
"""

from typing import Final, TypeAlias

import msgspec

from opentela.wire.lease import Entry, Held

_DRIFT: Final = 0.1
"""Share of the lease by which a leader stops earlier: more than two clocks' rates ever differ."""
_NEVER: Final = float("inf")


class Tick(msgspec.Struct, frozen=True, kw_only=True):
    """Time has passed."""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """The lease was read; there is no bucket if *held* is None."""

    held: Held | None


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """A write was taken under *revision*, or came too late if that is 0; sent at *sent_at*."""

    revision: int
    sent_at: float


class Unanswered(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked last has no answer, or one that says nothing; *why* for people."""

    why: str


class Outdone(msgspec.Struct, frozen=True, kw_only=True):
    """An agent has heard of *term*, which is later than ours.

    Either another leads, which a look at the bucket tells; or nobody does who could go on, and ours
    must become later still: the bucket is younger than that term, or was never asked for it.
    """

    term: int


Event: TypeAlias = Tick | Seen | Written | Unanswered | Outdone


class Make(msgspec.Struct, frozen=True, kw_only=True):
    """Make the bucket; then `Seen` a lease that nobody holds, or `Unanswered`."""


class Read(msgspec.Struct, frozen=True, kw_only=True):
    """Read the lease."""


class Write(msgspec.Struct, frozen=True, kw_only=True):
    """Write *entry* in place of *revision*."""

    revision: int
    entry: Entry


Action: TypeAlias = Make | Read | Write


class Lease:
    """One placer's part in the election.

    Attributes:
        term: Under which it leads, 0 when it does not.
        leader: Who leads as far as it knows.
        differs: Whether who leads is told to do other things than this one.
        why_not: Why nothing is known of the lease; empty when something is.
    """

    def __init__(
        self, *, placer: str, instance: str, lease_s: float, renew_s: float, settings: str = ""
    ) -> None:
        assert renew_s < lease_s * (1 - _DRIFT), "no time to renew"
        self._mine = Entry(placer=placer, instance=instance, lease_s=lease_s, settings=settings)
        self._renew_s = renew_s
        self._base = 0
        self._asked_ahead = 0
        self._last = -_NEVER
        self._until = -_NEVER
        self._next = -_NEVER
        self._asked_at: float | None = None
        self._seen = Held()
        self._seen_at = -_NEVER
        self.term = 0
        self.leader = ""
        self.differs = False
        self.why_not = "not asked yet"

    def leads(self, now: float) -> bool:
        """Return whether it may act at *now*."""
        return bool(self.term) and now < self._until

    def why_lost(self, own: str) -> str:
        """Return why *own*, who led, does so no more."""
        if self.leader not in {"", own}:
            return f"{self.leader} leads"
        return self.why_not or "its lease ran out before it was renewed"

    def next_deadline(self) -> float:
        """Return when to tick next."""
        if self._asked_at is not None:
            return self._until if self.term else _NEVER
        return min(self._next, self._until) if self.term else self._next

    def step(self, now: float, event: Event) -> list[Action]:
        """Take in *event* and return what to ask the bucket."""
        actions: list[Action] = []
        match event:
            case Seen(held=held):
                actions = self._see(now, held)
            case Written(revision=revision, sent_at=sent_at):
                actions = self._take(now, revision, sent_at)
            case Unanswered(why=why):
                # It may have been taken all the same; who holds it is found out by reading.
                self._asked_at, self.why_not = None, why
                self._next = now + self._renew_s / 2
            case Outdone(term=term):
                self._outdo(now, term)
            case Tick():
                pass
        if self.term and now >= self._until:
            self._depose()
        if self._asked_at is None and now >= self._next and not actions:
            actions = [self._ask()]
        if actions:
            self._asked_at = self._last = now
            self._asked_ahead = self._mine.ahead
        return actions

    def resign(self, now: float) -> list[Action]:
        """Give the lease back, so that another need not wait; ask nothing afterwards."""
        if not self.leads(now):
            return []
        self._depose()
        return [Write(revision=self._seen.revision, entry=Entry(ahead=self._mine.ahead))]

    def _ask(self) -> Action:
        if self.term and not self.why_not:
            return Write(revision=self._seen.revision, entry=self._mine)
        return Read()

    def _see(self, now: float, held: Held | None) -> list[Action]:
        self._asked_at = None
        self._next = now + self._renew_s / 2
        if held is None:
            self._depose()
            return [Make()]
        self.why_not = ""
        revision = held.revision
        if not revision and self._seen.entry.instance not in {"", self._mine.instance}:
            # The bucket was lost, and with it the entry of one who may still lead.
            held = self._seen
        if held.revision != self._seen.revision or self._seen_at == -_NEVER:
            self._seen, self._seen_at = held, now
        self._keep_ahead(held.entry.ahead)
        self.leader = held.entry.placer
        # One that has given the lease back, or is of an earlier release, tells nothing.
        self.differs = held.entry.settings not in {"", self._mine.settings}
        if held.entry.instance == self._mine.instance:
            # A write of ours that was not answered. How long it holds nobody knows; write anew.
            return [Write(revision=revision, entry=self._mine)]
        if self.term:
            self._depose()
        free_at = self._seen_at + held.entry.lease_s if held.entry.placer else now
        if now >= free_at:
            return [Write(revision=revision, entry=self._mine)]
        self._next = min(self._next, free_at)
        return []

    def _take(self, now: float, revision: int, sent_at: float) -> list[Action]:
        self._asked_at = None
        if not revision:
            # Somebody else wrote, or an unanswered write of our own: whoever it was, look.
            self.why_not = "another has written"
            self._next = now
            return []
        self.why_not = ""
        self._seen, self._seen_at = Held(revision=revision, entry=self._mine), now
        self._until = sent_at + self._mine.lease_s * (1 - _DRIFT)
        # What an agent has told since is not written yet.
        is_whole = self._asked_ahead == self._mine.ahead
        self._next = sent_at + (self._renew_s if is_whole else self._renew_s / 2)
        self.leader, self.differs = self._mine.placer, False
        self._base = self._base or revision
        self.term = self._base + self._asked_ahead
        return []

    def _outdo(self, now: float, term: int) -> None:
        if not self.term or term <= self.term:
            return
        self._keep_ahead(term + 1 - self._base)
        # Not at once for each that says so: anybody can say anything as often as they like.
        self._next = min(self._next, max(now, self._last + self._renew_s / 2))

    def _keep_ahead(self, ahead: int) -> None:
        if ahead > self._mine.ahead:
            self._mine = msgspec.structs.replace(self._mine, ahead=ahead)

    def _depose(self) -> None:
        self.term = self._base = 0
        self._until = -_NEVER
