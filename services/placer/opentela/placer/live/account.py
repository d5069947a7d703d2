"""What is told of decisions: to tools as events, to operators on the health page."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

import msgspec

from opentela.placer.live.blame import Blame
from opentela.placer.live.decide import Decided
from opentela.placer.live.demand import Asked
from opentela.placer.live.fleet import Fleet, Life
from opentela.placer.problem import Group
from opentela.wire import audit


def at(wall: float) -> str:
    """Return Unix seconds as RFC 3339."""
    text = datetime.fromtimestamp(wall, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def asked(decided: Decided, demands: Iterable[Asked]) -> tuple[audit.Asked, ...]:
    """Return what is told of the demands that a decision is for."""
    return tuple(
        audit.Asked(
            model=one.model,
            rate_rps=round(one.rate_rps, 6),
            refused_rps=round(one.refused_rps, 6),
            wanted_rps=round(decided.wanted_rps.get(one.model, 0.0), 6),
            in_tokens=round(one.in_tokens, 3),
            out_tokens=round(one.out_tokens, 3),
            cv=round(one.cv, 3),
            capacity_rps=round(decided.capacity_rps.get(one.model, 0.0), 6),
        )
        for one in demands
    )


def placed(decided: Decided, running: Mapping[Group, int]) -> tuple[audit.Placed, ...]:
    """Return what is told of what runs and of what shall."""
    return tuple(
        audit.Placed(
            model=group.model,
            pool=group.pool,
            tp=group.tp,
            pp=group.pp,
            running=running.get(group, 0),
            planned=decided.target.get(group, 0),
        )
        for group in sorted({*running, *decided.target})
    )


def status(
    decided: Decided, demands: Iterable[Asked], running: Mapping[Group, int]
) -> dict[str, object]:
    """Return the latest decision, for people."""
    return {
        "reason": decided.reason,
        "notes": list(decided.notes),
        "words": list(decided.words),
        "asked": msgspec.to_builtins(asked(decided, demands)),
        "placed": msgspec.to_builtins(placed(decided, running)),
    }


def agents(fleet: Fleet, now: float) -> list[dict[str, object]]:
    """Return each agent and how much of it is free."""
    return [
        {
            "agent": one.session,
            "provider": one.path.provider,
            "pool": one.pool if one.holding else "",
            "takes_commands": one.is_live,
            "free": fleet.free(one),
            "heard_s": round(now - one.heard_at, 1) if one.holding else None,
            "fault": one.fault,
        }
        for one in sorted(fleet.agents.values(), key=lambda one: one.session)
    ]


def replicas(fleet: Fleet, now: float) -> list[dict[str, object]]:
    """Return each replica and how far it is."""
    return [
        {
            "start": life.start.command,
            "model": life.model,
            "agent": life.agent,
            "pool": fleet.group(life).pool,
            "tp": life.start.tp,
            "pp": life.start.pp,
            "state": state(life),
            "age_s": round(now - life.began_at, 1),
            "reason": life.why,
        }
        for life in sorted(fleet.lives.values(), key=lambda one: one.start.command)
    ]


def failures(blame: Blame, now: float) -> list[dict[str, object]]:
    """Return what failed where, and when it is tried again."""
    return [
        {
            "agent": one.agent,
            "model": one.model,
            "times": one.times,
            "wait_s": round(one.wait_s, 1),
            "reason": one.reason,
        }
        for one in blame.told(now)
    ]


def state(life: Life) -> str:
    """Return how far a replica is: told, starting, serving, or stopping."""
    if life.is_leaving:
        return "stopping"
    if life.is_serving:
        return "serving"
    return "starting" if life.is_known else "told"
