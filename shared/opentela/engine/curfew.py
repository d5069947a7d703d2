"""Near the end of an allocation, what would not be finished is not begun.

A request is refused when it will probably take longer than the session is there. It has not begun
then, so that its router tries another session at once. Nothing is refused before enough answers
were seen to tell how fast the engine is.
"""

import re
from typing import Final

from opentela.core.forecast import Forecast, tokens_asked

_EVENT_END: Final = b"\n\n"
_COUNTED: Final = re.compile(rb'"(?:completion_tokens|output_tokens)"\s*:\s*(\d{1,9})')
_NOT_TOKENS: Final = 2
"""Events of a stream that carry none: its finish and its `[DONE]`."""


class Curfew:
    """Until when a supervisor's sessions are there, and how long their requests take.

    Attributes:
        leave_at: Unix seconds; 0 while no end is known, and nothing needs to be learned.
    """

    def __init__(self) -> None:
        self.leave_at = 0.0
        self._forecast = Forecast()

    def refusal(self, wall: float, body: bytes) -> str:
        """Return why a request is not begun; empty if it may be.

        Args:
            wall: Unix seconds of now.
            body: Of the request, as far as it has come.
        """
        forecast = self._forecast
        if not self.leave_at or not forecast.is_trusted:
            return ""
        left_s = self.leave_at - wall
        lasts_s = forecast.lasts_s(tokens_asked(body))
        if lasts_s <= left_s:
            return ""
        left_s = max(0.0, left_s)
        return f"the request may take {lasts_s:.0f} s, and the session leaves in {left_s:.0f} s"

    def learn(self, duration_s: float, answer: "AnswerLength", tokens_max: int) -> None:
        """Take note of an answer that came whole."""
        self._forecast.learn(duration_s, tokens=answer.tokens, tokens_max=tokens_max)


class AnswerLength:
    """How many tokens an answer has, as nearly as can be told without reading it."""

    __slots__ = ("_events", "_last")

    def __init__(self) -> None:
        self._events = 0
        self._last = b""

    def read(self, data: bytes) -> None:
        """Take note of a part of the answer."""
        if data:
            self._events += data.count(_EVENT_END)
            self._last = data

    @property
    def tokens(self) -> int:
        """What the engine counted, if it says so at the end, or the events of a stream."""
        counted = _COUNTED.findall(self._last)
        if counted:
            return int(counted[-1])
        return max(0, self._events - _NOT_TOKENS)
