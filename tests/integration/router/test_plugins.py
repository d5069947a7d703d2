"""Policies are found by name, wherever they are installed."""

import random
import subprocess
import sys
from pathlib import Path

import pytest
from tests.integration.router.conftest import MakeBench
from tests.integration.router.raw import post
from tests.integration.router.test_forwarding import whole
from tests.unit.router.parts import record, session_of

from opentela.core.errors import ConfigError
from opentela.router.config import RouterConfig
from opentela.router.plugins import policy
from opentela.router.policies.least_load import LeastLoad

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "policy"
OURS = ("random", "round_robin", "least_load", "hardware_weighted", "prefix_affinity")


def test_a_policy_is_found_by_its_name() -> None:
    """As an entry point."""
    assert isinstance(policy("least_load", random.Random(1)), LeastLoad)


@pytest.mark.parametrize("name", OURS)
def test_the_policies_of_this_project_are_installed(name: str) -> None:
    """A new one that is not registered would be dead code."""
    assert policy(name, random.Random(1)) is not None


def test_the_default_policy_is_one_of_them() -> None:
    """A router starts without a word on it."""
    assert RouterConfig(access="").policy in OURS


def test_an_unknown_policy_is_named_beside_the_known_ones() -> None:
    """On one line."""
    with pytest.raises(ConfigError) as error:
        policy("best", random.Random(1))
    assert "'best' is not installed" in str(error.value)
    assert all(name in error.value.remedy for name in OURS)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the example's package, as pip installs it."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("site")
    source = tmp_path_factory.mktemp("source")
    for file in EXAMPLE.iterdir():
        if file.is_file():  # a build writes beside its sources
            (source / file.name).write_bytes(file.read_bytes())
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    how = ["--no-deps", "--no-build-isolation", "--target", str(folder), str(source)]
    subprocess.run([*pip, *how], check=True, timeout=60)
    return folder


async def test_a_policy_of_another_package_routes(
    make_bench: MakeBench, installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The example of the documentation, found by nothing but its entry point."""
    monkeypatch.syspath_prepend(str(installed))
    bench = await make_bench(sessions=0, policy="most_time_left")
    bench.link.script = whole
    ends = {number: 4_000_000_000.0 + number for number in range(3)}
    bench.front.directory.apply([record(n, walltime_ends_at=at) for n, at in ends.items()])
    client = await bench.client()
    served = [(await client.ask(post())).headers["x-otela-session"] for _ in range(60)]
    assert served.count(session_of(2)) > served.count(session_of(1)) > served.count(session_of(0))
