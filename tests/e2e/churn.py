"""Engines come and go at random under load: `python -m tests.e2e.churn --minutes 10`.

Two sites, two routers (one over the mesh alone, one that sessions call), scripted engines behind
supervisors of their own. At random an engine is killed, which its supervisor starts again; a
whole node is killed, or leaves in good order, and comes back a while later. The clients' histories
are checked by `tests.e2e.history` and `tests.e2e.churn_rules`, which know nothing of this.
"""

import argparse
import random
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
from tests.e2e import history
from tests.e2e.churn_rules import Cost, Death, check_churn, cost
from tests.e2e.history import Exchange
from tests.e2e.processes import signal_all, wait_until
from tests.e2e.product import NOTHING_TO_LEARN, Leaf, Product, Service, wait_for_models
from tests.e2e.scenes import MODEL, Engine, Load, expected, fake_engine

ENGINES: Final = 64
EVERY_S: Final = 3.0
"""Between two faults, on average."""
AWAY_S: Final = 10.0
"""How long a node is gone, on average."""
LOOK_S: Final = 0.5
"""Between looks at who comes back."""
LONGEST_S: Final = 30.0
UP_WITHIN_S: Final = 240.0
KILL_ENGINE: Final = "engine killed"
KILL_NODE: Final = "node killed"
LEAVE: Final = "node left in good order"
KINDS: Final = (KILL_ENGINE, KILL_ENGINE, KILL_NODE, KILL_NODE, LEAVE)
_HOME: Final = ("home.address=127.0.0.1:0", "policy=prefix_affinity")
"""Both policies that learn: the other router has the default."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How much of it."""

    engines: int = ENGINES
    seconds: float = 600.0
    every_s: float = EVERY_S
    away_s: float = AWAY_S
    concurrency: int = 12
    seed: int = 1


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of it.

    Attributes:
        violations: What must not be; empty when all is well.
        faults: How often each was made.
        joins: Nodes that came back.
        reasons: Why attempts failed, as the routers logged it.
    """

    plan: Plan
    violations: list[str]
    cost: Cost
    history: list[Exchange]
    faults: dict[str, int]
    joins: int
    reasons: dict[str, int]


class Fleet:
    """The nodes: those that are up, and when the others come back."""

    def __init__(self, product: Product, leaves: Sequence[Leaf], plan: Plan) -> None:
        self.deaths: list[Death] = []
        self.faults: Counter[str] = Counter()
        self.joins = 0
        self._product = product
        self._leaves = leaves
        self._plan = plan
        self._rng = random.Random(plan.seed)
        self._up: dict[str, Engine] = {}
        self._back_at: dict[str, float] = {}
        for number in range(plan.engines):
            self._start(f"e{number}")

    def run(self) -> None:
        """Make faults until the time is over."""
        until = time.monotonic() + self._plan.seconds
        due = time.monotonic()
        while (now := time.monotonic()) < until:
            for name in [name for name, at in self._back_at.items() if at <= now]:
                del self._back_at[name]
                self.joins += 1
                self._start(name)
            if now >= due:
                due = now + self._rng.expovariate(1 / self._plan.every_s)
                self._fault()
            until_next = min(due, now + LOOK_S)
            wait_until(partial(_is_past, until_next), "the next moment", within_s=60.0)

    def _fault(self) -> None:
        """Do something to a node that serves, unless too few would be left."""
        serving = [name for name, engine in self._up.items() if _is_serving(engine)]
        if len(serving) <= max(2, self._plan.engines // 3):
            return
        kind, name = self._rng.choice(KINDS), self._rng.choice(serving)
        engine = self._up[name]
        session, pid = engine.session, engine.engine_pid
        if kind != LEAVE:
            self.deaths.append(Death(session, time.monotonic(), kind))
        self.faults[kind] += 1
        if kind == KILL_ENGINE:
            signal_all([pid], signal.SIGKILL)
            return
        del self._up[name]
        self._back_at[name] = time.monotonic() + self._rng.expovariate(1 / self._plan.away_s)
        if kind == LEAVE:
            engine.service.process.send(signal.SIGTERM)
        else:
            engine.service.process.send_tree(signal.SIGKILL)

    def _start(self, name: str) -> None:
        leaf = self._leaves[int(name[1:]) % len(self._leaves)]
        self._up[name] = Engine(self._product.start_engine(name, leaf, fake_engine(name)))


def _is_past(at: float) -> bool:
    return time.monotonic() >= at


def _is_serving(engine: Engine) -> bool:
    try:
        return str(engine.service.status()["lifecycle"]) == "SERVING"
    except (AssertionError, OSError, KeyError):
        return False


def run(product: Product, plan: Plan) -> Outcome:
    """Start everything, let it churn under load, and judge."""
    product.start_hub()
    product.start_registry("registry", NOTHING_TO_LEARN)
    routers = [product.start_router("mesh"), product.start_router("home", *_HOME)]
    leaves = [product.start_leaf("site-a"), product.start_leaf("site-b")]
    fleet = Fleet(product, leaves, plan)
    for router in routers:
        wait_for_models(router, MODEL, sessions=plan.engines, within_s=UP_WITHIN_S)
    loads = [Load(product, router, concurrency=plan.concurrency) for router in routers]
    fleet.run()
    histories = [load.finish() for load in loads]
    violations = [
        found
        for one in histories
        for found in (
            *history.check(one, expected=expected, longest_s=LONGEST_S),
            *check_churn(one, fleet.deaths),
        )
    ]
    together = [exchange for one in histories for exchange in one]
    return Outcome(
        plan=plan,
        violations=violations,
        cost=cost(together),
        history=together,
        faults=dict(fleet.faults),
        joins=fleet.joins,
        reasons=_reasons(routers),
    )


def _reasons(routers: Sequence[Service]) -> dict[str, int]:
    counted: Counter[str] = Counter()
    for router in routers:
        for event in router.events("attempt_failed"):
            counted[f"{event['reason']}: {event['error']}"] += 1
    return dict(counted.most_common())


def report(outcome: Outcome) -> str:
    """Return the page."""
    plan, spent = outcome.plan, outcome.cost
    times_s = sorted(one.took_s for one in outcome.history)
    percentiles = statistics.quantiles(times_s, n=100, method="inclusive")
    unary_failed = sum(not one.stream and not one.claims_success for one in outcome.history)
    rows = [
        ("engines, each behind a supervisor of its own", plan.engines),
        ("minutes under load", f"{plan.seconds / 60:g}"),
        *((kind, count) for kind, count in sorted(outcome.faults.items())),
        ("nodes that came back", outcome.joins),
        ("requests not streamed", spent.unary),
        ("of these failed", f"**{unary_failed}**"),
        ("streams", spent.streams),
        ("of these broken, each with an error event", spent.broken),
        ("violations of the rules", f"**{len(outcome.violations)}**"),
        ("requests tried at more than one session", spent.retried),
        ("attempts beyond the first (work repeated, at most)", spent.more),
        ("duration p50 / p99 / longest", _times(percentiles, spent.slowest_s)),
    ]
    lines = ["| what | count |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)]
    reasons = ["| why an attempt failed | times |", "|---|---|"]
    reasons += [f"| {reason} | {count} |" for reason, count in outcome.reasons.items()]
    return _PAGE.format(table="\n".join(lines), reasons="\n".join(reasons))


def _times(percentiles: Sequence[float], slowest_s: float) -> str:
    return f"{percentiles[49]:.2f} s / {percentiles[98]:.2f} s / {slowest_s:.2f} s"


_PAGE: Final = """# Churn

Engines come and go at random while clients keep sending requests. `make churn MINUTES=10` runs
this and writes this page; `tests/e2e/test_churn.py` runs a small version. A killed engine is
restarted by its supervisor. A node that is killed, or that leaves gracefully, comes back some
seconds later. Half of the clients use a router that reaches sessions over the mesh, half one that
sessions have called home.

A checker that knows only who died and when verifies three rules:

- every request that is not streamed succeeds;
- a stream breaks only if its own session was killed while it ran, and ends with an error event;
- complete answers are complete, and broken ones are a beginning of the full answer.

{table}

{reasons}
"""


def main() -> None:
    """Run it, write the page, and end with 1 when a rule was broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--engines", type=int, default=ENGINES)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--report", type=Path)
    options = parser.parse_args()
    plan = Plan(engines=options.engines, seconds=options.minutes * 60, seed=options.seed)
    with tempfile.TemporaryDirectory() as folder, Product(Path(folder)) as product:
        outcome = run(product, plan)
    page = report(outcome)
    if options.report:
        options.report.write_text(page)
    sys.stdout.write(page)
    if outcome.violations:
        raise SystemExit(history.report(outcome.violations))


if __name__ == "__main__":
    main()
