"""What a person is told of sessions: facts of records, worked out and put in order."""

from collections.abc import Iterable
from typing import Final

import msgspec

from opentela.core.errors import ConfigError
from opentela.core.record import (
    Parallelism,
    SessionRecord,
    claim_of,
    ended_at_ms,
    is_routable,
    is_suspected,
    lifecycle_of,
)

_TIMES_END_AT: Final = 32_503_680_000.0
"""Unix seconds of the year 3000. Providers may claim any number, infinity too: that is no end."""


class SessionRow(msgspec.Struct, frozen=True, kw_only=True):
    """One session, as `otela sessions --json` prints it.

    Attributes:
        state: The lifecycle, or `SUSPECTED` while registries cannot reach a living session.
        models: Every name that requests may use.
        context_max: The largest of its models, tokens; 0 when the engine does not say.
        kv_tokens: What its KV memory holds, of all requests together; 0 when it does not say.
        parallelism: Parts of each layer, groups of layers, copies of all; 0 where unknown.
        quantisations: Of its models, as far as known.
        age_s: Since birth.
        left_s: Until the allocation ends; None when it does not.
        ended_s: Since it went `DOWN` or `LEFT`; None while it lives.
    """

    session: str
    state: str
    routable: bool
    models: tuple[str, ...]
    provider: str
    site: str
    node: str
    engine: str
    engine_version: str
    hardware: str
    gpus: int
    context_max: int
    kv_tokens: int
    parallelism: Parallelism
    quantisations: tuple[str, ...]
    age_s: float
    left_s: float | None = None
    ended_s: float | None = None
    reason: str = ""


def row(record: SessionRecord, now_ms: int) -> SessionRow:
    """Return what is to be told of *record* at *now_ms*, Unix milliseconds."""
    claim = claim_of(record)
    offer = claim.offer
    lifecycle = lifecycle_of(record)
    ended = ended_at_ms(record)
    ends_at = offer.walltime_ends_at
    return SessionRow(
        session=claim.session,
        state="SUSPECTED" if not ended and is_suspected(record) else lifecycle.name,
        # An agent serves, and no request goes to it.
        routable=is_routable(record) and bool(offer.models),
        models=tuple(name for model in offer.models for name in (model.name, *model.aliases)),
        provider=claim.provider,
        site=claim.site,
        node=claim.node,
        engine=offer.engine,
        engine_version=offer.engine_version,
        hardware=offer.hardware,
        gpus=offer.gpus,
        context_max=max((model.context_max for model in offer.models), default=0),
        kv_tokens=offer.kv_tokens,
        parallelism=offer.parallelism,
        quantisations=tuple(sorted({one.quantisation for one in offer.models} - {""})),
        # Clocks of nodes differ: a birth in our future is an age of nothing.
        age_s=max(0, now_ms - claim.born_at_ms) / 1000,
        left_s=max(0.0, ends_at - now_ms / 1000) if 0 < ends_at < _TIMES_END_AT else None,
        ended_s=max(0, now_ms - ended) / 1000 if ended else None,
        reason=claim.reason,
    )


def listed(
    records: Iterable[SessionRecord], now_ms: int, *, model: str = "", with_ended: bool = False
) -> list[SessionRow]:
    """Return the rows to show: by model, then the oldest first; agents, then ended ones last.

    Args:
        records: In any order.
        now_ms: Unix milliseconds.
        model: Only sessions that offer it; empty for all.
        with_ended: Also those that are `DOWN` or `LEFT`.
    """
    rows = [row(record, now_ms) for record in records]
    kept = [
        one
        for one in rows
        if (with_ended or one.ended_s is None) and (not model or model in one.models)
    ]
    return sorted(kept, key=_order)


def _order(one: SessionRow) -> tuple[bool, bool, tuple[str, ...], str]:
    return (one.ended_s is not None, not one.models, one.models, one.session)


def named(records: Iterable[SessionRecord], end: str) -> SessionRecord:
    """Return the record whose session id ends in *end*.

    Raises:
        ConfigError: There is none, or there are several.
    """
    found = [one for one in records if end and claim_of(one).session.endswith(end.upper())]
    if len(found) == 1:
        return found[0]
    many = "no session" if not found else f"{len(found)} sessions"
    raise ConfigError(
        f"--explain {end!r} matches {many}",
        remedy="copy the id from otela sessions --all",
    )


class ModelRow(msgspec.Struct, frozen=True, kw_only=True):
    """One model of the mesh, as `otela status --json` prints it."""

    name: str
    routable: int
    sessions: int
    sites: tuple[str, ...]


def models(rows: Iterable[SessionRow]) -> list[ModelRow]:
    """Return what living sessions offer together, by name."""
    by_name: dict[str, list[SessionRow]] = {}
    for one in rows:
        if one.ended_s is None:
            for name in one.models:
                by_name.setdefault(name, []).append(one)
    return [
        ModelRow(
            name=name,
            routable=sum(one.routable for one in offering),
            sessions=len(offering),
            sites=tuple(sorted({one.site for one in offering})),
        )
        for name, offering in sorted(by_name.items())
    ]


def duration(seconds: float) -> str:
    """Return a length of time in its two largest units: `3h 20m`."""
    left = int(seconds)
    parts: list[str] = []
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count or (unit == "s" and not parts):
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2])
