"""Who may serve a request, best tier first: wishes are kept, everything else is preference."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Final, NamedTuple

import msgspec

from opentela.router.directory import Candidate, Pool
from opentela.router.fault import Fault, FaultKind

ANY: Final = "*"
"""As the last tier: any session, also one without a tier."""
_THERE_MAX: Final = 8
"""Different values that an error lists."""


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What the client insists on; empty wishes nothing.

    Attributes:
        sites, providers, quantisations: One of them.
        context_min: Tokens; a session that does not say how many it takes does not match.
        fingerprint: What the model's fingerprint begins with.
        walltime_min_s: Seconds that the session's allocation lasts from now on.
        labels: Names, and what each may be.
        tiers: What the label `tier` may be, the first ones preferred.
    """

    sites: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()
    quantisations: tuple[str, ...] = ()
    context_min: int = 0
    fingerprint: str = ""
    walltime_min_s: float = 0.0
    labels: tuple[tuple[str, tuple[str, ...]], ...] = ()
    tiers: tuple[str, ...] = ()


NO_WISH: Final = Wish()


class Rule(NamedTuple):
    """One kind of constraint.

    Attributes:
        field: Its name in a request's `otela` object.
        is_wished: Whether a wish has it.
        admits: Whether a candidate keeps it, at a Unix time.
        wanted: The words of the wish, behind "No session …".
        there: What a candidate has instead.
    """

    field: str
    is_wished: Callable[[Wish], object]
    admits: Callable[[Wish, Candidate, float], bool]
    wanted: Callable[[Wish], str]
    there: Callable[[Wish, Candidate, float], str]


def _tier(candidate: Candidate) -> str:
    return candidate.terms.labels.get("tier", "")


def _has_labels(wish: Wish, candidate: Candidate, _wall: float) -> bool:
    labels = candidate.terms.labels
    return all(labels.get(name) in values for name, values in wish.labels)


def _labels_there(wish: Wish, candidate: Candidate, _wall: float) -> str:
    labels = candidate.terms.labels
    return ", ".join(f"{name}={labels[name]}" for name, _ in wish.labels if name in labels)


RULES: Final = (
    Rule(
        "provider",
        lambda wish: wish.providers,
        lambda wish, one, _: one.provider in wish.providers,
        lambda wish: f"of provider {_any_of(wish.providers)}",
        lambda _wish, one, _: one.provider,
    ),
    Rule(
        "site",
        lambda wish: wish.sites,
        lambda wish, one, _: one.site in wish.sites,
        lambda wish: f"at site {_any_of(wish.sites)}",
        lambda _wish, one, _: one.site,
    ),
    Rule(
        "fingerprint",
        lambda wish: wish.fingerprint,
        lambda wish, one, _: one.fingerprint.startswith(wish.fingerprint),
        lambda wish: f"with fingerprint {wish.fingerprint}",
        lambda _wish, one, _: one.fingerprint,
    ),
    Rule(
        "quantisation",
        lambda wish: wish.quantisations,
        lambda wish, one, _: one.offer.quantisation in wish.quantisations,
        lambda wish: f"with quantisation {_any_of(wish.quantisations)}",
        lambda _wish, one, _: one.offer.quantisation,
    ),
    Rule(
        "min_context",
        lambda wish: wish.context_min,
        lambda wish, one, _: one.offer.context_max >= wish.context_min,
        lambda wish: f"with a context of {wish.context_min} tokens",
        lambda _wish, one, _: str(one.offer.context_max or ""),
    ),
    Rule(
        "label",
        lambda wish: wish.labels,
        _has_labels,
        lambda wish: "with " + ", ".join(f"{key}={_any_of(is_)}" for key, is_ in wish.labels),
        _labels_there,
    ),
    Rule(
        "tier",
        lambda wish: wish.tiers,
        lambda wish, one, _: ANY in wish.tiers or _tier(one) in wish.tiers,
        lambda wish: f"of tier {_any_of(wish.tiers)}",
        lambda _wish, one, _: _tier(one),
    ),
    Rule(
        "min_walltime",
        lambda wish: wish.walltime_min_s,
        lambda wish, one, wall: one.ends_at >= wall + wish.walltime_min_s,
        lambda wish: f"with {wish.walltime_min_s:g} s of walltime left",
        lambda _wish, one, wall: f"{max(one.ends_at - wall, 0):.0f} s",
    ),
)
"""In the order in which an error looks for the one that leaves nobody."""


def _any_of(values: Sequence[str]) -> str:
    return " or ".join(values)


def rules_of(wish: Wish) -> Sequence[Rule]:
    """Return the kinds of constraints that *wish* has."""
    return [rule for rule in RULES if rule.is_wished(wish)]


def admitted(
    pool: Pool, wish: Wish, tried: Collection[str] = (), *, wall: float = 0.0
) -> Sequence[Candidate]:
    """Return the candidates that *wish* admits at *wall* and that were not tried."""
    if wish is NO_WISH and not tried:
        return pool.candidates
    rules = rules_of(wish)
    return [
        one
        for one in pool.candidates
        if one.session not in tried and all(rule.admits(wish, one, wall) for rule in rules)
    ]


def unmatched(model: str, wish: Wish, candidates: Sequence[Candidate], wall: float) -> Fault:
    """Return which constraint leaves nobody of *candidates*, and what there is instead."""
    left, wanted = candidates, []
    for rule in rules_of(wish):
        wanted.append(rule.wanted(wish))
        kept = [one for one in left if rule.admits(wish, one, wall)]
        if not kept:
            break
        left = kept
    else:
        raise AssertionError("somebody matches")
    there = Counter(rule.there(wish, one, wall) or "unknown" for one in left)
    told = ", ".join(f"{what} ({count})" for what, count in there.most_common(_THERE_MAX))
    unkept = "this constraint" if len(wanted) == 1 else "the last of these constraints"
    return Fault(
        kind=FaultKind.NO_MATCHING_SESSION,
        message=(
            f"No session {' '.join(wanted)} serves the model {model!r};"
            f" without {unkept} there is: {told}."
        ),
        param=f"otela.{rule.field}",
    )


def first_tier(
    candidates: Sequence[Candidate], tiers: Sequence[str], avoided: Collection[str]
) -> Sequence[Candidate]:
    """Return those of the first of *tiers* in which somebody need not be avoided, or of the first.

    Args:
        candidates: Who may serve; each is of one of the tiers.
        tiers: In order of preference.
        avoided: Sessions to take last.
    """
    groups = [[one for one in candidates if tier in (ANY, _tier(one))] for tier in tiers]
    sound = (group for group in groups if any(one.session not in avoided for one in group))
    return next(sound, None) or next(group for group in groups if group)


def best_tier(
    candidates: Sequence[Candidate],
    *,
    ejected: Collection[str],
    ends_first_at: float,
    ends_before: float,
) -> Sequence[Candidate]:
    """Return the candidates to pick from: lasting and sound ones, or what comes nearest.

    Args:
        candidates: Who may serve.
        ejected: Sessions to take last.
        ends_first_at: The first end of an allocation among the candidates, or earlier.
        ends_before: Allocations that end before this instant are a last resort.
    """
    if not ejected and ends_first_at >= ends_before:
        return candidates
    sound = [one for one in candidates if one.session not in ejected]
    lasting = [one for one in sound if one.ends_at >= ends_before]
    # An allocation about to end still answers; an ejected session probably does not.
    return lasting or sound or candidates
