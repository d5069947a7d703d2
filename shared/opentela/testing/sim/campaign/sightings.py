"""What views thought of members in a trial, and what that says of their judgement."""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from opentela.testing.sim.campaign.rows import NEVER, Death

Tell: TypeAlias = Callable[[str, str, str], None]
"""Viewer, member, what."""


class Sighting(NamedTuple):
    """A change of mind of one view about one member.

    Attributes:
        what: `out`: no longer used. `back`: used again. `removed`: gone for good.
    """

    at: float
    viewer: str
    member: str
    what: str


class Wrong(NamedTuple):
    """What views thought of the living.

    Attributes:
        removed: Who was removed for good.
        out_s: Who was left out for a while, and how long by all views together.
    """

    removed: set[str]
    out_s: dict[str, float]


class Sightings:
    """All changes of mind of a trial, by member and in order."""

    def __init__(self) -> None:
        self._by_member: defaultdict[str, list[Sighting]] = defaultdict(list)

    def add(self, sighting: Sighting) -> None:
        """Take one more."""
        self._by_member[sighting.member].append(sighting)

    def clear(self) -> None:
        """Forget all: the trial only begins."""
        self._by_member.clear()

    def of(
        self, died_at: Mapping[str, tuple[str, float]], until: float, viewers: Collection[str]
    ) -> Wrong:
        """Return what was thought of the living; the dead count until their deaths.

        Who left whom out counts only for *viewers*, and while they live; a removal by anybody.
        """
        removed: set[str] = set()
        out_s: defaultdict[str, float] = defaultdict(float)
        for member, sightings in self._by_member.items():
            end = died_at.get(member, ("", until))[1]
            since: dict[str, float] = {}
            for at, viewer, _, what in sightings:
                if at > end or viewer in died_at:
                    continue
                if what == "removed":
                    removed.add(member)
                elif viewer not in viewers:
                    continue
                elif what == "out":
                    since[viewer] = at
                elif viewer in since:
                    out_s[member] += at - since.pop(viewer)
            for at in since.values():
                out_s[member] += end - at
        return Wrong(removed, out_s)

    def deaths(
        self, died_at: Mapping[str, tuple[str, float]], viewers: Sequence[str]
    ) -> tuple[Death, ...]:
        """Return how each true death was found by *viewers*."""
        return tuple(self._death(member, how, at, viewers) for member, (how, at) in died_at.items())

    def _death(self, member: str, how: str, died_at: float, viewers: Sequence[str]) -> Death:
        outs: dict[str, float] = {}
        removed: list[float] = []
        for at, viewer, _, what in self._by_member.get(member, ()):
            if what == "removed":
                removed.append(at)
            elif viewer in viewers and what == "out":
                outs[viewer] = at
            elif viewer in viewers:
                outs.pop(viewer, None)
        is_found = len(outs) == len(viewers)
        return Death(
            how=how,
            first_s=_since(died_at, min(outs.values())) if outs else NEVER,
            last_s=_since(died_at, max(outs.values())) if is_found else NEVER,
            removed_s=_since(died_at, max(removed)) if removed else NEVER,
        )


def _since(died_at: float, at: float) -> float:
    return round(max(0.0, at - died_at), 4)
