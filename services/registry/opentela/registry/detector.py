"""Evidence that sessions live, path by path, and when all of it has failed.

A session beats. While it does, nothing is asked of it. When a beat is late it is probed, and then
it is the paths together that decide:

==================  ==================  ================================  ===================
heartbeat           probe               scheduler, routers                so the session is
==================  ==================  ================================  ===================
in time             answered            anything                          alive
late                answered            anything                          alive
in time             "no responders"     it ended; its requests fail       failed, at once
late                "no responders"     nothing                           failed, at once
late                anything            it ended                          failed, at once
lease is over       `probes_min` lost   nothing                           failed
anything            anything            it runs                           alive
==================  ==================  ================================  ===================

Probes follow each other without waiting for answers: what is lost on the way, or late, costs one of
several, and as many as it takes fit between a beat that is late and the end of the lease.
"Failed" is this registry's own observation; what follows from it is decided elsewhere. One sign of
life on any path ends it. A router's word only makes a registry look: that requests fail is nothing
against a session that answers.
"""

import heapq
import math
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

from opentela.core.ids import SessionId
from opentela.registry.config import DetectorConfig
from opentela.wire.control import BEAT_EVERY_S

BEAT_EVERY_MAX_S: Final = 10.0
"""A session may not promise to beat more rarely: death would go unnoticed that long."""
BEAT_EVERY_MIN_S: Final = 0.05


class Path(StrEnum):
    """An independent way to learn whether a session lives."""

    HEARTBEAT = "heartbeat"
    PROBE = "probe"
    ADVISORY = "advisory"


class SendProbe(NamedTuple):
    """Ask the session whether it lives."""

    session: SessionId
    sequence: int


class Failed(NamedTuple):
    """Every available path to the session has failed, as of now."""

    session: SessionId


Finding: TypeAlias = SendProbe | Failed


class _Advice(NamedTuple):
    alive: bool
    until: float


class _Watch:
    """What is known of one session; `entry_at` is the time of its one valid entry in the heap.

    `probes` were sent since the last sign of life, enough of them by `enough_at`.
    """

    __slots__ = (
        "advice",
        "enough_at",
        "entry_at",
        "every_s",
        "failed_at",
        "has_spoken",
        "heard_at",
        "is_doubted",
        "is_gone",
        "is_urged",
        "probe_at",
        "probes",
    )

    def __init__(self, now: float) -> None:
        self.heard_at = now
        self.has_spoken = False
        self.every_s = BEAT_EVERY_S
        self.failed_at: float | None = None
        self.advice: _Advice | None = None
        self.entry_at: float | None = None
        self.is_urged = False
        self.is_doubted = False
        self.forget_probes(now)

    def forget_probes(self, now: float) -> None:
        self.is_gone = False
        self.probes = 0
        self.enough_at: float | None = None
        self.probe_at = now


class Detector:
    """Watches sessions; `due` tells what time has brought.

    Attributes:
        widening: What lease and probe time-out are multiplied by, while this registry is slow.
    """

    def __init__(self, config: DetectorConfig) -> None:
        self._config = config
        self.widening = 1.0
        self._watches: dict[SessionId, _Watch] = {}
        self._failing: dict[SessionId, float] = {}
        self._heap: list[tuple[float, SessionId]] = []
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._watches)

    @property
    def failing(self) -> dict[SessionId, float]:
        """Sessions that all paths have failed, and since when; to be read, not written."""
        return self._failing

    def is_watched(self, session: SessionId) -> bool:
        """Return whether the session is watched."""
        return session in self._watches

    def is_heard(self, session: SessionId, now: float) -> bool:
        """Return whether the session lives by its own voice: it spoke, and is not even late."""
        watch = self._watches.get(session)
        return watch is not None and watch.has_spoken and now < self._late_at(watch)

    def next_deadline(self) -> float | None:
        """Return when `due` may have something to tell."""
        return self._heap[0][0] if self._heap else None

    # Events ------------------------------------------------------------------

    def watch(self, session: SessionId, now: float) -> None:
        """Begin to watch a session, which counts as heard now."""
        if session not in self._watches:
            watch = self._watches[session] = _Watch(now)
            self._enter(session, watch, self._late_at(watch))

    def unwatch(self, session: SessionId) -> None:
        """Watch a session no longer; its entry in the heap finds nobody."""
        self._watches.pop(session, None)
        self._failing.pop(session, None)

    def heard(self, session: SessionId, now: float, *, every_s: float = 0.0) -> None:
        """Take a sign of life; *every_s*, if given, is when to expect the next beat."""
        watch = self._watches.get(session)
        if watch is None:
            return
        watch.heard_at = now
        watch.has_spoken = True
        if every_s > 0:
            watch.every_s = min(max(every_s, BEAT_EVERY_MIN_S), BEAT_EVERY_MAX_S)
        watch.is_urged = watch.is_doubted = False
        watch.failed_at = None
        watch.forget_probes(now)
        self._failing.pop(session, None)
        self._enter(session, watch, self._late_at(watch))

    def refused(self, session: SessionId, now: float) -> None:
        """Take "no responders": the mesh knows that nobody listens there."""
        watch = self._watches.get(session)
        if watch is None or not watch.probes:
            return
        watch.is_gone = True
        self._enter(session, watch, now)

    def advise(self, session: SessionId, now: float, *, alive: bool) -> None:
        """Take the word of a scheduler on a session; that it ended is looked into at once."""
        watch = self._watches.get(session)
        if watch is not None:
            watch.advice = _Advice(alive, now + self._config.advisory_ttl_s)
            self._enter(session, watch, now)
            if not alive:
                self.doubt(session, now)

    def is_over(self, session: SessionId, now: float) -> bool:
        """Return whether a scheduler says that the session ended."""
        watch = self._watches.get(session)
        advice = watch.advice if watch is not None else None
        return advice is not None and not advice.alive and now < advice.until

    def doubt(self, session: SessionId, now: float) -> None:
        """Probe a session now, and believe at once that nobody is there, if so it is."""
        watch = self._watches.get(session)
        if watch is not None and watch.failed_at is None:
            watch.is_doubted = True
            self.urge(session, now)

    def urge(self, session: SessionId, now: float) -> None:
        """Probe a session now, although its beats are in time: somebody else cannot reach it."""
        watch = self._watches.get(session)
        if watch is not None and watch.failed_at is None:
            watch.is_urged = True
            self._enter(session, watch, now)

    def pardon(self, now: float) -> None:
        """Give everybody a fresh lease: it was the registry itself that did not listen."""
        for session, watch in self._watches.items():
            watch.heard_at = now
            watch.forget_probes(now)
            if watch.failed_at is not None:
                watch.failed_at = self._failing[session] = now
            self._enter(session, watch, self._late_at(watch))

    # Time --------------------------------------------------------------------

    def due(self, now: float) -> list[Finding]:
        """Return what is to be asked and what has failed by *now*."""
        findings: list[Finding] = []
        while self._heap and self._heap[0][0] <= now:
            at, session = heapq.heappop(self._heap)
            watch = self._watches.get(session)
            if watch is not None and watch.entry_at == at:
                findings += self._examined(session, watch, now)
                watch.entry_at = None
                self._enter(session, watch, self._look_at(watch, now))
        return findings

    def _examined(self, session: SessionId, watch: _Watch, now: float) -> list[Finding]:
        findings: list[Finding] = []
        is_late = now >= self._late_at(watch)
        if (is_late or watch.is_urged) and now >= watch.probe_at:
            findings.append(self._probe(session, watch, now))
        if watch.failed_at is None and self._has_failed(watch, now):
            watch.failed_at = self._failing[session] = now
            findings.append(Failed(session))
        return findings

    def _probe(self, session: SessionId, watch: _Watch, now: float) -> SendProbe:
        config = self._config
        is_enough = watch.probes >= config.probes_min and now >= self._lease_ends_at(watch)
        if watch.failed_at is not None or is_enough:
            # Nobody waits for it any more; or a scheduler's word holds it up.
            watch.probe_at = now + config.suspect_probe_every_s
        else:
            watch.probe_at = now + config.probe_every_s * self.widening
        watch.probes += 1
        if watch.probes == config.probes_min:
            watch.enough_at = now
        watch.is_urged = False
        self._sequence += 1
        return SendProbe(session, self._sequence)

    def _has_failed(self, watch: _Watch, now: float) -> bool:
        advice = watch.advice if watch.advice and now < watch.advice.until else None
        if advice and advice.alive:
            return False
        is_late = now >= self._late_at(watch)
        if watch.is_gone and (is_late or watch.is_doubted):
            return True
        if not is_late or advice:
            return is_late
        return now >= self._silent_at(watch)

    def _look_at(self, watch: _Watch, now: float) -> float:
        """Return when something can next be found, always later than *now*."""
        late_at = self._late_at(watch)
        if now < late_at:
            return min(late_at, watch.probe_at) if watch.is_urged else late_at
        times = [watch.probe_at]
        if watch.failed_at is None:
            times.append(self._silent_at(watch))
            if watch.advice:
                times.append(watch.advice.until)
        return min(time for time in times if time > now)

    def _late_at(self, watch: _Watch) -> float:
        # Not widened: it only makes us ask, and "no responders" is true however slow we are.
        return watch.heard_at + watch.every_s * self._config.late_beats

    def _lease_ends_at(self, watch: _Watch) -> float:
        return watch.heard_at + watch.every_s * self._config.lease_beats * self.widening

    def _silent_at(self, watch: _Watch) -> float:
        """Return when lease and probes are over, as far as these were sent."""
        if watch.enough_at is None:
            return math.inf
        answered_by = watch.enough_at + self._config.probe_timeout_s * self.widening
        return max(self._lease_ends_at(watch), answered_by)

    def _enter(self, session: SessionId, watch: _Watch, at: float) -> None:
        """See to it that the session is looked at by *at*; looking too early does no harm."""
        if watch.entry_at is None or at < watch.entry_at:
            watch.entry_at = at
            heapq.heappush(self._heap, (at, session))
