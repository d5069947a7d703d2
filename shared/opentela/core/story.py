"""How each record came to be: its latest steps, for people who ask why."""

from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

from opentela.core.ids import SessionId
from opentela.core.record import (
    Lifecycle,
    SessionRecord,
    claim_of,
    is_suspected,
    lifecycle_of,
    names_of,
)

STORY_LINES_MAX: Final = 16
"""Lines of a session's story; the oldest go first."""
STORIES_MAX: Final = 20_000
"""Sessions with a story; a thousand bytes each. The oldest go first."""


class StoryLine(NamedTuple):
    """One step of how a record came to be."""

    at: float
    source: str
    lifecycle: Lifecycle
    incarnation: int
    suspected: bool
    witnesses: tuple[str, ...]


class Stories:
    """The stories of many sessions."""

    def __init__(self) -> None:
        self._lines: dict[SessionId, deque[StoryLine]] = {}

    def of(self, session: SessionId) -> tuple[StoryLine, ...]:
        """Return the latest steps of how the record of *session* came to be."""
        return tuple(self._lines.get(session, ()))

    def forget(self, session: SessionId) -> None:
        """Drop the story of *session*."""
        self._lines.pop(session, None)

    def tell(self, record: SessionRecord, source: str, wall: float) -> None:
        """Add that *source* made the record what it is now."""
        claim = claim_of(record)
        story = self._lines.get(claim.session)
        if story is None:
            if len(self._lines) >= STORIES_MAX:
                del self._lines[next(iter(self._lines))]
            story = self._lines[claim.session] = deque(maxlen=STORY_LINES_MAX)
        story.append(
            StoryLine(
                at=wall,
                source=source,
                lifecycle=lifecycle_of(record),
                incarnation=claim.incarnation,
                suspected=is_suspected(record),
                witnesses=names_of(record.witnesses or record.ending),
            )
        )


def described(story: Iterable[StoryLine]) -> str:
    """Return a story on one line, for errors and logs."""
    return "; ".join(
        f"{line.at:.3f} {line.source}: #{line.incarnation} {line.lifecycle.name}"
        + (" suspected" if line.suspected else "")
        + (f" by {','.join(line.witnesses)}" if line.witnesses else "")
        for line in story
    )
