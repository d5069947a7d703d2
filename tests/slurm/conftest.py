"""Tests on a real Slurm, which they start themselves where the machine allows it."""

import os
from collections.abc import Iterator

import pytest
from tests.slurm import cluster as clusters
from tests.slurm.cluster import Cluster


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip where no Slurm can be run; on CI that is an error instead."""
    reason = clusters.why_not()
    if not reason or os.environ.get("CI"):
        return
    for item in items:
        if item.get_closest_marker("slurm"):
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def running_cluster() -> Iterator[Cluster]:
    """The one Slurm of this run."""
    with Cluster() as made:
        yield made


@pytest.fixture
def cluster(running_cluster: Cluster) -> Iterator[Cluster]:
    """A Slurm without jobs, all nodes idle; jobs of the test end with it."""
    running_cluster.cancel_all()
    running_cluster.wait_for_nodes("idle")
    yield running_cluster
    running_cluster.cancel_all()
