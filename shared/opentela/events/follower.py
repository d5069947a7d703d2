"""Follows lifecycle events: first the stored ones, then those that come, without gap or repetition.

::

    REPLAYING ──the stream has no more──► FOLLOWING ──the mesh was lost──► REPLAYING
        └──nobody keeps events──► LIVE ──the next question is answered──────────┘

Listening begins before the first question, and what is heard meanwhile waits behind what is
stored. While following, the stream is asked again every `CHECK_S`: it fills in what was lost on the
way. Whatever comes twice is known by its id.

Each question begins with the last event that was read. If that is not there again and again, or
another one in its place, the stream was lost and made anew: it is read from its beginning.
"""

from collections import OrderedDict, deque
from collections.abc import Collection
from enum import Enum, auto
from typing import Final, NamedTuple, TypeAlias

import msgspec

from opentela.core.errors import WireError
from opentela.wire import history
from opentela.wire.events import DECODER, LifecycleEvent
from opentela.wire.history import Answer, BatchEnd, NoHistory, Nothing, Stored

CHECK_S: Final = 10.0
"""Seconds between questions while following: how late an event can be that was lost on the way."""
ANSWER_S: Final = 5.0
"""Seconds for the next part of an answer; then it is asked for again."""
HELD_MAX: Final = 10_000
"""Events that wait behind the stored ones; more are found in the stream."""
REMEMBERED_MAX: Final = 65_536
"""Ids kept to drop repetitions, some 100 B each: far more than are under way at any time."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which events are asked for; empty means any."""

    kinds: Collection[str] = ()
    models: Collection[str] = ()
    sites: Collection[str] = ()

    def takes(self, event: LifecycleEvent) -> bool:
        """Return whether *event* is asked for."""
        return (
            (not self.kinds or event.kind in self.kinds)
            and (not self.sites or event.site in self.sites)
            and (not self.models or any(model in self.models for model in event.models))
        )


class Heard(NamedTuple):
    """An event arrived, just told by a registry."""

    payload: bytes


class Answered(NamedTuple):
    """Part of the answer to question *number* arrived."""

    number: int
    answer: Answer


class MeshBack(NamedTuple):
    """The connection was lost and is back: events were missed."""


class Tick(NamedTuple):
    """`next_deadline` is reached."""


Event: TypeAlias = Heard | Answered | MeshBack | Tick

_BEGINNING: Final = Stored(0, b"")
"""Stands for the last event that was read when none was: all that is stored is news."""
_MISSED_MAX: Final = 2
"""Looks in a row that do not find the last event that was read, until the stream counts as another
one: where several servers keep it, one may lag behind for a moment."""


class Ask(NamedTuple):
    """Put *question* to the stream; tell each part of its answer as `Answered` with *number*."""

    number: int
    question: bytes


class Tell(NamedTuple):
    """Hand an event to the application."""

    event: LifecycleEvent


class CaughtUp(NamedTuple):
    """Everything that was stored has been told, or nothing is: *why* not, for people."""

    why: str = ""


class Garbled(NamedTuple):
    """Log: something that should be an event is none."""

    error: WireError


Action: TypeAlias = Ask | Tell | CaughtUp | Garbled


class _Phase(Enum):
    REPLAYING = auto()
    FOLLOWING = auto()
    LIVE = auto()


class Follower:
    """One reader of events.

    Args:
        since: RFC 3339 time from which on stored events are told; empty for none of them.
        wanted: Which events.
    """

    def __init__(self, *, since: str = "", wanted: Wanted | None = None) -> None:
        self._since = since
        self._wanted = wanted or Wanted()
        self._phase = _Phase.REPLAYING
        self._last: Stored | None = None
        self._missed = 0
        self._number = 0
        self._first = 0  # the first question to the stream that is there now
        self._deadline = 0.0
        self._is_waiting = False
        self._has_said = False
        self._held: deque[LifecycleEvent] = deque(maxlen=HELD_MAX)
        self._seen: OrderedDict[str, None] = OrderedDict()

    def next_deadline(self) -> float:
        """Return when `Tick` is due."""
        return self._deadline

    def step(self, now: float, event: Event) -> list[Action]:
        """Take one event and return what is to be done about it."""
        match event:
            case Heard(payload=payload):
                return self._on_heard(payload)
            case Answered(number=number, answer=answer):
                is_of_this_stream = number >= self._first
                return self._on_answer(now, number, answer) if is_of_this_stream else []
            case MeshBack():
                if self._phase is _Phase.FOLLOWING:
                    self._phase = _Phase.REPLAYING
                return self._ask(now)
            case Tick():
                return self._on_tick(now)

    def _on_tick(self, now: float) -> list[Action]:
        if now < self._deadline:
            return []
        actions: list[Action] = []
        if self._is_waiting:
            # What has been heard shall not wait for a hub that may be away for hours.
            self._phase = _Phase.LIVE
            actions = self._caught_up(f"the hub did not answer within {ANSWER_S:g} s")
        return actions + self._ask(now)

    def _ask(self, now: float) -> list[Action]:
        """Ask for the last stored event that was read, and for what is behind it."""
        self._number += 1
        self._is_waiting = True
        self._deadline = now + ANSWER_S
        if self._last is not None:
            question = history.ask_from(max(1, self._last.sequence))
        else:
            question = history.ask_since(self._since) if self._since else history.ask_last()
        return [Ask(self._number, question)]

    def _on_heard(self, payload: bytes) -> list[Action]:
        event = _read(payload)
        if isinstance(event, Garbled):
            return [event]
        if self._phase is _Phase.REPLAYING:
            self._held.append(event)
            return []
        return self._told(event)

    def _on_answer(self, now: float, number: int, answer: Answer) -> list[Action]:
        if isinstance(answer, Stored):
            return self._on_stored(now, answer)
        if number != self._number or not self._is_waiting:
            return []  # of a question that was given up
        if isinstance(answer, BatchEnd) and answer.pending:
            return self._ask(now)
        is_missed = isinstance(answer, Nothing) and self._last not in {None, _BEGINNING}
        self._missed = self._missed + 1 if is_missed else 0
        if self._missed == _MISSED_MAX:
            return self._ask_anew(now)
        self._is_waiting = False
        self._deadline = now + CHECK_S
        if isinstance(answer, NoHistory):
            self._phase = _Phase.LIVE
            return self._caught_up(answer.why)
        if isinstance(answer, Nothing) and self._last is None and not self._since:
            # The stream is empty: all that it will hold is news.
            self._last = _BEGINNING
        self._phase = _Phase.FOLLOWING
        return self._caught_up("")

    def _on_stored(self, now: float, stored: Stored) -> list[Action]:
        is_start = self._last is None and not self._since
        last = self._last
        if last is not None and stored.sequence <= last.sequence:
            is_other = stored.sequence == last.sequence and stored.payload != last.payload
            return self._ask_anew(now) if is_other else []
        self._last = stored
        self._deadline = now + ANSWER_S
        if is_start:
            # Where to begin: the event itself happened before we were asked, or is held already.
            self._is_waiting = False
            self._deadline = now
            return []
        event = _read(stored.payload)
        return [event] if isinstance(event, Garbled) else self._told(event)

    def _ask_anew(self, now: float) -> list[Action]:
        """Ask for all that there is: it is not the stream that was read before."""
        self._last = _BEGINNING
        asked = self._ask(now)
        self._first = self._number
        return asked

    def _caught_up(self, why: str) -> list[Action]:
        actions: list[Action] = []
        while self._held:
            actions += self._told(self._held.popleft())
        if not self._has_said:
            self._has_said = True
            actions.append(CaughtUp(why))
        return actions

    def _told(self, event: LifecycleEvent) -> list[Action]:
        if event.id in self._seen:
            return []
        self._seen[event.id] = None
        if len(self._seen) > REMEMBERED_MAX:
            self._seen.popitem(last=False)
        return [Tell(event)] if self._wanted.takes(event) else []


def _read(payload: bytes) -> LifecycleEvent | Garbled:
    try:
        return DECODER.decode(payload)
    except msgspec.DecodeError as error:
        return Garbled(WireError(f"not an event: {error}"))
