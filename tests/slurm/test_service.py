"""A service in real jobs: what an ordinary user does with it, and what Slurm does to it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.product import Product
from tests.e2e.scenes import Load, verify
from tests.slurm.cluster import Cluster
from tests.slurm.scenes import Site, lives

pytestmark = [pytest.mark.slurm, pytest.mark.nats]

LONGEST_S = 8.0


@pytest.fixture
def site(tmp_path: Path, cluster: Cluster) -> Iterator[Site]:
    """A mesh beside the Slurm."""
    with Product(tmp_path) as product:
        yield Site(product, cluster)


def test_a_user_runs_looks_at_and_ends_a_service(site: Site) -> None:
    """Two replicas in one job, each with its own GPU; in order to the end, and nothing is left."""
    job = site.submit("--replicas", "2", "--replicas-per-node", "2")
    site.wait_for_sessions(2)
    (row,) = site.listed()["jobs"]
    assert (row["job"], row["phase"], row["ready"], row["replicas"]) == (job, "running", 2, 2)
    refused = site.otela(
        *("submit", "--name", "tiny", "--access", str(site.access), "--time", "5m", "--", "true"),
        check=False,
    )
    assert f"the service tiny has job {job} already" in refused
    gpus = {
        one.partition("=")[2]
        for pid in site.cluster.processes(SLURM_JOB_ID=str(job))
        for one in Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
        if one.startswith("CUDA_VISIBLE_DEVICES=")
        and b"SLURM_STEP" in Path(f"/proc/{pid}/environ").read_bytes()
    }
    assert {"0", "1"} <= gpus
    exchanges = Load(site.product, site.router, count=16).complete()
    verify(exchanges, longest_s=LONGEST_S)
    assert len({one.session for one in exchanges}) == 2
    said = site.otela("cancel", "tiny")
    assert said == f"job {job} leaves in order\n"
    site.wait_for_sessions(0)
    site.wait_for_end(job)
    assert site.cluster.state(job) == "COMPLETED"
    assert all(
        life == ["JOINING", "SERVING", "DRAINING", "LEFT"] for life in lives(site.registry).values()
    )
