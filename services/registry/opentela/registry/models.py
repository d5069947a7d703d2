"""Which models are offered, and which of them nobody can be asked for."""

from collections.abc import Iterable

from opentela.core.record import Lifecycle, SessionRecord, claim_of, is_routable, lifecycle_of


def routable_sessions(living: Iterable[SessionRecord]) -> dict[str, int]:
    """Return each offered model with the number of sessions that requests can go to.

    A model whose sessions are all still joining is not offered yet; one whose last session has
    `LEFT` is no longer.
    """
    models: dict[str, int] = {}
    for record in living:
        if lifecycle_of(record) is Lifecycle.JOINING:
            continue
        for model in claim_of(record).offer.models:
            models[model.name] = models.get(model.name, 0) + is_routable(record)
    return dict(sorted(models.items()))
