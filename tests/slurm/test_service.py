"""A service in real jobs: what an ordinary user does with it, and what Slurm does to it."""

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.processes import signal_all, wait_until
from tests.e2e.product import Product
from tests.e2e.scenes import Load, fake_engine, verify
from tests.slurm.cluster import Cluster
from tests.slurm.scenes import Site

pytestmark = [pytest.mark.slurm, pytest.mark.nats]

LONGEST_S = 15.0
QUICK = ("--set", "walltime.reserve_s=6", "--set", "walltime.margin_s=10")
"""Jobs of a minute, the least that Slurm knows, have little time to leave."""


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory, running_cluster: Cluster) -> Iterator[Site]:
    """A mesh beside the Slurm."""
    with Product(tmp_path_factory.mktemp("mesh")) as product:
        yield Site(product, running_cluster)


@pytest.fixture
def site(mesh: Site, cluster: Cluster) -> Site:
    """The mesh without sessions, and a folder for this test's services."""
    mesh.begin()
    mesh.wait_for_sessions(0)
    return mesh


def command(pid: int) -> bytes:
    """Return a process' command; nothing when it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_a_user_runs_looks_at_and_ends_a_service(site: Site) -> None:
    """Two replicas in one job, each with its own GPU; in order to the end, and nothing is left."""
    job = site.submit("--follow", "--replicas", "2", "--replicas-per-node", "2")
    (row,) = site.listed()["jobs"]
    assert (row["job"], row["phase"], row["ready"], row["replicas"]) == (job, "running", 2, 2)
    site.wait_for_sessions(2)
    # Both ask Slurm: an old release tells a job its end by no variable.
    before, told, after = site.listed(), site.seen_sessions(), site.listed()
    least, most = (one["jobs"][0]["left_s"] for one in (after, before))
    assert [least - 1 <= one["left_s"] <= most + 1 for one in told] == [True] * 2
    refused = site.otela(
        *("submit", "--name", "tiny", "--access", str(site.access), "--time", "5m", "--", "true"),
        check=False,
    )
    assert f"the service tiny already has job {job}" in refused
    gpus = [
        len(
            site.cluster.processes(
                SLURM_JOB_ID=str(job), CUDA_VISIBLE_DEVICES=gpu, OTELA_REPLICA=one
            )
        )
        for gpu in ("0", "1")
        for one in ("0", "1")
    ]
    assert sorted(count > 0 for count in gpus) == [False, False, True, True]
    exchanges = Load(site.product, site.router, count=16).complete()
    verify(exchanges, longest_s=LONGEST_S)
    assert len({one.session for one in exchanges}) == 2
    said = site.otela("cancel", "tiny")
    assert said == f"job {job} leaves in order\n"
    site.wait_for_sessions(0)
    site.wait_for_end(job)
    # The last process is gone a moment before Slurm has noted it.
    site.cluster.wait_for_state(job, "COMPLETED")
    site.wait_for_lives(2, "JOINING", "SERVING", "DRAINING", "LEFT")


def test_a_job_that_is_prolonged_or_cut_short_is_followed(site: Site) -> None:
    """Routers and the supervisor learn of it while the job runs, and it drains for the new end."""
    look = ("--set", "walltime.look_s=1", "--set", "walltime.margin_s=5")
    job = site.submit(*QUICK, *look, time="5m")
    site.wait_for_sessions(1)

    def left_s() -> float:
        (one,) = site.seen_sessions()
        return float(one["left_s"])

    def limit(minutes: int) -> None:
        change = ("scontrol", "update", f"jobid={job}", f"timelimit={minutes}")
        site.cluster.run(*change, user="root")

    assert 200 < left_s() <= 300
    limit(30)
    wait_until(lambda: 1700 < left_s() <= 1800, "the later end in the offer", within_s=30)
    limit(1)
    wait_until(lambda: left_s() <= 60, "the earlier end in the offer", within_s=30)
    site.wait_for_sessions(0, within_s=100)
    site.wait_for_end(job)
    site.wait_for_lives(1, "JOINING", "SERVING", "DRAINING", "LEFT")
    # It went by itself, and not by Slurm's hand.
    site.cluster.wait_for_state(job, "COMPLETED")
    assert len(site.told(job, "walltime_moved")) == 2


@pytest.mark.timeout(300)  # a minute is the least that a job can last
def test_a_service_outlasts_its_job(site: Site) -> None:
    """No answer is lost across the hand-over: whole ones succeed, streams do or say why not."""
    first = site.submit("--lasting", *QUICK, engine=fake_engine("alpha"), time="1m")
    site.wait_for_sessions(1)
    load = Load(site.product, site.router, concurrency=4)
    second = site.wait_for_successor(first)
    site.cluster.wait_for_state(first, "COMPLETED", within_s=60)
    site.wait_for_end(first)
    load.wait_for_count(len(load.history()) + 20)
    exchanges = load.finish()
    verify(exchanges, longest_s=LONGEST_S)
    assert [one for one in exchanges if not one.stream and not one.claims_success] == []
    (retired,) = site.told(first, "replicas_retired")[:1]
    (handover,) = site.told(first, "handover_finished")
    assert (retired["successor"], handover["successor"]) == (second, second)
    assert 0 < handover["overlap_gpu_h"] < 60 / 3600
    assert site.listed()["overlap_gpu_h"] > 0
    assert len({one.session for one in exchanges}) == 2
    site.otela("cancel", "tiny", "--now")
    site.wait_for_end(second)
    site.wait_for_sessions(0)


def test_one_replicas_end_ends_no_other(site: Site) -> None:
    """A replica whose engine fails for good is gone; the job and the others go on."""
    once = ("--set", "restart.failures_max=1")
    engine = [*fake_engine("alpha"), "--spawn", "session"]
    job = site.submit("--replicas", "2", "--replicas-per-node", "2", *once, engine=engine)
    site.wait_for_sessions(2)
    victim = next(
        pid
        for pid in site.cluster.processes(SLURM_JOB_ID=str(job), OTELA_REPLICA="0")
        if b"fake_engine" in command(pid).partition(b"guardian")[0]
        and b"opentela.cli" not in command(pid)
    )
    signal_all([victim], signal.SIGKILL)
    site.wait_for_sessions(1)
    wait_until(
        lambda: not site.cluster.processes(SLURM_JOB_ID=str(job), OTELA_REPLICA="0"),
        "the end of the replica",
        within_s=40,
    )
    assert site.cluster.state(job) == "RUNNING"
    verify(Load(site.product, site.router, count=8).complete(), longest_s=LONGEST_S)
    # Plain scancel signals every process of a step at once, the engine included.
    site.cluster.run("scancel", str(job))
    site.wait_for_sessions(0)
    site.wait_for_end(job)
    site.cluster.wait_for_state(job, "CANCELLED")
    wait_until(
        lambda: [life[-1] for life in site.lives().values()] == ["LEFT", "LEFT"],
        "the end of both",
        within_s=30,
    )


def test_a_preempted_job_drains_and_serves_again(site: Site) -> None:
    """Running answers are finished in the grace; Slurm starts the job again when there is room."""
    job = site.submit("--gpus", "2", "--replicas", "3")
    site.wait_for_sessions(3)
    load = Load(site.product, site.router, concurrency=2)
    load.wait_for_count(4)
    preemptor = site.cluster.run(
        *("sbatch", "--parsable", "-p", "high", "-N3", "--gres=gpu:2", "--mem=100", "-t", "1"),
        *("-D", str(site.services), "--wrap", "sleep 600"),
    ).stdout.strip()
    site.wait_for_sessions(0)
    exchanges = load.finish()
    # With every replica leaving, new requests are refused by name; none that had begun is lost.
    failed = {one.error or one.cut for one in exchanges if not one.claims_success}
    assert failed <= {"session_refused", "model_unavailable"}
    site.cluster.wait_for_state(int(preemptor), "RUNNING", within_s=40)
    site.cluster.wait_for_state(job, "PENDING")
    site.wait_for_end(job)
    site.wait_for_lives(3, "JOINING", "SERVING", "DRAINING", "LEFT")
    site.cluster.run("scancel", preemptor)
    site.wait_for_sessions(3)
    wait_until(lambda: len(site.lives()) == 6, "three new sessions", within_s=30)


def test_a_lost_node_is_given_up_and_its_job_serves_elsewhere(site: Site) -> None:
    """Nobody says goodbye: registries find out, and no router keeps a ghost."""
    job = site.submit()
    site.wait_for_sessions(1)
    (node,) = {row["nodes"] for row in site.listed()["jobs"]}
    (lost,) = site.lives()
    site.cluster.fail_node(node)
    site.registry.wait_for("suspicion_raised", session=lost)
    # Slurm finds out by itself, too, but only when SlurmdTimeout has passed.
    site.cluster.run(
        *("scontrol", "update", f"nodename={node}", "state=down", "reason=lost"), user="root"
    )
    site.cluster.wait_for_state(job, "PENDING")
    site.wait_for_sessions(1, within_s=60)
    wait_until(
        lambda: (
            [life for session, life in site.lives().items() if session != lost]
            == [["JOINING", "SERVING"]]
        ),
        "the life of the one that follows",
        within_s=30,
    )
    verify(Load(site.product, site.router, count=8).complete(), longest_s=LONGEST_S)
    site.cluster.revive_node(node)
    site.cluster.run(
        *("scontrol", "update", f"nodename={node}", "state=resume"), user="root", check=False
    )


def test_a_replica_across_nodes_ends_as_a_whole(site: Site) -> None:
    """Its first node is offered, the others work for it; what has lost one of them is no engine."""
    worker = f"{sys.executable} -c 'import time; time.sleep(600)' {{head}} {{rank}}"
    job = site.submit("--nodes-per-replica", "2", "--worker", worker)
    site.wait_for_sessions(1)
    workers: list[int] = []

    def works() -> bool:
        workers[:] = [
            pid
            for pid in site.cluster.processes(SLURM_JOB_ID=str(job), SLURM_PROCID="1")
            if b"time.sleep" in command(pid)
        ]
        return len(workers) == 1

    wait_until(works, "the worker", within_s=30)
    (pid,) = workers
    words = command(pid).split(b"\0")
    assert words[-3:-1] == [b"n1", b"1"]
    signal_all([pid], signal.SIGKILL)
    site.wait_for_sessions(0)
    site.wait_for_end(job)
    site.cluster.wait_for_state(job, "FAILED")
