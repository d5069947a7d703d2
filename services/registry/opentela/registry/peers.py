"""The other registries: who is there, whom to gossip with, how many make a quorum.

::

    (unknown) ──a word──► there ──silent for `heard_s`──► away ──for `memory_s`──► (unknown)
                            └──────────────"I leave"────────────────────────────────────┘

Who is there counts for the quorum. Who is away does not, but while it is remembered nobody is
evicted: it may be cut off, and hear sessions that nobody here does. One that left in order says so,
and is neither counted nor waited for. With one registry left, its word alone is the quorum.
"""

from typing import Final, NamedTuple

from opentela.core.rng import Rng
from opentela.registry.config import PeersConfig
from opentela.registry.judgement import Bar

PEERS_MAX: Final = 64
"""Registries that are remembered; names beyond are ignored, as nobody runs that many."""


class _Life(NamedTuple):
    """One process of a peer."""

    site: str
    instance: str


class Peers:
    """Registries by name, as they were last heard, beside one at *site*."""

    def __init__(self, config: PeersConfig, *, site: str = "") -> None:
        self._config = config
        self._site = site
        self._heard_at: dict[str, float] = {}
        self._back_at = float("-inf")
        self._lives: dict[str, _Life] = {}

    def heard(self, name: str, now: float, *, site: str = "", instance: str = "") -> bool:
        """Take a peer's word that it is there; return whether it was away until now."""
        was_away = not self._is_there(name, now)
        if was_away and name in self._heard_at:
            self._back_at = now
        if name in self._heard_at or len(self._heard_at) < PEERS_MAX:
            self._heard_at[name] = now
            self._lives[name] = _Life(site, instance)
        return was_away and name in self._heard_at

    def left(self, name: str, instance: str = "") -> None:
        """Take a peer's farewell: it is forgotten at once, unless an earlier life of it says so."""
        life = self._lives.get(name)
        if life is not None and life.instance == instance:
            del self._heard_at[name], self._lives[name]

    def there(self, now: float) -> list[str]:
        """Return who was heard lately."""
        return [name for name in self._heard_at if self._is_there(name, now)]

    def known(self, now: float) -> list[str]:
        """Return who is remembered; forget the others."""
        oldest = now - self._config.memory_s
        self._heard_at = {name: at for name, at in self._heard_at.items() if at > oldest}
        self._lives = {n: life for n, life in self._lives.items() if n in self._heard_at}
        return list(self._heard_at)

    def partner(self, now: float, rng: Rng) -> str | None:
        """Return a random peer to compare with."""
        there = self.there(now)
        return there[rng.randrange(len(there))] if there else None

    def quorum(self, now: float) -> int:
        """Return how many must witness a silence to make it a suspicion."""
        return min(self._config.quorum, 1 + len(self.there(now)))

    def bar(self, now: float) -> Bar:
        """Return how many must witness a silence, and at how many sites they must be.

        Registries of one site fail to reach a session for one reason: the site's link.
        """
        sites = {self._site, *(self._lives[name].site for name in self.there(now))}
        return Bar(self.quorum(now), min(self._config.quorum, len(sites)))

    def away(self, now: float) -> list[str]:
        """Return who is remembered and was not heard lately."""
        return [name for name in self.known(now) if not self._is_there(name, now)]

    def may_hear_more(self, now: float) -> bool:
        """Return whether a peer may hear whom nobody here does, or did so until just now.

        The word of one that comes back is the first of its side to arrive: those whom it hears
        need a moment to be heard here, too.
        """
        return bool(self.away(now)) or now < self._back_at + self._config.heard_s

    def _is_there(self, name: str, now: float) -> bool:
        at = self._heard_at.get(name)
        return at is not None and at > now - self._config.heard_s
