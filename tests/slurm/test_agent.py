"""Agents in real jobs: what placers tell them runs on GPUs of the job, and ends with it."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from tests.e2e.processes import wait_until
from tests.e2e.product import Product
from tests.e2e.scenes import MODEL, Load, fake_engine, verify
from tests.integration.supervisor.agent.conftest import Placer
from tests.slurm.cluster import Cluster
from tests.slurm.scenes import Site

from opentela.core.ids import ProviderId, SessionId, SiteId
from opentela.mesh import access as accesses
from opentela.mesh import nats_bus
from opentela.mesh.access import Access
from opentela.wire.command import Holding, Start
from opentela.wire.subjects import SessionPath

pytestmark = [pytest.mark.slurm, pytest.mark.nats]

LONGEST_S = 15.0
AnswerT = TypeVar("AnswerT")


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory, running_cluster: Cluster) -> Iterator[Site]:
    """A mesh beside the Slurm."""
    with Product(tmp_path_factory.mktemp("mesh")) as product:
        yield Site(product, running_cluster)


@pytest.fixture(scope="module")
def placer(mesh: Site) -> Access:
    """What lets a placer in."""
    return accesses.read(mesh.product.admit("placer", "placer1"))


@pytest.fixture
def site(mesh: Site, cluster: Cluster) -> Site:
    """The mesh without sessions, and a folder for this test's services."""
    mesh.begin()
    mesh.wait_for_sessions(0)
    return mesh


class Agents:
    """A service whose jobs run agents, and a placer that tells them."""

    def __init__(self, site: Site, placer: Access) -> None:
        self._site = site
        self._access = placer
        config = site.services / "agent.toml"
        command = [*fake_engine("alpha"), "--owned-by", "{model}"]
        config.write_text(f"builtin = false\n[template.fake]\ncommand = {json.dumps(command)}\n")
        said = site.otela(
            *("submit", "--agent", "--json", "--name", "tiny", "--access", str(site.access)),
            *("--config", str(config), "--time", "5m", "--directory", str(site.services)),
            *("--memory", "1000", "--gpus", "2"),
        )
        self.job = int(json.loads(said.splitlines()[0])["job"])

    def path(self) -> SessionPath:
        """Return where the one agent is told, once it serves."""
        found: list[SessionPath] = []

        def is_there() -> bool:
            found[:] = [
                SessionPath(
                    ProviderId(one["provider"]), SiteId(one["site"]), SessionId(one["session"])
                )
                for one in self._site.seen_sessions()
                if one["engine"] == "agent" and one["state"] == "SERVING"
            ]
            return bool(found)

        wait_until(is_there, "an agent", within_s=80, detail=lambda: self._site.output(self.job))
        (path,) = found
        return path

    def tell(self, work: Callable[[Placer], Awaitable[AnswerT]]) -> AnswerT:
        """Return what a conversation of the placer comes to."""

        async def talk() -> AnswerT:
            async with await nats_bus.connect(self._access, name="placer1") as bus:
                placer = Placer(bus, "placer1")
                await placer.open()
                return await work(placer)

        return asyncio.run(talk())


def of_gpu(site: Site, job: int, gpu: str) -> set[str]:
    """Return the commands whose processes have a GPU of a job."""
    found = set()
    for pid in site.cluster.processes(SLURM_JOB_ID=str(job), CUDA_VISIBLE_DEVICES=gpu):
        for word in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            name, _, value = word.decode().partition("=")
            if name == "OTELA_AGENT_START":
                found.add(value.partition(".")[0])
    return found


@pytest.mark.parametrize("end", ["cancel", "scancel"])
def test_an_agent_in_a_job_runs_two_replicas_and_leaves_nothing(
    site: Site, placer: Access, end: str
) -> None:
    """Each has a GPU of its own; when the job ends, in order or not, both are gone."""
    agents = Agents(site, placer)
    path = agents.path()

    async def start_all(placer: Placer) -> list[Holding]:
        return [
            await placer.say(
                path, Start(command=f"01J{number:023d}", term=1, template="fake", model=MODEL)
            )
            for number in (7, 8, 9)
        ]

    first, second, third = agents.tell(start_all)
    assert first.accepted, first.reason
    assert first.hardware == "gpu"
    assert [one.gpus for one in second.replicas] == [("0",), ("1",)]
    assert third.reason == "1 GPUs are asked for, and 0 of 2 are free"
    site.wait_for_sessions(2)
    assert of_gpu(site, agents.job, "0") == {first.command}
    assert of_gpu(site, agents.job, "1") == {second.command}
    (row,) = site.listed()["jobs"]
    assert abs(first.walltime_ends_at - time.time() - row["left_s"]) < 10
    exchanges = Load(site.product, site.router, count=16).complete()
    verify(exchanges, longest_s=LONGEST_S)
    assert len({one.session for one in exchanges}) == 2
    if end == "cancel":
        site.otela("cancel", "tiny")
    else:
        site.cluster.run("scancel", str(agents.job))
    site.wait_for_sessions(0)
    site.wait_for_end(agents.job)
    if end == "cancel":
        site.cluster.wait_for_state(agents.job, "COMPLETED")
        site.wait_for_lives(3, "JOINING", "SERVING", "DRAINING", "LEFT")
    else:
        site.cluster.wait_for_state(agents.job, "CANCELLED")
        wait_until(
            lambda: {life[-1] for life in site.lives().values()} <= {"LEFT", "DOWN"},
            "the end of all",
            within_s=30,
        )
