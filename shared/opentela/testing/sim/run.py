"""One run: a scenario under a seed, from the start of the mesh to the last check."""

import traceback
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final, TypeAlias

import msgspec

from opentela.testing.sim import diagram
from opentela.testing.sim.checkers import (
    EndsOnce,
    HonestAreBelieved,
    InFlightBalances,
    Judge,
    LatticeClimbs,
    NeverRouteToTheEnded,
    NeverTwiceOnOneSession,
    NoFalseSuccess,
    NoGhosts,
    NoModelIsDenied,
    ViewsAreSound,
    Violation,
)
from opentela.testing.sim.cluster import Cluster, ClusterForm
from opentela.testing.sim.describe import describe
from opentela.testing.sim.evidence import EvictsOnlyTheDead
from opentela.testing.sim.history import Outcome, Request
from opentela.testing.sim.nemesis import repair
from opentela.testing.sim.sizes import NothingGrows
from opentela.testing.sim.workload import Workload, WorkloadForm
from opentela.testing.world import World

START_S: Final = 40.0
"""By then everybody serves and everybody knows, if nothing is wrong."""
CONVERGE_S: Final = 7.0
"""From the last repair to equal views: five seconds, and two for clients to reconnect."""
DRAIN_S: Final = 200.0
"""From the last request to its end; an engine that hangs holds one for as long as a stream may
wait for its first event, 120 s."""
RECOVER_S: Final = 150.0
"""From the last repair until every supervisor serves again: back-offs and loading fit."""
SETTLE_S: Final = 90.0
"""... until those that are gone have left: a lease and the grace fit."""
PROBE_S: Final = 20.0
TRACE_LINES: Final = 60
"""Lines of the trace that a failure shows; `--trace` shows all."""

DIAGRAMS: Final = Path("build/sim")
"""Where failures are drawn."""

Faults: TypeAlias = Callable[[Cluster, Random], float]
"""Schedules what befalls the mesh and returns how many seconds that takes."""
Expect: TypeAlias = Callable[["Run"], None]
"""Raises `Violation` when a scenario did not come out as it must."""


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """A mesh, what befalls it, and what must have become of it beside the invariants.

    Attributes:
        name: As the command line takes it; also what must be true.
        form: Makes the mesh; may draw.
        expect: Looks at the end of the run, before the mesh is asked to settle.
        is_honest: Nobody forges anything, so nothing may be refused.
    """

    name: str
    form: Callable[[Random], ClusterForm]
    faults: Faults
    workload: WorkloadForm = WorkloadForm()
    expect: Expect | None = None
    is_honest: bool = True


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What a run amounted to."""

    scenario: str
    seed: int
    digest: str
    virtual_s: float
    events: int
    ok: int
    errors: int
    cancelled: int
    evictions: int
    converged_s: float


class SimFailedError(AssertionError):
    """A run broke an invariant; the message holds all that replays it.

    Attributes:
        run: The run, as it was then.
        what: What it broke, in words.
    """

    def __init__(self, run: "Run", what: str, report: str) -> None:
        super().__init__(report)
        self.run = run
        self.what = what

    def draw(self, folder: Path = DIAGRAMS) -> Path:
        """Write the last messages about the session that it is about as a sequence diagram."""
        run = self.run
        name = f"{run.scenario.name}-{run.world.seed}.svg"
        title = f"{run.scenario.name}, seed {run.world.seed}: {self.what}"
        return diagram.write(run.world.trace.entries, title, folder / name)


class Run:
    """One scenario under one seed.

    Attributes:
        healed_at: Virtual time of the last repair.
        converged_s: From then until all views were equal.
    """

    def __init__(self, scenario: Scenario, seed: int) -> None:
        self.scenario = scenario
        self.world = World(seed)
        self.cluster = Cluster(self.world, scenario.form(self.world.fork("form")))
        self.evidence = EvictsOnlyTheDead(self.cluster)
        self.healed_at = 0.0
        self.converged_s = 0.0
        LatticeClimbs(self.cluster)
        self.world.observers = [NeverRouteToTheEnded(self.cluster).observe]
        self.judges: list[Judge] = [
            EndsOnce(self.cluster),
            NoFalseSuccess(self.cluster),
            NoModelIsDenied(self.cluster),
            NeverTwiceOnOneSession(self.cluster),
            InFlightBalances(self.cluster),
            ViewsAreSound(self.cluster),
            NoGhosts(self.cluster),
            NothingGrows(self.cluster),
        ]
        if scenario.is_honest:
            self.judges.append(HonestAreBelieved(self.cluster))

    def result(self) -> Result:
        """Run it, check it, and say what it amounted to.

        Raises:
            SimFailedError: An invariant does not hold, or a machine failed.
        """
        try:
            self._go()
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            raise SimFailedError(self, what, self._report(error)) from error
        history = self.cluster.history
        return Result(
            scenario=self.scenario.name,
            seed=self.world.seed,
            digest=self.world.trace.digest(),
            virtual_s=self.world.now,
            events=self.world.events,
            ok=history.count(Outcome.OK),
            errors=history.count(Outcome.ERROR),
            cancelled=history.count(Outcome.CANCELLED),
            evictions=len(self.evidence.evictions),
            converged_s=self.converged_s,
        )

    def _go(self) -> None:
        world, cluster = self.world, self.cluster
        cluster.begin()
        self.await_(cluster.is_ready, START_S, "start: the mesh does not come up")
        workload = Workload(cluster, self.scenario.workload)
        faults_s = self.scenario.faults(cluster, world.fork("faults"))
        world.run(world.now + faults_s)
        repair(cluster)
        self.healed_at = world.now
        self.await_(cluster.agree, CONVERGE_S, "convergence: views differ after the last repair")
        self.converged_s = world.now - self.healed_at
        if self.scenario.expect is not None:
            self.scenario.expect(self)
        workload.is_on = False
        self.await_(self._all_ended, DRAIN_S, "ends: requests do not end")
        self.await_(cluster.is_ready, RECOVER_S, "recovery: not everybody serves again")
        self._probe(workload)
        self.await_(self._is_settled, SETTLE_S, "ghost: the dead are not found")
        for judge in self.judges:
            judge.finish()

    def _probe(self, workload: Workload) -> None:
        """Ask for every model at every router: all is repaired, so all must succeed."""
        cluster = self.cluster
        models = sorted({form.model for _, form in cluster.form.supervisors.values()})
        asked = [
            request
            for router in cluster.form.routers
            for model in models
            if (request := workload.ask(router, model, stays=True)) is not None
        ]
        self.await_(self._all_ended, PROBE_S, "ends: requests to a sound mesh do not end")
        failed = [r for r in asked if r.outcome is not Outcome.OK]
        if failed or not asked:
            raise Violation(f"service: a sound mesh fails {[_told(r) for r in failed]}")

    def _is_settled(self) -> bool:
        digests = {held.trie.children(b"") for _, held in self.cluster.views()}
        return len(digests) <= 1 and not self.cluster.ghosts() and not self.cluster.in_flight

    def _all_ended(self) -> bool:
        return all(request.ends for request in self.cluster.history.requests.values())

    def await_(self, holds: Callable[[], bool], within_s: float, what: str) -> None:
        """Let time pass until something holds.

        Raises:
            Violation: It does not within *within_s* virtual seconds.
        """
        if not self.world.run_until(holds, within_s=within_s):
            raise Violation(f"{what} within {within_s:.0f} s")

    def _report(self, error: Exception) -> str:
        world = self.world
        where = traceback.extract_tb(error.__traceback__)[-1]
        lines = world.trace.lines(describe, last=TRACE_LINES)
        return "\n".join(
            [
                f"seed {world.seed} of {self.scenario.name} at {world.now:.3f} s:",
                f"  {type(error).__name__}: {error} ({where.filename}:{where.lineno})",
                f"replay: {replay(self.scenario.name, world.seed)}",
                *lines,
            ]
        )


def replay(scenario: str, seed: int) -> str:
    """Return the one line that runs a seed again."""
    return f"python -m opentela.testing.sim --scenario {scenario} --seed {seed} --trace"


def _told(request: Request) -> str:
    return f"{request.name} ({request.ask.model} at {request.router}): {request.ends}"
