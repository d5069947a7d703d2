"""An agent put together: which templates work here, and how replicas are configured."""

import os
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.unit.supervisor.agent.parts import SUPERVISOR, TEMPLATE, config

from opentela import settings
from opentela.core.errors import ConfigError, EngineError
from opentela.supervisor.agent.config import TemplateConfig
from opentela.supervisor.agent.run import overrides, usable
from opentela.supervisor.config import (
    DoorConfig,
    EngineConfig,
    GatewayConfig,
    SupervisorConfig,
    WatchConfig,
)
from opentela.telemetry.config import HealthConfig, LogConfig


def program(folder: Path, name: str, *, exits: int = 0) -> dict[str, str]:
    """Return an environment in which only the program *name* is found."""
    path = folder / name
    path.write_text(f"#!/bin/sh\nexit {exits}\n")
    path.chmod(0o755)
    return {"PATH": str(folder)}


def test_ours_are_offered_where_their_programs_are(tmp_path: Path) -> None:
    """And where a Python has their module; none is told that would fail."""
    assert list(usable(config(), program(tmp_path, "vllm"))) == ["vllm"]
    with_modules = usable(config(), program(tmp_path, "python3"))
    assert list(with_modules) == ["vllm", "sglang", "llamacpp-python"]
    assert list(usable(config(), program(tmp_path, "python3", exits=1))) == ["vllm"]


def test_a_template_of_the_provider_replaces_ours(tmp_path: Path) -> None:
    """And can be all that there is."""
    own = TemplateConfig(command=("vllm", "serve", "{model}", "--mine"))
    environ = program(tmp_path, "vllm")
    assert usable(config(template={"vllm": own}), environ) == {"vllm": own}
    other = TemplateConfig(command=(sys.executable, "{model}"))
    assert list(usable(config(template={"x": other}, builtin=False), environ)) == ["x"]


def test_a_template_that_cannot_work_stops_the_agent(tmp_path: Path) -> None:
    """At start: a placer that is told of it could do nothing about it."""
    environ = {"PATH": str(tmp_path)}
    with pytest.raises(ConfigError, match="no engine was found"):
        usable(config(), environ)
    with pytest.raises(EngineError, match="run: command not found"):
        usable(config(template={"t": TEMPLATE}), environ)
    lacks = TemplateConfig(command=(sys.executable, "{model}"), module="no_such_module")
    with pytest.raises(ConfigError, match="has no module no_such_module"):
        usable(config(template={"t": lacks}), os.environ)


def test_replicas_are_configured_as_the_agent_says() -> None:
    """Except for what is the agent's own, or told them otherwise."""
    given = SupervisorConfig(
        beat_s=0.5,
        engine=EngineConfig(kind="vllm", api_key=False, stop_s=3.5, log_file="/a b/c.log"),
        watch=WatchConfig(failures_max=7),
        gateway=GatewayConfig(calls_home=False),
        health=HealthConfig(token_file="/t"),
        log=LogConfig(form="json"),
    )
    own = replace(
        given,
        access="/me.toml",
        site="a",
        node="n",
        labels={"a": "b"},
        ready_file="/r",
        health=replace(given.health, listen="127.0.0.1:9000"),
    )
    told = settings.load(SupervisorConfig, service="x", environ={}, overrides=overrides(own))
    assert told.value == given
    assert overrides(SupervisorConfig()) == []
    door = SupervisorConfig(door=DoorConfig(address="[::]:8443"))
    assert overrides(door) == ["door.address=[::]:0"]
    assert len(overrides(SUPERVISOR)) > 0
