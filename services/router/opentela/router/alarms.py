"""One timer for all requests of a router, which keeps none of them longer than it runs."""

import time
from typing import Final, Protocol

from opentela.mesh.stream_timer import StreamTimer

GRAIN_S: Final = 0.5
"""Requests are first looked at within this. Most have ended then, and none was due before: whatever
is due sooner is watched by itself."""
LOOK_S: Final = 5.0
"""However late its deadline, a request is looked at so often: what has ended is dropped then. Until
the deadline itself, minutes away, a busy router would remember the numbers of millions."""


class Timed(Protocol):
    """A request, as the clock sees it."""

    def next_deadline(self) -> float | None:
        """Return when time must be told, for who looks again then; None when it need not."""

    def on_deadline(self) -> None:
        """Act on the time that has passed."""


class Alarms:
    """Which requests are to be told of time."""

    def __init__(self) -> None:
        self._requests: dict[int, Timed] = {}
        self._last = 0
        self._timer: StreamTimer[int] = StreamTimer(GRAIN_S, self._deadline_of, self._tell)

    def __len__(self) -> int:
        return len(self._requests)

    def watch(self, request: Timed, deadline: float, number: int = 0) -> int:
        """See to it that *request* is told of its deadline; return its number.

        Args:
            request: Running until `forget`.
            deadline: As it stands now.
            number: It has already, when its deadline is earlier now than before.
        """
        if not number:
            self._last += 1
            number = self._last
            self._requests[number] = request
        self._timer.add(number, deadline - time.monotonic())
        return number

    def forget(self, number: int) -> None:
        """Let a request go that has ended."""
        self._requests.pop(number, None)

    def close(self) -> None:
        """Tell nothing more."""
        self._timer.close()

    def _deadline_of(self, number: int) -> float | None:
        request = self._requests.get(number)
        deadline = request.next_deadline() if request else None
        return None if deadline is None else min(deadline, time.monotonic() + LOOK_S)

    def _tell(self, number: int) -> None:
        request = self._requests.get(number)
        if request is not None:
            request.on_deadline()
