"""A supervisor put together: mesh, gateways, engine, machine."""

import asyncio
import os
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from typing import Final

import msgspec

from opentela.core.errors import ConfigError, MeshUnavailableError
from opentela.mesh.access import Access
from opentela.mesh.data_client import DataClient
from opentela.mesh.keeper import BusState
from opentela.mesh.nats_bus import NatsBus
from opentela.mesh.pulse import Pulse
from opentela.service import Lifecycle, SystemClock
from opentela.stream.callee import CalleeSettings
from opentela.supervisor import caches, hardware, pod
from opentela.supervisor import walltime as walltimes
from opentela.supervisor.agent.report import Reporter
from opentela.supervisor.claims import Place
from opentela.supervisor.config import GatewayConfig, SupervisorConfig
from opentela.supervisor.door import Door
from opentela.supervisor.ending import EndFinder
from opentela.supervisor.engine_runner import EngineRunner
from opentela.supervisor.engines import adapter_for
from opentela.supervisor.gateway import GatewaySettings
from opentela.supervisor.gateways import Gateways
from opentela.supervisor.machine import Machine
from opentela.supervisor.offer import Terms
from opentela.supervisor.output import Copier
from opentela.supervisor.process import reclaim
from opentela.supervisor.ready_file import ReadyFile
from opentela.supervisor.shell import OnReady, SupervisorShell
from opentela.supervisor.terminal import Terminal
from opentela.supervisor.voice import Voice
from opentela.telemetry import log as logs

log: Final = logs.get_logger()

MESH_WAIT_S: Final = 5.0
"""For the mesh before the engine is started: wrong credentials show within it. A mesh that is only
away for now is waited for while the engine loads."""
_STDOUT: Final = 1


async def serve(
    life: Lifecycle,
    config: SupervisorConfig,
    argv: Sequence[str],
    *,
    access: Access,
    place: Place,
    walltime: str,
    report_to: int | None = None,
    terminal: Terminal | None = None,
) -> None:
    """Run the command *argv* and offer it to the mesh until it fails for good or we are to leave.

    Raises:
        ConfigError: A setting does not fit this host.
        CredentialError: The mesh refuses the access.
        EngineError: The engine failed for good.
    """
    finder = EndFinder(walltime, os.environ, SystemClock().wall())
    config = _as_told(config, finder)
    door = await _opened(config, access)
    machine = await _machine(config, argv, place, finder, door)
    caches_of_node = caches.variables(config.cache, os.environ)
    shell = SupervisorShell(
        machine,
        clock=SystemClock(),
        on_ready=_on_ready(config, life, machine, report_to),
        shows_output=bool(config.health.token_file),
    )
    async with AsyncExitStack() as stack:
        await life.health.open(config.health)
        life.health.status = shell.status
        copier = stack.enter_context(_copier(config, terminal))
        bus = NatsBus(
            access,
            name=place.node,
            on_state=lambda state, _: shell.mesh_changed(connected=state is BusState.CONNECTED),
        )
        data = DataClient(access, name=place.node)
        if door is not None:
            stack.callback(door.close)
        clients: tuple[NatsBus | DataClient, ...] = (bus, data)
        for client in clients:
            stack.push_async_callback(client.close)
        await end_remains()
        missed = await reach(clients)
        runner = _runner(argv, config, caches_of_node, copier, shell)
        told = [terminal.follow(machine, runner)] if terminal is not None else []
        await shell.run(
            runner=runner,
            gateways=_gateways(data, config, access, shell, door),
            voice=Voice(bus, access, shell.tell, beats=Pulse(bus, data)),
            stopping=life.stopping,
            find_end=finder.again,
            beside=[*(client.open(None) for client in missed), *told],
        )


def _on_ready(
    config: SupervisorConfig, life: Lifecycle, machine: Machine, report_to: int | None
) -> OnReady:
    """Return whom to tell how we are: whoever reads the file or the page, and our agent."""
    tell = ReadyFile(config.ready_file, wall=SystemClock().wall, on_ready=life.ready).tell
    return tell if report_to is None else Reporter(report_to).beside(tell, machine)


def _runner(
    argv: Sequence[str],
    config: SupervisorConfig,
    caches_of_node: Mapping[str, str],
    copier: Copier,
    shell: SupervisorShell,
) -> EngineRunner:
    return EngineRunner(
        argv,
        config,
        environ=os.environ,
        caches=caches_of_node,
        copier=copier,
        rng=random.SystemRandom(),
        tell=shell.tell,
        spawn=shell.spawn,
    )


def _gateways(
    data: DataClient,
    config: SupervisorConfig,
    access: Access,
    shell: SupervisorShell,
    door: Door | None,
) -> Gateways:
    return Gateways(
        data,
        gateway_settings(config.gateway),
        shell.spawn,
        provider=access.identity,
        calls_home=config.gateway.calls_home,
        door=door,
    )


def _as_told(config: SupervisorConfig, finder: EndFinder) -> SupervisorConfig:
    """Return *config* with the time to drain that the pod's grace leaves."""
    if finder.pod is None or not finder.pod.grace_s:
        return config
    limit_s = pod.drain_limit_s(finder.pod, stop_s=config.engine.stop_s)
    drain = msgspec.structs.replace(config.drain, limit_s=limit_s)
    return msgspec.structs.replace(config, drain=drain)


async def _machine(
    config: SupervisorConfig,
    argv: Sequence[str],
    place: Place,
    finder: EndFinder,
    door: Door | None,
) -> Machine:
    clock = SystemClock()
    ends_at = await finder.first()
    found = await asyncio.to_thread(hardware.find, os.environ)
    adapter = adapter_for(config.engine.kind, argv)
    return Machine(
        config,
        place=place,
        terms=Terms(
            engine=adapter.name,
            expected=adapter.expected_models(argv),
            aliases=config.aliases,
            labels=config.labels,
            hardware=found.name,
            gpus=found.gpus,
            walltime_ends_at=ends_at,
            door=door.offer if door is not None else None,
        ),
        walltime=walltimes.plan(config.walltime, ends_at=ends_at, wall=clock.wall()),
        # Session nonces come from it, too: they must differ from those of every other process.
        rng=random.SystemRandom(),
        now=clock.now(),
        can_end_move=finder.can_move,
    )


async def _opened(config: SupervisorConfig, access: Access) -> Door | None:
    """Return where routers dial us, if anywhere; our claims name it, so it is opened first."""
    if not config.door.address:
        return None
    door = Door(config.door, provider=access.identity)
    await door.open()
    return door


def gateway_settings(config: GatewayConfig) -> GatewaySettings:
    """Return the limits of each session's gateway."""
    stream = {name: getattr(config, name) for name in CalleeSettings.__struct_fields__}
    return GatewaySettings(
        streams_max=config.streams_max,
        stream=CalleeSettings(**stream),
        lends_engine=config.lends_engine,
    )


async def end_remains() -> None:
    """End what engines of dead supervisors left on this host."""
    killed = await asyncio.to_thread(reclaim)
    if killed:
        log.warning("engine_remains_killed", pids=killed)


async def reach(clients: Sequence[NatsBus | DataClient]) -> list[NatsBus | DataClient]:
    """Connect to the mesh; return what could not, for now.

    Raises:
        CredentialError: The mesh refuses the access.
    """
    missed = []

    async def dial(client: NatsBus | DataClient) -> None:
        try:
            await client.open(MESH_WAIT_S)
        except MeshUnavailableError as error:
            log.warning("mesh_unreachable", reason=str(error))
            missed.append(client)

    async with asyncio.TaskGroup() as group:
        for client in clients:
            group.create_task(dial(client))
    return missed


@contextmanager
def _copier(config: SupervisorConfig, terminal: Terminal | None) -> Iterator[Copier]:
    """Pass the engine's output on to where it shall go."""
    descriptor = _STDOUT
    if terminal is not None and terminal.hides_output:
        descriptor = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    elif config.engine.log_file:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        try:
            descriptor = os.open(config.engine.log_file, flags, 0o600)
        except OSError as error:
            raise ConfigError(
                f"engine.log_file = {config.engine.log_file}: {os.strerror(error.errno or 0)}",
                remedy="name a file that can be written, or leave it empty for stdout",
            ) from error
    copier = Copier(descriptor)
    try:
        yield copier
    finally:
        copier.close()
        if descriptor != _STDOUT:
            os.close(descriptor)
