"""What views hold, from what watchers tell."""

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

from tests.e2e.lines import Lines

LIFECYCLES: Final = ("JOINING", "SERVING", "DRAINING", "DOWN", "LEFT")
_COMPARED: Final = ("lifecycle", "incarnation", "suspected")


class Sightings:
    """The changes that views saw, in order.

    Args:
        watchers: What they tell.
        views: All of their views.
    """

    def __init__(self, watchers: Sequence[Lines], views: Sequence[str]) -> None:
        self._watchers = tuple(watchers)
        self._views = tuple(views)

    def changes(self, session: str = "") -> list[dict[str, Any]]:
        """Return every change so far, or those of one session."""
        every = [one for watcher in self._watchers for one in watcher.all("changed")]
        every.sort(key=lambda one: one["at"])
        return [one for one in every if not session or one["session"] == session]

    def latest(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Return the last change by session and view."""
        held: dict[str, dict[str, dict[str, Any]]] = {}
        for one in self.changes():
            held.setdefault(one["session"], {})[one["view"]] = one
        return held

    def routable(self, view: str = "") -> dict[str, str]:
        """Return the sessions to which every view, or one, would send requests; with their node."""
        wanted = (view,) if view else self._views
        return {
            session: next(iter(views.values()))["node"]
            for session, views in self.latest().items()
            if all(one in views and views[one]["routable"] for one in wanted)
        }

    def out_at(self, session: str, since: float) -> dict[str, float]:
        """Return when each view first held *session* for not routable after *since*."""
        return self._first(session, since, lambda one: not one["routable"])

    def suspected_at(self, session: str) -> dict[str, float]:
        """Return when each view first held that registries cannot reach *session*."""
        return self._first(session, 0.0, lambda one: one["suspected"])

    def left_at(self, session: str) -> dict[str, float]:
        """Return when each view first held that *session* has left."""
        return self._first(session, 0.0, lambda one: one["lifecycle"] == "LEFT")

    def risen(self) -> list[str]:
        """Return what went back in a lifecycle, anywhere; must be nothing."""
        reached: dict[tuple[str, str], dict[str, Any]] = {}
        found = []
        for one in self.changes():
            before = reached.get((one["view"], one["session"]), one)
            if LIFECYCLES.index(one["lifecycle"]) < LIFECYCLES.index(before["lifecycle"]):
                found.append(f"{one['view']}: {before} became {one}")
            reached[one["view"], one["session"]] = one
        return found

    def agreed_at(self, since: float, routable: Collection[str]) -> float | None:
        """Return when, after *since*, all views said the same, and that *routable* can be used."""
        held: dict[str, dict[str, tuple[Any, ...]]] = {view: {} for view in self._views}
        usable: set[str] = set()
        for one in self.changes():
            held[one["view"]][one["session"]] = tuple(one[key] for key in _COMPARED)
            (usable.add if one["routable"] else usable.discard)(one["session"])
            if one["at"] > since and usable.issuperset(routable) and _are_equal(held):
                return float(one["at"])
        return None

    def _first(
        self, session: str, since: float, holds: Callable[[dict[str, Any]], bool]
    ) -> dict[str, float]:
        found: dict[str, float] = {}
        for one in self.changes(session):
            if one["at"] >= since and holds(one):
                found.setdefault(one["view"], one["at"])
        return found


def _are_equal(held: dict[str, dict[str, tuple[Any, ...]]]) -> bool:
    first, *others = held.values()
    return all(other == first for other in others)
