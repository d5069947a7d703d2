"""The offer of a session: what its engine lists, and what its provider adds."""

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from opentela.core.record import Door, ModelOffer, Offer
from opentela.supervisor.engines.base import EngineOffer

MODELS_BYTES_MAX: Final = 24 * 1024
"""A claim may have 32 KiB; an engine that lists more models than fit offers the first of them, and
`left_out` names the others."""


class Terms(NamedTuple):
    """What the provider adds to whatever its engine says.

    Attributes:
        aliases: Further name to model; an empty model means the only one.
        expected: Names that the command promises, offered before the engine can be asked.
        served: Models that the engine listed before it was started again.
    """

    engine: str
    expected: tuple[str, ...] = ()
    served: tuple[ModelOffer, ...] = ()
    aliases: Mapping[str, str] = {}
    labels: Mapping[str, str] = {}
    hardware: str = ""
    gpus: int = 0
    walltime_ends_at: float = 0.0
    door: Door | None = None


def promised(terms: Terms) -> Offer:
    """Return what is offered while the engine loads: names, which is all that is certain.

    Routers let requests for them wait. Without any other name, the aliases are what is known.
    """
    models = tuple(ModelOffer(name=one.name, aliases=one.aliases) for one in terms.served)
    if not models:
        names = terms.expected or dict.fromkeys(
            model or alias for alias, model in terms.aliases.items()
        )
        models = tuple(ModelOffer(name=name) for name in names)
    return _offer(terms, models, terms.engine, "")


def composed(terms: Terms, engine: EngineOffer) -> Offer:
    """Return what is offered once the engine was read."""
    offer = _offer(terms, engine.models, engine.engine or terms.engine, engine.version)
    return msgspec.structs.replace(
        offer, kv_tokens=engine.kv_tokens, parallelism=engine.parallelism
    )


def left_out(offered: Offer, engine: EngineOffer) -> tuple[str, ...]:
    """Return the models of *engine* that found no room in the claim."""
    return tuple(model.name for model in engine.models[len(offered.models) :])


def _offer(terms: Terms, models: tuple[ModelOffer, ...], engine: str, engine_version: str) -> Offer:
    named = tuple(_with_aliases(model, models, terms.aliases) for model in models)
    return Offer(
        models=_fitting(named),
        engine=engine,
        engine_version=engine_version,
        hardware=terms.hardware,
        gpus=terms.gpus,
        walltime_ends_at=terms.walltime_ends_at,
        labels=dict(terms.labels),
        door=terms.door,
    )


def _with_aliases(
    model: ModelOffer, models: tuple[ModelOffer, ...], aliases: Mapping[str, str]
) -> ModelOffer:
    more = [
        alias
        for alias, target in aliases.items()
        if target == model.name or (not target and len(models) == 1)
    ]
    names = dict.fromkeys((*model.aliases, *more))
    names.pop(model.name, None)
    return msgspec.structs.replace(model, aliases=tuple(names))


def _fitting(models: tuple[ModelOffer, ...]) -> tuple[ModelOffer, ...]:
    left = MODELS_BYTES_MAX
    for count, model in enumerate(models):
        left -= len(msgspec.msgpack.encode(model))
        if left < 0:
            return models[:count]
    return models
