"""How long a request to a model will take, as its answers of late tell; one forecast a model.

Asked only when an allocation among those that could serve it ends soon.
"""

from typing import Final

from opentela.core.forecast import Forecast, tokens_asked
from opentela.core.pieces import Text
from opentela.router.attempt_events import Outcome
from opentela.wire.usage import UsageRecord

MODELS_MAX: Final = 1000
"""Models with a forecast, some 8 KB each; those that were answered longest ago are forgotten."""
EVERY_MS: Final = 5
"""Two hundred answers a second tell as much of a model as ten thousand, and cost less."""
_TELLING: Final = Outcome.OK


class Forecasts:
    """The forecasts of a router."""

    def __init__(self) -> None:
        self._by_model: dict[str, Forecast] = {}
        self._learned_ms: dict[str, int] = {}

    def learn(self, record: UsageRecord, body: Text) -> None:
        """Take note of a finished request; only a whole answer shows how long one takes."""
        if record.outcome != _TELLING:
            return
        last_ms = self._learned_ms.get(record.model, 0)
        if 0 < last_ms <= record.at_ms < last_ms + EVERY_MS:  # clocks are set back, too
            return
        # Taken out and put in again: the first is the one that was answered longest ago.
        forecast = self._by_model.pop(record.model, None) or Forecast()
        self._by_model[record.model] = forecast
        self._learned_ms[record.model] = record.at_ms
        if len(self._by_model) > MODELS_MAX:
            oldest = next(iter(self._by_model))
            del self._by_model[oldest], self._learned_ms[oldest]
        forecast.learn(record.duration_s, tokens=record.tokens_out, tokens_max=tokens_asked(body))

    def lasts_s(self, model: str, body: Text) -> float:
        """Return how long the request in *body* will take, probably."""
        return self._by_model.get(model, _UNKNOWN).lasts_s(tokens_asked(body))


_UNKNOWN: Final = Forecast()
