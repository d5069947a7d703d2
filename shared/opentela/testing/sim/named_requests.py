"""Named scenarios of requests: what clients see when engines, sessions and routers fail."""

from random import Random
from typing import Final

from msgspec.structs import replace

from opentela.core.ids import SessionId
from opentela.core.record import Lifecycle, lifecycle_of
from opentela.supervisor.config import SupervisorConfig, WalltimeConfig
from opentela.testing.sim.cluster import Cluster, ClusterForm
from opentela.testing.sim.engine import EngineForm
from opentela.testing.sim.expecting import asked, fixed, must, must_all_succeed, no_evictions
from opentela.testing.sim.history import Ask, Outcome, Request
from opentela.testing.sim.run import Run, Scenario
from opentela.testing.sim.scenarios import MODELS, mesh
from opentela.testing.sim.supervisor_shell import SupervisorForm
from opentela.testing.sim.workload import WorkloadForm

KNOWN_S: Final = 2.0
"""From a real death to its being out of every view."""
LEFT_S: Final = 75.0
"""From a death to `LEFT` everywhere: silence, grace, and a round of registries."""
_BUSY: Final = WorkloadForm(every_s=0.2, leave_share=0.0)
_UNARY: Final = replace(_BUSY, stream_share=0.0)


def _owned_by(cluster: Cluster, name: str) -> list[SessionId]:
    return [session for session, (owner, _) in cluster.owners.items() if owner == name]


# An engine dies behind a node that lives ---------------------------------------------------------


def _kill_one_engine(cluster: Cluster, _: Random) -> float:
    cluster.mark("began")
    cluster.world.after(3.0, cluster.supervisors["gpu-0"].kill_engine)
    cluster.world.after(3.0, cluster.mark, "killed")
    return 20.0


def _fails_over(run: Run) -> None:
    cluster = run.cluster
    must_all_succeed(asked(run, since=cluster.marks["began"], until=run.healed_at - 1))
    first, *later = _owned_by(cluster, "gpu-0")
    must(len(later) == 1, f"the engine came back as {len(later)} sessions")
    for name, held in cluster.views():
        must(lifecycle_of(held.records[first]) >= Lifecycle.DOWN, f"{name} has not seen it go")
    late = _attempts_on(run, first, since=cluster.marks["killed"] + 1.0)
    must(not late, f"{late} attempts at a session whose engine is dead")
    must(_attempts_on(run, later[0], since=0.0) > 0, "the new session is not used")


def _attempts_on(run: Run, session: SessionId, *, since: float) -> int:
    return sum(
        attempt.session == session and attempt.at >= since
        for request in run.cluster.history.requests.values()
        for attempt in request.attempts
    )


ENGINE_DIES: Final = Scenario(
    name="an-engine-that-dies-costs-no-unary-request",
    form=fixed(mesh(engine=EngineForm(first_s=0.3))),
    faults=_kill_one_engine,
    workload=_UNARY,
    expect=_fails_over,
)


def _all_or_told(run: Run) -> None:
    """Streams that had begun may break, but say so; everything else succeeds."""
    for request in asked(run, since=run.cluster.marks["began"], until=run.healed_at - 1):
        if request.outcome is Outcome.ERROR:
            must(bool(request.received), f"{request.name} failed before its first byte")


ENGINE_DIES_IN_STREAM: Final = Scenario(
    name="an-engine-that-dies-breaks-only-streams-that-began",
    form=fixed(mesh(engine=EngineForm(first_s=0.3, gap_s=0.2))),
    faults=_kill_one_engine,
    workload=replace(_BUSY, stream_share=1.0),
    expect=_all_or_told,
)


# A process is killed -----------------------------------------------------------------------------


def _kill_one_process(cluster: Cluster, _: Random) -> float:
    cluster.mark("killed")
    cluster.crash("gpu-0")
    cluster.world.after(20.0, cluster.start, "gpu-0")
    return 20.0 + LEFT_S


def _dies_and_returns_as_new(run: Run) -> None:
    cluster = run.cluster
    first, *later = _owned_by(cluster, "gpu-0")
    must(len(later) == 1, f"{len(later)} sessions came after")
    for name, held in cluster.views():
        story = held.story(first)
        gone_at = next((line.at for line in story if line.suspected), None)
        must(gone_at is not None, f"{name} never suspected it")
        must(lifecycle_of(held.records[first]) is Lifecycle.LEFT, f"{name} still waits for it")
    late = _attempts_on(run, first, since=cluster.marks["killed"] + KNOWN_S)
    must(not late, f"{late} attempts at a session {KNOWN_S} s dead")
    must(_attempts_on(run, later[0], since=0.0) > 0, "the new session is not used")
    must_all_succeed(asked(run, since=cluster.marks["killed"], until=run.healed_at - 1))


PROCESS_DIES: Final = Scenario(
    name="a-killed-session-is-left-in-two-seconds-and-returns-as-new",
    form=fixed(replace(mesh(restart_s=0.0), clock_offset_s=0.0)),
    faults=_kill_one_process,
    workload=_UNARY,
    expect=_dies_and_returns_as_new,
)


# In order ----------------------------------------------------------------------------------------


def _stop_all_in_turn(cluster: Cluster, _: Random) -> float:
    cluster.mark("began")
    for number, name in enumerate(cluster.form.supervisors):
        cluster.world.after(12.0 * number, _stop, cluster, name)
    return 12.0 * len(cluster.form.supervisors)


def _stop(cluster: Cluster, name: str) -> None:
    cluster.supervisors[name].stop("end of job")


def _all_served(run: Run) -> None:
    must_all_succeed(asked(run, since=run.cluster.marks["began"], until=run.healed_at - 1))
    no_evictions(run)


DRAIN: Final = Scenario(
    name="sessions-that-leave-in-order-lose-no-request",
    form=fixed(mesh(engine=EngineForm(first_s=0.3, gap_s=0.1))),
    faults=_stop_all_in_turn,
    workload=_BUSY,
    expect=_all_served,
)


def _with_walltime(form: ClusterForm, site: str, walltime_s: float) -> ClusterForm:
    """Let the allocations at one site end, so that the other bears it."""
    config = SupervisorConfig(walltime=WalltimeConfig(margin_s=5.0, reserve_s=10.0))
    placed: dict[str, tuple[str, SupervisorForm]] = {}
    for name, (where, one) in form.supervisors.items():
        ends_s = walltime_s if where == site else 0.0
        placed[name] = (where, replace(one, config=config, walltime_s=ends_s))
    return replace(form, supervisors=placed, restart_s=2.0)


def _pass_walltime(cluster: Cluster, _: Random) -> float:
    cluster.mark("began")
    return 60.0


def _left_before_the_end(run: Run) -> None:
    _all_served(run)
    must(len(run.cluster.owners) > len(run.cluster.supervisors), "nobody's walltime ended")


WALLTIME: Final = Scenario(
    name="allocations-that-end-lose-no-request",
    form=fixed(_with_walltime(mesh(), "north", 40.0)),
    faults=_pass_walltime,
    workload=_BUSY,
    expect=_left_before_the_end,
)


# A router without a mesh -------------------------------------------------------------------------


def _isolate_a_router(cluster: Cluster, _: Random) -> float:
    cluster.mark("began")
    cluster.world.network.isolate(cluster.world.nodes["router-0"])
    cluster.world.after(25.0, cluster.mark, "ends")
    cluster.world.after(30.0, cluster.world.network.heal)
    cluster.world.after(40.0, cluster.mark, "back")
    return 60.0


def _others_serve(run: Run) -> None:
    marks = run.cluster.marks
    since, until = marks["began"], marks["ends"]
    must_all_succeed(asked(run, since=since, until=run.healed_at - 1, router="router-1"))
    for request in asked(run, since=since + 10.0, until=until, router="router-0"):
        must(request.outcome is Outcome.ERROR, f"{request.name} succeeded without a mesh")
        took_s = request.ends[0][0] - request.asked_at
        must(took_s < 1.0, f"{request.name} waited {took_s:.1f} s for no mesh")
    back = asked(run, since=marks["back"], until=run.healed_at - 1, router="router-0")
    must_all_succeed(back)
    no_evictions(run)


ROUTER_ALONE: Final = Scenario(
    name="a-router-without-a-mesh-fails-fast-and-recovers",
    form=fixed(mesh()),
    faults=_isolate_a_router,
    workload=_BUSY,
    expect=_others_serve,
)


# One engine hangs --------------------------------------------------------------------------------


def _hang_one(cluster: Cluster, _: Random) -> float:
    cluster.mark("began")
    cluster.supervisors["gpu-0"].hang_engine()
    return 40.0


def _hung_one_leaves(run: Run) -> None:
    cluster = run.cluster
    first, *later = _owned_by(cluster, "gpu-0")
    late = _attempts_on(run, first, since=cluster.marks["began"] + 10.0)
    must(not late, f"{late} attempts at a hung engine")
    must(len(later) == 1, f"the hung engine came back as {len(later)} sessions")
    must_all_succeed(asked(run, since=cluster.marks["began"], until=run.healed_at - 1))


HANGS: Final = Scenario(
    name="a-hung-engine-is-replaced-and-its-unary-requests-answered",
    form=fixed(mesh()),
    faults=_hang_one,
    workload=_UNARY,
    expect=_hung_one_leaves,
)


# A list of models that changes -------------------------------------------------------------------


def _change_models(cluster: Cluster, _: Random) -> float:
    cluster.supervisors["gpu-0"].models = (MODELS[0], "adapter")
    cluster.world.after(15.0, _ask_for, cluster, "adapter")
    return 20.0


def _ask_for(cluster: Cluster, model: str) -> None:
    for number, (name, router) in enumerate(cluster.routers.items()):
        request = Request(
            name=f"{model}-{number}",
            router=name,
            ask=Ask(model=model),
            asked_at=cluster.world.now,
        )
        cluster.history.ask(request)
        cluster.world.nodes[name].handle(router.ask, request)


def _new_model_is_served(run: Run) -> None:
    requests = [r for r in run.cluster.history.requests.values() if r.ask.model == "adapter"]
    must(bool(requests), "nobody asked for the adapter")
    must_all_succeed(requests)


OFFER: Final = Scenario(
    name="a-model-that-an-engine-loads-later-is-served",
    form=fixed(mesh()),
    faults=_change_models,
    workload=_BUSY,
    expect=_new_model_is_served,
)


# Clients that leave ------------------------------------------------------------------------------


def _let_clients_leave(cluster: Cluster, _: Random) -> float:
    cluster.world.after(1.0, _watch_engines, cluster)
    return 20.0


def _watch_engines(cluster: Cluster) -> None:
    """Note how long an engine works for a client that has left."""
    world = cluster.world
    names = {r.name for r in cluster.history.requests.values() if _left_s(r, world.now) > 1.0}
    for supervisor in cluster.supervisors.values():
        if names & set(supervisor.engine.working_on()):
            cluster.mark("late")
    world.after(0.1, _watch_engines, cluster)


def _left_s(request: Request, now: float) -> float:
    return now - request.ends[0][0] if request.outcome is Outcome.CANCELLED else 0.0


def _engines_are_free(run: Run) -> None:
    must("late" not in run.cluster.marks, "an engine works for a client that left 1 s ago")
    must(run.cluster.history.count(Outcome.CANCELLED) > 0, "nobody left")


CLIENTS_LEAVE: Final = Scenario(
    name="an-engine-stops-within-a-second-of-its-client-leaving",
    form=fixed(mesh(engine=EngineForm(first_s=2.0, gap_s=0.5))),
    faults=_let_clients_leave,
    workload=WorkloadForm(every_s=0.2, leave_share=0.8, leave_s=1.0, stream_share=0.5),
    expect=_engines_are_free,
)

REQUESTS: Final = (
    ENGINE_DIES,
    ENGINE_DIES_IN_STREAM,
    PROCESS_DIES,
    DRAIN,
    WALLTIME,
    ROUTER_ALONE,
    HANGS,
    OFFER,
    CLIENTS_LEAVE,
)
