"""Named scenarios: what is known to happen in the field, each with the outcome that is right.

The invariants of `checkers` hold in all of them; what stands here comes on top.
"""

from random import Random
from typing import Final

from msgspec.structs import replace

from opentela.core.record import Lifecycle, is_suspected, lifecycle_of
from opentela.testing.sim import nemesis
from opentela.testing.sim.cluster import Cluster
from opentela.testing.sim.expecting import (
    asked,
    attempts_at,
    fixed,
    must,
    must_all_succeed,
    no_evictions,
)
from opentela.testing.sim.run import Run, Scenario
from opentela.testing.sim.scenarios import mesh
from opentela.testing.sim.workload import WorkloadForm
from opentela.wire import subjects

NOTICED_S: Final = 15.0
"""A lease of five beats and two rounds of registries: by then a silent failure is routed around."""
CUT_S: Final = 60.0
_BUSY: Final = WorkloadForm(every_s=0.5, leave_share=0.0)


# A partition of 60 s -----------------------------------------------------------------------------


def _cut_north_off(cluster: Cluster, _: Random) -> float:
    world = cluster.world
    cluster.mark("cut")
    world.network.partition(["north"], ["hub", "south"])
    world.after(CUT_S, world.network.heal)
    world.after(CUT_S, cluster.mark, "healed")
    return CUT_S


def _both_sides_serve(run: Run) -> None:
    cut, healed = run.cluster.marks["cut"], run.cluster.marks["healed"]
    must_all_succeed(asked(run, since=cut + NOTICED_S, until=healed - 1))
    no_evictions(run)
    must(len(run.cluster.owners) == len(run.cluster.supervisors), "a session was replaced")


PARTITION: Final = Scenario(
    name="both-sides-serve-through-a-partition",
    form=fixed(mesh(routers=("hub", "north", "south"))),
    faults=_cut_north_off,
    workload=_BUSY,
    expect=_both_sides_serve,
)


def partition_of(count: int) -> Scenario:
    """Return the same for *count* sessions; nobody need look at so many by name."""
    sites = tuple(("north", "south")[number % 2] for number in range(count))
    form = mesh(routers=("hub", "north", "south"), supervisors=sites)
    return replace(
        PARTITION, name=f"both-sides-of-{count}-serve-through-a-partition", form=fixed(form)
    )


# A half-open link --------------------------------------------------------------------------------


def _half_open(cluster: Cluster, _: Random) -> float:
    world = cluster.world
    cluster.mark("cut")
    world.network.partition(["north"], ["hub", "south"])
    world.after(40.0, world.network.heal)
    return 40.0


def _is_routed_around(run: Run) -> None:
    cut = run.cluster.marks["cut"]
    late = attempts_at(run, site="north", since=cut + NOTICED_S, until=cut + 40.0)
    must(not late, f"{len(late)} attempts at sessions behind the half-open link")
    _nobody_waits(run)


def _nobody_waits(run: Run) -> None:
    cut = run.cluster.marks["cut"]
    for request in asked(run, since=cut, until=cut + 38.0):
        took_s = request.ends[0][0] - request.asked_at if request.ends else 40.0
        must(took_s < 12.0, f"{request.name} waited {took_s:.1f} s")  # noqa: PLR2004
    must_all_succeed(asked(run, since=cut + NOTICED_S, until=cut + 38.0))
    no_evictions(run)


HALF_OPEN: Final = Scenario(
    name="a-half-open-link-is-routed-around",
    form=fixed(mesh(routers=("hub",), registries=("hub", "south"))),
    faults=_half_open,
    workload=_BUSY,
    expect=_is_routed_around,
)


def _deaf(cluster: Cluster, _: Random) -> float:
    world = cluster.world
    cluster.mark("cut")
    world.network.cut("hub", "north")
    world.network.cut("south", "north")
    world.after(40.0, world.network.heal)
    return 40.0


DEAF: Final = Scenario(
    name="a-site-that-is-heard-but-hears-nothing-is-avoided",
    form=fixed(mesh(routers=("hub",), registries=("hub", "south"))),
    faults=_deaf,
    workload=_BUSY,
    expect=_nobody_waits,
)


# A lost leave ------------------------------------------------------------------------------------


def _lose_a_leave(cluster: Cluster, _: Random) -> float:
    world = cluster.world
    delta = subjects.whole("delta").removesuffix(">")
    world.network.lose_if(lambda _s, _t, subject: subject.startswith(delta))
    cluster.mark("stopped")
    supervisor = cluster.supervisors["gpu-0"]
    supervisor.stop("asked to")
    return 20.0


def _ghost_is_found(run: Run) -> None:
    cluster = run.cluster
    session = next(iter(s for s, (name, _) in cluster.owners.items() if name == "gpu-0"))
    late = [
        attempt
        for request in cluster.history.requests.values()
        for attempt in request.attempts
        if attempt.session == session and attempt.at > cluster.marks["stopped"] + NOTICED_S
    ]
    must(not late, f"{len(late)} attempts at a ghost")
    for name, held in cluster.views():
        record = held.records[session]
        gone = lifecycle_of(record) is Lifecycle.LEFT or is_suspected(record)
        must(gone, f"{name} still believes in {session}")


LOST_LEAVE: Final = Scenario(
    name="a-lost-leave-is-found-by-probing",
    form=fixed(mesh(restart_s=0.0)),
    faults=_lose_a_leave,
    workload=_BUSY,
    expect=_ghost_is_found,
)


# Registries come and go --------------------------------------------------------------------------


def _restart_a_registry(cluster: Cluster, _: Random) -> float:
    cluster.mark("began")
    for number, name in enumerate(cluster.form.registries):
        cluster.world.after(15.0 * number, cluster.crash, name)
        cluster.world.after(15.0 * number + 5.0, cluster.start, name)
    return 15.0 * len(cluster.form.registries)


def _nobody_noticed(run: Run) -> None:
    must_all_succeed(asked(run, since=run.cluster.marks["began"], until=run.healed_at - 1))
    no_evictions(run)
    must(len(run.cluster.owners) == len(run.cluster.supervisors), "a session was replaced")


REGISTRY_RESTART: Final = Scenario(
    name="a-restarted-registry-is-not-noticed",
    form=fixed(mesh()),
    faults=_restart_a_registry,
    workload=_BUSY,
    expect=_nobody_noticed,
)


def _kill_all_registries(cluster: Cluster, _: Random) -> float:
    cluster.mark("began")
    for name in cluster.form.registries:
        cluster.crash(name)
        cluster.world.after(30.0, cluster.start, name)
    return 40.0


ALL_REGISTRIES_GONE: Final = Scenario(
    name="routers-serve-without-registries",
    form=fixed(mesh()),
    faults=_kill_all_registries,
    workload=_BUSY,
    expect=_nobody_noticed,
)


def _die_unnoticed(cluster: Cluster, rng: Random) -> float:
    length_s = _kill_all_registries(cluster, rng)
    cluster.world.after(5.0, cluster.crash, "gpu-0")
    cluster.world.after(10.0, cluster.start, "gpu-0")
    return length_s


def _was_replaced(run: Run) -> None:
    must(len(run.cluster.owners) > len(run.cluster.supervisors), "no session came after")


FORGOTTEN: Final = Scenario(
    name="who-died-while-no-registry-knew-is-found",
    form=fixed(mesh()),
    faults=_die_unnoticed,
    workload=_BUSY,
    expect=_was_replaced,
)


def _refute_and_forget(cluster: Cluster, _: Random) -> float:
    world = cluster.world
    world.network.partition(["north"], ["hub", "south"])
    world.after(20.0, world.network.heal)
    for name in cluster.form.registries:
        world.after(25.0, cluster.crash, name)
        world.after(26.0, cluster.start, name)
    return 32.0


def _views_are_equal(run: Run) -> None:
    digests = {held.trie.children(b"") for _, held in run.cluster.views()}
    must(len(digests) == 1, "views differ although nobody died")
    no_evictions(run)


REFUTED: Final = Scenario(
    name="a-refuted-suspicion-leaves-no-difference",
    form=fixed(mesh(registries=("hub",))),
    faults=_refute_and_forget,
    expect=_views_are_equal,
)


# Quorum ------------------------------------------------------------------------------------------


def _blind_one_registry(cluster: Cluster, _: Random) -> float:
    cluster.mark("began")
    for source, target in (("north", "south"), ("south", "north")):
        cluster.world.network.cut(source, target)
    cluster.world.after(CUT_S, cluster.world.network.heal)
    return CUT_S


def _nobody_is_suspected(run: Run) -> None:
    for name, held in run.cluster.views():
        for session in held.records:
            suspected = [line for line in held.story(session) if line.suspected]
            must(not suspected, f"{name} held {session} for suspected: {suspected}")
    _nobody_noticed(run)


QUORUM: Final = Scenario(
    name="one-blind-registry-of-two-suspects-nobody",
    form=fixed(mesh(registries=("hub", "south"), routers=("hub",), supervisors=("north", "north"))),
    faults=_blind_one_registry,
    workload=_BUSY,
    expect=_nobody_is_suspected,
)


# Clocks, pauses, loss: nobody is evicted ---------------------------------------------------------


def _jump_all_clocks(cluster: Cluster, rng: Random) -> float:
    cluster.mark("began")
    for turn in range(10):
        for node in cluster.world.nodes.values():
            offset_s = rng.uniform(-nemesis.CLOCK_JUMP_S, nemesis.CLOCK_JUMP_S)
            cluster.world.after(6.0 * turn, node.jump, offset_s)
    return 60.0


CLOCKS: Final = Scenario(
    name="jumping-clocks-are-not-noticed",
    form=fixed(mesh()),
    faults=_jump_all_clocks,
    workload=_BUSY,
    expect=_nobody_noticed,
)


def _pause_everybody_in_turn(cluster: Cluster, rng: Random) -> float:
    at_s = 0.0
    for node in list(cluster.world.nodes.values()):
        length_s = rng.uniform(1.0, nemesis.PAUSE_MAX_S)
        cluster.world.after(at_s, node.pause)
        cluster.world.after(at_s + length_s, node.resume)
        at_s += length_s / 2
    return at_s + nemesis.PAUSE_MAX_S


PAUSES: Final = Scenario(
    name="a-stopped-process-is-not-evicted",
    form=fixed(mesh()),
    faults=_pause_everybody_in_turn,
    expect=no_evictions,
)


def _lose_a_third(cluster: Cluster, rng: Random) -> float:
    nemesis.lossy_links(cluster, rng, 60.0)
    network = cluster.world.network
    for source in cluster.sites:
        for target in cluster.sites:
            network.shape(source, target, replace(network.wide, loss=0.3))
    return 60.0


LOSS: Final = Scenario(
    name="a-third-of-all-messages-lost-evicts-nobody",
    form=fixed(mesh()),
    faults=_lose_a_third,
    expect=no_evictions,
)

MEMBERSHIP: Final = (
    PARTITION,
    HALF_OPEN,
    DEAF,
    LOST_LEAVE,
    REGISTRY_RESTART,
    ALL_REGISTRIES_GONE,
    FORGOTTEN,
    REFUTED,
    QUORUM,
    CLOCKS,
    PAUSES,
    LOSS,
)
