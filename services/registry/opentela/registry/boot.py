"""How a registry that has just started comes to know what there is.

::

    ASKING ──last page────────────────────────────► KNOWING
       └───nobody answers──► LEARNING ──`learn_s`─────┘
                 (a state file was read: at once)

It takes over a peer's map page by page. Without a peer it listens: every living session beats, and
a beat of an unknown session makes it ask for the claim. Until it knows, it answers nobody: a view
would take an empty map for the truth.
"""

from enum import Enum, auto
from typing import Final

from opentela.core.ids import SessionId
from opentela.registry.config import PeersConfig
from opentela.wire.control import PageAsk

PAGE_TIMEOUT_S: Final = 4.0
"""Seconds to wait for a page; the shell gives up before, this is for a lost answer of its own."""
TRIES_MAX: Final = 3
"""Failures in a row after which a peer that once answered counts as gone."""


class Phase(Enum):
    """How far a registry knows what there is."""

    ASKING = auto()
    LEARNING = auto()
    KNOWING = auto()


class Boot:
    """Which page to ask for next, and whether that was all."""

    def __init__(self, config: PeersConfig) -> None:
        self._config = config
        self._after = SessionId("")
        self._failures = 0
        self._until: float | None = None
        self.phase = Phase.ASKING
        self.has_state = False

    def next_deadline(self) -> float | None:
        """Return when `due` has something to do."""
        return None if self.phase is Phase.KNOWING else (self._until or 0.0)

    def due(self, now: float) -> PageAsk | None:
        """Return what to ask now, if anything; `phase` may have moved on."""
        if self._until is not None:
            if now < self._until:
                return None
            if self.phase is Phase.ASKING:
                self.failed(now)
            elif self.phase is Phase.LEARNING:
                self.phase = Phase.KNOWING
        if self.phase is not Phase.ASKING:
            return None
        self._until = now + PAGE_TIMEOUT_S
        return PageAsk(after=self._after)

    def paged(self, following: PageAsk | None) -> None:
        """Take note that a page came, and which one is next."""
        if self.phase is not Phase.ASKING:
            return
        self._failures = 0
        if following is None:
            self.phase = Phase.KNOWING
        else:
            self._after = following.after
            self._until = None

    def failed(self, now: float) -> None:
        """Take note that nobody answered."""
        if self.phase is not Phase.ASKING:
            return
        self._until = None
        self._failures += 1
        # "No responders" before any page means that there is no peer: no use in asking again.
        if self._after and self._failures < TRIES_MAX:
            return
        self.phase = Phase.LEARNING
        self._until = now if self.has_state else now + self._config.learn_s
