"""`/v1/models`: what can be asked for now, as OpenAI lists it, and who serves it."""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from opentela.router.directory import Pool


class Serving(msgspec.Struct, frozen=True, kw_only=True):
    """What OpenAI's list does not say of a model.

    Attributes:
        sessions: That serve it now.
        sites: Where they are.
        providers: Whose they are.
        aliases: Further names that requests may use.
        context_max: Tokens that every session takes; 0 when none says.
        kv_tokens: What the KV memories of all of them hold, as far as they say.
        quantisations, fingerprints, tiers: All that occur.
    """

    sessions: int
    sites: tuple[str, ...]
    providers: tuple[str, ...]
    aliases: tuple[str, ...]
    context_max: int
    kv_tokens: int
    quantisations: tuple[str, ...]
    fingerprints: tuple[str, ...]
    tiers: tuple[str, ...]


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of the list; `max_model_len` is what vLLM calls the context limit."""

    id: str
    object: str = "model"
    created: int
    owned_by: str
    max_model_len: int | None
    otela: Serving


class Models(msgspec.Struct, frozen=True, kw_only=True):
    """The list."""

    object: str = "list"
    data: tuple[Model, ...]


encode: Final = msgspec.json.Encoder().encode


def listed(models: Mapping[str, Pool]) -> Models:
    """Return the list of *models*."""
    return Models(data=tuple(described(name, pool) for name, pool in models.items()))


def described(name: str, pool: Pool) -> Model:
    """Return the entry of one model; *pool* is not empty."""
    candidates = pool.candidates
    offers = [one.offer for one in candidates]
    providers = _distinct(one.provider for one in candidates)
    limits = [offer.context_max for offer in offers if offer.context_max]
    context_max = min(limits, default=0)
    return Model(
        id=name,
        created=min(one.born_at_ms for one in candidates) // 1000,
        owned_by=providers[0] if len(providers) == 1 else "opentela",
        max_model_len=context_max or None,
        otela=Serving(
            sessions=len(candidates),
            sites=_distinct(one.site for one in candidates),
            providers=providers,
            aliases=_distinct(alias for offer in offers for alias in offer.aliases),
            context_max=context_max,
            kv_tokens=sum(one.terms.kv_tokens for one in candidates),
            quantisations=_distinct(o.quantisation for o in offers if o.quantisation),
            fingerprints=_distinct(one.fingerprint for one in candidates if one.fingerprint),
            tiers=_distinct(tier for one in candidates if (tier := one.terms.labels.get("tier"))),
        ),
    )


def _distinct(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(dict.fromkeys(values)))
