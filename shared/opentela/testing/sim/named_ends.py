"""Named scenarios of the end of a session: who is kept, who is ended, and what comes after."""

from functools import partial
from random import Random
from typing import Final

from opentela.core.record import Lifecycle, lifecycle_of
from opentela.registry.config import LOCAL
from opentela.testing.sim.cluster import Cluster
from opentela.testing.sim.expecting import asked, fixed, must, must_all_succeed, no_evictions
from opentela.testing.sim.run import Run, Scenario
from opentela.testing.sim.scenarios import mesh
from opentela.testing.sim.workload import WorkloadForm

ALONE_S: Final = 40.0
"""Four times the grace of `LOCAL`."""
_BUSY: Final = WorkloadForm(every_s=0.2, leave_share=0.0)
_FORM: Final = fixed(mesh(registries=("hub",), routers=("hub",), registry=LOCAL))
_TWO: Final = fixed(mesh(registries=("hub", "hub"), routers=("hub",), registry=LOCAL))


def _isolate(cluster: Cluster) -> None:
    cluster.mark("began")
    cluster.world.network.isolate(cluster.world.nodes["gpu-0"])
    cluster.world.after(ALONE_S, cluster.world.network.heal)


# A word from outside -----------------------------------------------------------------------------


def _isolate_and_vouch(cluster: Cluster, _: Random) -> float:
    _isolate(cluster)
    session = cluster.supervisors["gpu-0"].machine.session
    assert session is not None
    for registry in cluster.registries.values():
        for turn in range(int(ALONE_S / 5)):
            vouch = partial(registry.advise, session.path, alive=True)
            cluster.world.after(5.0 * turn, vouch)
    return ALONE_S


def _is_kept(run: Run) -> None:
    no_evictions(run)
    must(len(run.cluster.owners) == len(run.cluster.supervisors), "a session was replaced")
    must_all_succeed(asked(run, since=run.cluster.marks["began"] + 10.0, until=run.healed_at - 1))


VOUCHED: Final = Scenario(
    name="a-schedulers-word-keeps-a-session",
    form=_FORM,
    faults=_isolate_and_vouch,
    workload=_BUSY,
    expect=_is_kept,
)


# Nobody reaches it -------------------------------------------------------------------------------


def _isolate_for_long(cluster: Cluster, _: Random) -> float:
    _isolate(cluster)
    return ALONE_S + 20.0


def _joins_anew(run: Run) -> None:
    cluster = run.cluster
    first, *later = [s for s, (name, _) in cluster.owners.items() if name == "gpu-0"]
    must(list(run.evidence.evictions) == [first], f"ended were {run.evidence.evictions}")
    must(len(later) == 1, f"it came back as {len(later)} sessions")
    for name, held in cluster.views():
        must(lifecycle_of(held.records[first]) is Lifecycle.LEFT, f"{name} holds the old one")
        must(later[0] in held.living, f"{name} does not know the new one")
    used = [
        attempt
        for request in cluster.history.requests.values()
        for attempt in request.attempts
        if attempt.session == later[0]
    ]
    must(bool(used), "the new session is not used")


EVICTED: Final = Scenario(
    name="a-session-that-nobody-reaches-is-ended-and-joins-anew",
    form=_TWO,
    faults=_isolate_for_long,
    workload=_BUSY,
    expect=_joins_anew,
)

# One registry, which might be the one that is cut off ---------------------------------------------


def _comes_back(run: Run) -> None:
    cluster = run.cluster
    (first,) = [s for s, (name, _) in cluster.owners.items() if name == "gpu-0"]
    must(list(run.evidence.evictions) == [first], f"ended were {run.evidence.evictions}")
    for name, held in cluster.views():
        lines = [line for line in held.story(first) if line.lifecycle is Lifecycle.LEFT]
        must(bool(lines), f"{name} never ended it")
        must(lifecycle_of(held.records[first]) is Lifecycle.SERVING, f"{name} lost it")


TAKEN_BACK: Final = Scenario(
    name="what-one-registry-alone-has-ended-its-owner-takes-back",
    form=_FORM,
    faults=_isolate_for_long,
    workload=_BUSY,
    expect=_comes_back,
)

# A registry that leaves in order ------------------------------------------------------------------

_SOON_S: Final = 22.0
"""A lease, the grace of `LOCAL` and some rounds; half a minute less than an absent peer is waited
for."""


def _leave_and_die(cluster: Cluster, _: Random) -> float:
    cluster.leave("registry-1")
    cluster.world.after(2.0, cluster.crash, "gpu-0")
    return 2.0 + _SOON_S


def _is_not_waited_for(run: Run) -> None:
    cluster = run.cluster
    session = next(s for s, (name, _) in cluster.owners.items() if name == "gpu-0")
    for name, held in cluster.views():
        if name != "registry-1":  # only now begun again
            lines = [line for line in held.story(session) if line.lifecycle is Lifecycle.LEFT]
            must(bool(lines), f"{name} still waits for the registry that left")


FAREWELL: Final = Scenario(
    name="a-registry-that-leaves-in-order-is-not-waited-for",
    form=fixed(mesh(registries=("hub", "south"), routers=("hub",), registry=LOCAL, restart_s=60.0)),
    faults=_leave_and_die,
    workload=_BUSY,
    expect=_is_not_waited_for,
)

ENDS: Final = (VOUCHED, EVICTED, TAKEN_BACK, FAREWELL)
