"""Words for what a scenario expects of a run."""

from collections.abc import Callable, Iterable
from random import Random

from opentela.testing.sim.checkers import Violation
from opentela.testing.sim.cluster import ClusterForm
from opentela.testing.sim.history import Attempt, Outcome, Request
from opentela.testing.sim.run import Run


def fixed(form: ClusterForm) -> Callable[[Random], ClusterForm]:
    """Return a maker of the same mesh for every seed."""
    return lambda _rng: form


def must(holds: bool, otherwise: str) -> None:  # noqa: FBT001 (reads as a sentence)
    """Let the run fail unless something holds.

    Raises:
        Violation: It does not.
    """
    if not holds:
        raise Violation(f"expected: {otherwise}")


def asked(run: Run, *, since: float, until: float, router: str = "") -> list[Request]:
    """Return the requests of a span of time, at one router if it is named."""
    requests = [
        request
        for request in run.cluster.history.requests.values()
        if since <= request.asked_at <= until and router in ("", request.router)
    ]
    must(bool(requests), f"nobody asked {router or 'anybody'} from {since:.1f} to {until:.1f} s")
    return requests


def must_all_succeed(requests: Iterable[Request]) -> None:
    """Let the run fail if any of these ended otherwise; who is still under way has not."""
    failed = [
        f"{request.name} at {request.router}: {request.ends}"
        for request in requests
        if request.ends and request.outcome is not Outcome.OK
    ]
    must(not failed, f"requests failed: {'; '.join(failed[:5])} ({len(failed)})")


def attempts_at(run: Run, *, site: str, since: float, until: float) -> list[Attempt]:
    """Return the attempts of a span of time at sessions of one site."""
    cluster = run.cluster
    return [
        attempt
        for request in cluster.history.requests.values()
        for attempt in request.attempts
        if since <= attempt.at <= until
        and cluster.world.nodes[cluster.owners[attempt.session][0]].site == site
    ]


def no_evictions(run: Run) -> None:
    """Let the run fail if any session was evicted whose owner lives."""
    must(not run.evidence.evictions, f"evicted alive: {run.evidence.evictions}")
