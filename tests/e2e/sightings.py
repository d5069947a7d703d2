"""What the views of a watcher hold, from what it tells."""

from collections.abc import Callable, Sequence
from typing import Any

from tests.e2e.lines import Lines


class Sightings:
    """The changes that views saw, in order.

    Args:
        lines: Of a watcher.
        views: All of its views.
    """

    def __init__(self, lines: Lines, views: Sequence[str]) -> None:
        self._lines = lines
        self._views = tuple(views)

    def changes(self, session: str = "") -> list[dict[str, Any]]:
        """Return every change so far, or those of one session."""
        return [
            one for one in self._lines.all("changed") if not session or one["session"] == session
        ]

    def latest(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Return the last change by session and view."""
        held: dict[str, dict[str, dict[str, Any]]] = {}
        for one in self.changes():
            held.setdefault(one["session"], {})[one["view"]] = one
        return held

    def routable(self) -> dict[str, str]:
        """Return the sessions to which every view would send requests, each with its node."""
        return {
            session: next(iter(views.values()))["node"]
            for session, views in self.latest().items()
            if len(views) == len(self._views) and all(one["routable"] for one in views.values())
        }

    def out_at(self, session: str, since: float) -> dict[str, float]:
        """Return when each view first held *session* for not routable after *since*."""
        return self._first(session, since, lambda one: not one["routable"])

    def left_at(self, session: str) -> dict[str, float]:
        """Return when each view first held that *session* has left."""
        return self._first(session, 0.0, lambda one: one["lifecycle"] == "LEFT")

    def _first(
        self, session: str, since: float, holds: Callable[[dict[str, Any]], bool]
    ) -> dict[str, float]:
        found: dict[str, float] = {}
        for one in self.changes(session):
            if one["at"] >= since and holds(one):
                found.setdefault(one["view"], one["at"])
        return found
