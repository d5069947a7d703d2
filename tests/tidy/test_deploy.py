"""Units of systemd name commands that exist, and stop no service sooner than it needs."""

import configparser
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.tidy import tree

from opentela.cli import otela
from opentela.router.config import RouterConfig
from opentela.supervisor.config import DrainConfig, EngineConfig

UNITS = sorted((tree.ROOT / "deploy" / "systemd").iterdir())
OTELA = "/opt/opentela/bin/otela"


def service(unit: Path) -> configparser.SectionProxy:
    """Return the part of *unit* on its process."""
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[method-assign,assignment]
    parser.read_string(unit.read_text().replace("\\\n", " "))
    return parser["Service"]


@pytest.mark.parametrize(
    "unit", [one for one in UNITS if one.suffix == ".service"], ids=lambda one: one.name
)
def test_a_unit_runs_a_command_with_options_that_it_has(unit: Path) -> None:
    """Asked for help with the same words, the command does not complain."""
    command, *words = shlex.split(service(unit)["ExecStart"])
    assert command == OTELA
    words = words[: words.index("--")] if "--" in words else words
    words = [word for word in words if not word.endswith((".toml", ".conf"))]
    words = [word for word in words if word not in ("--config", "--access")]
    ended = CliRunner().invoke(otela, [*words, "--help"])
    assert ended.exit_code == 0, ended.output


def test_a_service_has_the_time_that_it_takes_to_stop() -> None:
    """Of the defaults; an engine's requests are finished by its supervisor alone."""
    router, engine = (
        service(next(one for one in UNITS if one.name == name))
        for name in ("otela-router@.service", "otela-engine.service")
    )
    assert float(router["TimeoutStopSec"]) > RouterConfig(access="").drain_s
    leaves_within_s = DrainConfig().limit_s + EngineConfig().stop_s
    assert float(engine["TimeoutStopSec"]) > leaves_within_s
    assert engine["KillMode"] == "mixed"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_accepts_every_unit(tmp_path: Path) -> None:
    """With the command where it is here."""
    here = str(Path(sys.executable).parent / "otela")
    for unit in UNITS:
        (tmp_path / unit.name).write_text(unit.read_text().replace(OTELA, here))
    named = [unit.name.replace("@.", "@1.") for unit in UNITS]
    argv = ["systemd-analyze", "verify", *(str(tmp_path / name) for name in named)]
    ended = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")
