"""How many requests of this router are under way at each session."""

from opentela.core.ids import SessionId


class Counts:
    """Counts that cannot drift: an end without a start is a bug, and nothing stays behind."""

    def __init__(self) -> None:
        self._by_session: dict[SessionId, int] = {}

    def __len__(self) -> int:
        return len(self._by_session)

    def of(self, session: SessionId) -> int:
        """Return how many are under way there."""
        return self._by_session.get(session, 0)

    def started(self, session: SessionId) -> int:
        """Count one more; return how many there are now."""
        has = self._by_session[session] = self._by_session.get(session, 0) + 1
        return has

    def ended(self, session: SessionId) -> None:
        """Count one less; a session with none is not remembered."""
        by_session = self._by_session
        left = by_session.get(session, 0) - 1
        assert left >= 0, f"an end without a start at {session}"
        if left:
            by_session[session] = left
        else:
            del by_session[session]
