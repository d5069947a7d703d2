"""How many requests of this router are under way at each session."""

from opentela.core.ids import SessionId


class Counts:
    """Counts that cannot drift: an end without a start is a bug, and nothing stays behind."""

    def __init__(self) -> None:
        self._by_session: dict[SessionId, int] = {}
        self.total = 0

    def __len__(self) -> int:
        return len(self._by_session)

    def of(self, session: SessionId) -> int:
        """Return how many are under way there."""
        return self._by_session.get(session, 0)

    def started(self, session: SessionId) -> None:
        """Count one more."""
        self._by_session[session] = self._by_session.get(session, 0) + 1
        self.total += 1

    def ended(self, session: SessionId) -> None:
        """Count one less; a session with none is not remembered."""
        left = self._by_session.get(session, 0) - 1
        assert left >= 0, f"an end without a start at {session}"
        self.total -= 1
        if left:
            self._by_session[session] = left
        else:
            del self._by_session[session]
