"""Metric labels that stay few whatever clients ask for."""

from typing import Final

OTHER: Final = "other"
MODELS_MAX: Final = 100
"""Models with series of their own; some 40 series each."""


class ModelLabels:
    """The models that have a label of their own: the first ones that were served."""

    def __init__(self, models_max: int = MODELS_MAX) -> None:
        self._known: dict[str, str] = {}
        self._models_max = models_max

    def label(self, model: str, *, is_served: bool) -> str:
        """Return the label of *model*; names that nobody serves share one."""
        known = self._known.get(model)
        if known is not None:
            return known
        if not is_served or len(self._known) >= self._models_max:
            return OTHER
        self._known[model] = model
        return model
