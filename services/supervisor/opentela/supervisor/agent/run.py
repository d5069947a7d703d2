"""An agent put together: mesh, hardware, templates, machine."""

import asyncio
import os
import random
import subprocess
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import msgspec

from opentela.core.errors import ConfigError, EngineError
from opentela.mesh.access import Access
from opentela.mesh.keeper import BusState
from opentela.mesh.nats_bus import NatsBus
from opentela.service import Lifecycle, SystemClock
from opentela.supervisor import command, hardware
from opentela.supervisor import run as supervisors
from opentela.supervisor import walltime as walltimes
from opentela.supervisor.agent import devices as all_devices
from opentela.supervisor.agent import templates
from opentela.supervisor.agent.actions import LaunchReplica
from opentela.supervisor.agent.builtin import TEMPLATES
from opentela.supervisor.agent.config import AgentConfig, TemplateConfig
from opentela.supervisor.agent.devices import Devices, Maker
from opentela.supervisor.agent.events import AgentEvent
from opentela.supervisor.agent.machine import AgentMachine, Allocation
from opentela.supervisor.agent.replica import ReplicaProcess, surroundings
from opentela.supervisor.agent.shell import AgentShell
from opentela.supervisor.claims import Place
from opentela.supervisor.config import SupervisorConfig
from opentela.supervisor.ending import EndFinder
from opentela.supervisor.gpus import AMD_VISIBLE, NVIDIA_VISIBLE
from opentela.supervisor.output import Copier
from opentela.supervisor.ready_file import ReadyFile
from opentela.supervisor.voice import Voice
from opentela.telemetry import log as logs
from opentela.wire.command import AGENT, COMMAND

log: Final = logs.get_logger()

_STDOUT: Final = 1
_ANSWER_WITHIN_S: Final = 20.0
"""For a Python to start and look for a module, on a file server that is slow."""
_TAG_CHARACTERS: Final = 6
_AGENTS_OWN: Final = ("access", "site", "node", "labels", "aliases", "ready_file", "health.listen")
"""Of the supervisor's configuration: what replicas are told otherwise, or must not share."""


async def serve(
    life: Lifecycle, config: AgentConfig, *, access: Access, place: Place, walltime: str
) -> None:
    """Offer the allocation's GPUs and do what placers tell, until we are to leave.

    Raises:
        ConfigError: A setting does not fit this host.
        CredentialError: The mesh refuses the access.
        EngineError: Replicas did not end.
    """
    supervisor = config.supervisor
    clock = SystemClock()
    finder = EndFinder(walltime, os.environ, clock.wall())
    allocation = await _allocation(config, finder, clock.wall())
    machine = AgentMachine(
        config,
        place=place,
        key=access.identity.key,
        allocation=allocation,
        rng=random.SystemRandom(),
        now=clock.now(),
    )
    ready_file = ReadyFile(supervisor.ready_file, wall=clock.wall, on_ready=life.ready)
    shell = AgentShell(machine, clock=clock, on_ready=ready_file.tell)
    async with AsyncExitStack() as stack:
        await life.health.open(supervisor.health)
        life.health.status = shell.status
        copier = Copier(_STDOUT)
        stack.callback(copier.close)
        bus = NatsBus(
            access,
            name=place.node,
            on_state=lambda state, _: shell.mesh_changed(connected=state is BusState.CONNECTED),
        )
        stack.push_async_callback(bus.close)
        await supervisors.end_remains()
        missed = await supervisors.reach([bus])
        _tell_start(allocation)
        await shell.run(
            bus=bus,
            voice=Voice(bus, access, shell.tell),
            launcher=_Launcher(config, allocation, place, copier, is_bounded=bool(walltime)),
            stopping=life.stopping,
            find_end=finder.again,
            beside=[client.open(None) for client in missed],
        )


class _Launcher:
    """Makes replicas of this host."""

    def __init__(
        self,
        config: AgentConfig,
        allocation: Allocation,
        place: Place,
        copier: Copier,
        *,
        is_bounded: bool,
    ) -> None:
        self._config = config
        self._allocation = allocation
        self._place = place
        self._copier = copier
        self._is_bounded = is_bounded

    def launch(
        self, action: LaunchReplica, tell: Callable[[AgentEvent], None]
    ) -> tuple[ReplicaProcess, Coroutine[Any, Any, None]]:
        """Return a replica, and the work that runs it to its end."""
        tag = f"{action.template} {action.start[-_TAG_CHARACTERS:]} | ".encode()
        replica = ReplicaProcess(
            action.start,
            action.launch,
            tell=tell,
            on_line=lambda line: self._copier.write(tag + line + b"\n"),
        )
        environ = surroundings(
            os.environ,
            template=self._allocation.templates[action.template].env,
            devices=all_devices.variables(self._allocation.devices, action.gpus, os.environ),
        )
        return replica, replica.run(self._arguments(action), environ)

    def _arguments(self, action: LaunchReplica) -> list[str]:
        supervisor = self._config.supervisor
        labels = {**supervisor.labels, COMMAND: action.start, AGENT: action.agent}
        words = ["--access", str(Path(supervisor.access).absolute())]
        words += ["--site", self._place.site, "--node", self._place.node]
        if self._is_bounded:
            # Of a job's end each supervisor hears by itself, also when it moves.
            words += ["--walltime", f"@{action.ends_at:.0f}"]
        for key, value in labels.items():
            words += ["--label", f"{key}={value}"]
        for field in overrides(supervisor):
            words += ["--set", field]
        return [*words, "--", *action.argv]


def overrides(config: SupervisorConfig) -> list[str]:
    """Return what a replica's supervisor must be told so that it is configured as *config*.

    Several share a host: each opens a door at a port of its own.
    """
    host, colon, _ = config.door.address.rpartition(":")
    door = msgspec.structs.replace(config.door, address=f"{host}:0" if colon else "")
    config = msgspec.structs.replace(config, door=door)
    return _differences(msgspec.to_builtins(config), msgspec.to_builtins(SupervisorConfig()))


def usable(config: AgentConfig, environ: Mapping[str, str]) -> dict[str, TemplateConfig]:
    """Return the templates that can be asked for: those configured, and ours that work here.

    Raises:
        ConfigError: A configured one is wrong, or there is none at all.
        EngineError: The program of a configured one cannot be run.
    """
    for name, template in config.template.items():
        templates.check(name, template)
        command.check(template.command, environ)
        if template.module and not _has_module(template, environ):
            raise ConfigError(
                f"template.{name}: {template.command[0]} has no module {template.module}",
                remedy="activate the environment that has it",
            )
    found = dict(config.template)
    for name, template in TEMPLATES.items() if config.builtin else ():
        if name not in found and _works(template, environ):
            found[name] = template
    if not found:
        raise ConfigError(
            "no engine was found, and template is empty",
            remedy="load the module or activate the environment of one, or write a template",
        )
    return found


async def _allocation(config: AgentConfig, finder: EndFinder, wall: float) -> Allocation:
    ends_at = await finder.first()
    found = await asyncio.to_thread(_devices, config, os.environ)
    offered = await asyncio.to_thread(usable, config, os.environ)
    plan = walltimes.plan(config.supervisor.walltime, ends_at=ends_at, wall=wall)
    return Allocation(found, offered, plan, can_end_move=finder.can_move)


def _devices(config: AgentConfig, environ: Mapping[str, str]) -> Devices:
    """Return what is offered.

    Raises:
        ConfigError: There is none of it, or it is named in two ways.
    """
    if config.slots and config.gpus:
        raise ConfigError(
            "gpus and slots exclude each other", remedy="slots are for the CPU: omit one of them"
        )
    if config.slots:
        return all_devices.slots(config.slots)
    if found := hardware.nvidia(environ):
        devices = all_devices.of_tools(found, environ, NVIDIA_VISIBLE, Maker.NVIDIA)
    elif found := hardware.amd(environ):
        devices = all_devices.of_tools(found, environ, AMD_VISIBLE, Maker.AMD)
    else:
        devices = all_devices.of_slurm(environ)
    if not devices.ids:
        raise ConfigError(
            "this allocation has no GPU",
            remedy="give --slots N to run N engines on its CPU, or ask for GPUs",
        )
    return all_devices.only(devices, config.gpus)


def _works(template: TemplateConfig, environ: Mapping[str, str]) -> bool:
    try:
        command.check(template.command, environ)
    except EngineError:
        return False
    return not template.module or _has_module(template, environ)


def _has_module(template: TemplateConfig, environ: Mapping[str, str]) -> bool:
    look = (
        f"import importlib.util, sys; sys.exit(not importlib.util.find_spec({template.module!r}))"
    )
    try:
        ran = subprocess.run(  # noqa: S603 - the provider's own program
            [template.command[0], "-c", look],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=dict(environ),
            timeout=_ANSWER_WITHIN_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return ran.returncode == 0


def _differences(given: Mapping[str, Any], usual: Mapping[str, Any], above: str = "") -> list[str]:
    found: list[str] = []
    for name, value in given.items():
        path = f"{above}{name}"
        if path in _AGENTS_OWN or value == usual[name]:
            continue
        if isinstance(value, dict):
            found += _differences(value, usual[name], f"{path}.")
        else:
            # A number or truth value of JSON is one of TOML, too; a text stands as it is.
            shown = value if isinstance(value, str) else msgspec.json.encode(value).decode()
            found.append(f"{path}={shown}")
    return found


def _tell_start(allocation: Allocation) -> None:
    devices, plan = allocation.devices, allocation.walltime
    log.info(
        "agent_started",
        hardware=devices.hardware,
        gpus=list(devices.ids),
        templates=list(allocation.templates),
        walltime_ends_at=plan.ends_at if plan else 0.0,
    )
