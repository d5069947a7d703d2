"""An engine from an Apptainer image in a job of an ordinary user, on the newer Slurm."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.product import Product
from tests.e2e.scenes import Load, fake_engine, verify
from tests.slurm.cluster import ROOT, Cluster
from tests.slurm.scenes import Site

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.nats,
    pytest.mark.skipif("OTELA_NEWER_SLURM" not in os.environ, reason="make slurm-new runs this"),
]

RECIPE = """\
Bootstrap: {{ BOOT }}
From: {{ FROM }}

%arguments
    BOOT=docker
    FROM=busybox

%labels
    kind engine
"""


@pytest.fixture
def site(tmp_path: Path, cluster: Cluster) -> Iterator[Site]:
    """A mesh beside the Slurm."""
    with Product(tmp_path) as product:
        yield Site(product, cluster)


@pytest.fixture
def image(cluster: Cluster, tmp_path: Path) -> Path:
    """A small image, built by the recipe that production builds from a registry."""
    tree = tmp_path / "tree"
    for name in ("bin", "etc", "dev", "proc", "sys", "tmp", "usr", "lib64", "root"):
        (tree / name).mkdir(parents=True)
    shutil.copy("/bin/busybox", tree / "bin" / "busybox")
    (tree / "bin" / "sh").symlink_to("busybox")
    recipe = tmp_path / "engine.def"
    recipe.write_text(RECIPE)
    built, made = tmp_path / "engine.sif", cluster.jobs / "engine.sif"
    done = subprocess.run(
        [
            *("apptainer", "build", "--fakeroot", "-F", "--build-arg", "BOOT=localimage"),
            *("--build-arg", f"FROM={tree}", str(built), str(recipe)),
        ],
        check=False,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    shutil.copyfile(built, made)
    return made


def test_an_engine_runs_in_an_image_and_is_stopped_in_order(site: Site, image: Path) -> None:
    """What the supervisor starts is Apptainer; what it watches is the engine within."""
    # The image has no Python: the host's comes in by binds, as site software does.
    binds = [sys.base_prefix, sys.prefix, str(ROOT), "/usr", "/lib", "/lib64"]
    words = [word for one in binds for word in ("--apptainer", f"--bind {one}")]
    job = site.submit("--gpus", "0", "--image", str(image), *words, engine=fake_engine("alpha"))
    site.wait_for_sessions(1)
    within = site.cluster.processes(SLURM_JOB_ID=str(job), APPTAINER_CONTAINER=str(image))
    assert within
    verify(Load(site.product, site.router, count=8).complete(), longest_s=8.0)
    site.otela("cancel", "tiny")
    site.wait_for_sessions(0)
    site.wait_for_end(job)
    assert site.cluster.state(job) == "COMPLETED"
    assert list(site.lives().values()) == [["JOINING", "SERVING", "DRAINING", "LEFT"]]
    (ended,) = site.told(job, "engine_ended")
    (left,) = [one for one in site.told(job, "session_announced") if one["lifecycle"] == "LEFT"]
    assert left["timestamp"] < ended["timestamp"]
