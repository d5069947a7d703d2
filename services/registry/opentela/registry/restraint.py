"""What keeps a registry from ending sessions by mistake: doubt in itself, and a limit.

That many sessions die in one moment is rarer than that one registry loses its link. So when a large
share is silent together it suspects itself: it tells so, goes on looking, and ends nobody until the
doubt has lasted so long that the deaths must be real. And whatever it believes, it only ends so
many in a while. The idea of doubting oneself first is Lifeguard's (Dadgar et al., 2018).
"""

from collections import deque

from opentela.registry.config import RestraintConfig


class Restraint:
    """Decides whether evictions may go on.

    Attributes:
        doubting_since: Monotonic time since which the registry doubts itself; None if it does not.
    """

    def __init__(self, config: RestraintConfig) -> None:
        self._config = config
        self._evicted_at: deque[float] = deque()
        self.doubting_since: float | None = None

    def observe(self, now: float, *, watched: int, failing: int) -> bool:
        """Take how many of the watched sessions are silent; return whether doubt began or ended."""
        assert 0 <= failing <= watched, (failing, watched)
        many = max(self._config.doubt_sessions_min, self._config.doubt_share * watched)
        was_doubting = self.doubting_since is not None
        if failing < many:
            self.doubting_since = None
        elif not was_doubting:
            self.doubting_since = now
        return was_doubting != (self.doubting_since is not None)

    def allowance(self, now: float, *, living: int) -> int:
        """Return how many sessions may be evicted now."""
        since = self.doubting_since
        if since is not None and now < since + self._config.doubt_max_s:
            return 0
        while self._evicted_at and self._evicted_at[0] <= now - self._config.evictions_window_s:
            self._evicted_at.popleft()
        limit = max(self._config.evictions_min, int(self._config.evictions_share * living))
        return max(0, limit - len(self._evicted_at))

    def evicted(self, now: float) -> None:
        """Take note of an eviction."""
        self._evicted_at.append(now)
