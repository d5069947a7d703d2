"""Many nodes in one process: real supervisors with connections of their own, engines played.

`python -m tests.e2e.nodes --count 10 ACCESS…` runs so many supervisors, spread over the
access files, as JSON lines tell. From `BEGIN` on they do what options say: `--offers` lets the
first one offer something else again and again, `--churn-every` lets one after the other leave and
come back as a new session, with new connections.
"""

import argparse
import asyncio
import itertools
import os
import random
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec
import uvloop

from opentela.core.ids import NodeId, ProviderId, SiteId
from opentela.core.record import Lifecycle, ModelOffer
from opentela.mesh import access as accesses
from opentela.mesh.access import Access
from opentela.mesh.data_client import DataClient
from opentela.mesh.keeper import BusState
from opentela.mesh.nats_bus import NatsBus
from opentela.mesh.pulse import Pulse
from opentela.service import SystemClock
from opentela.supervisor.claims import Place
from opentela.supervisor.config import SupervisorConfig
from opentela.supervisor.engine_runner import EngineRunner
from opentela.supervisor.engines.base import EngineLoad, EngineOffer
from opentela.supervisor.events import (
    EngineEnded,
    EngineSpawned,
    EngineWrote,
    Event,
    LoadRead,
    OfferRead,
    ProbeAnswered,
)
from opentela.supervisor.gateway import GatewaySettings
from opentela.supervisor.gateways import Gateways
from opentela.supervisor.machine import Machine
from opentela.supervisor.offer import Terms
from opentela.supervisor.output import Copier
from opentela.supervisor.shell import SupervisorShell
from opentela.supervisor.voice import Voice
from opentela.telemetry import log as logs
from opentela.telemetry.config import LogConfig
from opentela.testing.waiting import until

MODEL: Final = "org/model-8b-instruct"
BEGIN: Final = signal.SIGRTMIN
"""A signal that supervisors do not take for a wish that they leave."""
SERVING_WITHIN_S: Final = 90.0
_STDOUT: Final = 1


class PlayedEngine(EngineRunner):
    """An engine that is there at once, always well, and offers what it is told to."""

    def __init__(self, shell: SupervisorShell) -> None:
        super().__init__(
            (),
            SupervisorConfig(),
            environ={},
            caches={},
            copier=Copier(_STDOUT),
            rng=random.SystemRandom(),
            tell=shell.tell,
            spawn=shell.spawn,
        )
        self._tell_shell = shell.tell
        self._launch = 0
        self._version = 0

    def launch(self, number: int) -> None:
        """Be there at once."""
        self._launch = number
        self._tell_shell(EngineSpawned(number))

    def stop(self, term_s: float) -> None:
        """End at once."""
        self._tell_shell(EngineEnded(self._launch, f"asked to, within {term_s} s"))

    def probe(self) -> None:
        """Be well."""
        self._tell_shell(ProbeAnswered(self._launch))

    def read_offer(self) -> None:
        """Offer one model."""
        self._tell_shell(self._played_offer())

    def read_load(self) -> None:
        """Do nothing."""
        self._tell_shell(LoadRead(self._launch, EngineLoad()))

    def take_output(self) -> EngineWrote | None:
        """Be silent."""

    async def end_at_once(self) -> None:
        """Be gone."""

    def offer_another(self) -> None:
        """Offer the model with another context limit: something that everybody must learn."""
        self._version += 1
        self._tell_shell(self._played_offer())

    def _played_offer(self) -> Event:
        model = ModelOffer(
            name=MODEL,
            context_max=32_768 + self._version,
            quantisation="fp8",
            fingerprint="0123456789abcdef",
        )
        return OfferRead(self._launch, EngineOffer("vllm", (model,), "0.11.0"))


class NodeOfMany:
    """One supervisor with its two connections, from `open` on."""

    def __init__(self, access: Access, name: str) -> None:
        clock = SystemClock()
        self._access = access
        self._name = name
        place = Place(ProviderId(access.provider), SiteId(access.site), NodeId(name))
        self.machine = Machine(
            SupervisorConfig(),
            place=place,
            terms=Terms("vllm", (MODEL,), hardware="NVIDIA H200", gpus=1),
            walltime=None,
            rng=random.SystemRandom(),
            now=clock.now(),
        )
        self.shell = SupervisorShell(
            self.machine, clock=clock, on_ready=lambda _flag, _why: None, shows_output=False
        )
        self.engine = PlayedEngine(self.shell)

    @property
    def is_serving(self) -> bool:
        """Whether the session claims to serve."""
        session = self.machine.session
        return session is not None and session.claim.lifecycle is Lifecycle.SERVING

    @classmethod
    @asynccontextmanager
    async def open(cls, access: Access, name: str) -> AsyncIterator["NodeOfMany"]:
        """Serve; leave in order at the end."""
        node = cls(access, name)
        stopping = asyncio.Event()
        serving = asyncio.create_task(node._serve(stopping))
        try:
            await until(lambda: node.is_serving or serving.done(), name, within_s=SERVING_WITHIN_S)
            yield node
        finally:
            stopping.set()
            await serving

    async def _serve(self, stopping: asyncio.Event) -> None:
        shell = self.shell
        async with (
            NatsBus(
                self._access,
                name=self._name,
                on_state=lambda state, _: shell.mesh_changed(connected=state is BusState.CONNECTED),
            ) as bus,
            DataClient(self._access, name=self._name) as data,
        ):
            await bus.open(None)
            await data.open(None)
            await shell.run(
                runner=self.engine,
                gateways=Gateways(data, GatewaySettings(), shell.spawn),
                voice=Voice(bus, self._access, shell.tell, beats=Pulse(bus, data)),
                stopping=stopping,
            )


class Crowd:
    """All nodes of this process."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._accesses = [accesses.read(path) for path in options.access]
        self._number = itertools.count()
        self._first: NodeOfMany | None = None
        self._replace: list[asyncio.Event] = []

    async def run(self) -> None:
        """Serve until SIGTERM."""
        loop = asyncio.get_running_loop()
        begun, stopping = asyncio.Event(), asyncio.Event()
        loop.add_signal_handler(BEGIN, begun.set)
        loop.add_signal_handler(signal.SIGTERM, stopping.set)
        options = self._options
        async with asyncio.TaskGroup() as group:
            nodes = []
            for number in range(options.count):
                access = self._accesses[number % len(self._accesses)]
                up, replace = asyncio.Event(), asyncio.Event()
                self._replace.append(replace)
                nodes.append(group.create_task(self._keep(access, up, replace)))
                await up.wait()
            tell("serving", nodes=options.count)
            work = group.create_task(self._work(begun))
            await stopping.wait()
            for task in (work, *nodes):
                task.cancel()

    async def _keep(self, access: Access, up: asyncio.Event, replace: asyncio.Event) -> None:
        """Have a node, and another one in its place whenever asked to."""
        with suppress(asyncio.CancelledError):
            while True:
                name = f"{self._options.name}-{os.getpid()}-{next(self._number)}"
                async with NodeOfMany.open(access, name) as node:
                    self._first = self._first or node
                    up.set()
                    await replace.wait()
                    replace.clear()
                tell("replaced", node=name)

    async def _work(self, begun: asyncio.Event) -> None:
        await begun.wait()
        options = self._options
        if options.churn_every:
            for turn in itertools.count():
                await _until_due(options.churn_every)
                self._replace[turn % len(self._replace)].set()
        for _ in range(options.offers):
            await _until_due(options.offer_every * random.uniform(0.5, 1.5))
            self._offer_another()
        tell("offered", count=options.offers)

    def _offer_another(self) -> None:
        node = self._first
        assert node is not None
        session = node.machine.session
        assert session is not None
        incarnation = session.claim.incarnation + 1
        tell("offering", session=session.claim.session, incarnation=incarnation)
        node.engine.offer_another()


async def _until_due(seconds: float) -> None:
    """Return when the next thing of a schedule is due."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await asyncio.Event().wait()


def tell(event: str, **values: object) -> None:
    """Print what happens now."""
    line = {"event": event, "at": time.monotonic(), **values}
    sys.stdout.write(f"{msgspec.json.encode(line).decode()}\n")
    sys.stdout.flush()


def main() -> None:
    """Run as many nodes as are asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.nodes")
    parser.add_argument("access", nargs="+", type=Path)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--name", default="node", help="what names of nodes begin with")
    parser.add_argument("--offers", type=int, default=0, help="how often the first offers anew")
    parser.add_argument("--offer-every", type=float, default=0.2, help="seconds, +-50 percent")
    parser.add_argument("--churn-every", type=float, default=0.0, help="seconds; 0 for never")
    options = parser.parse_args()
    logs.configure(service="nodes", config=LogConfig(level="error"))
    uvloop.run(Crowd(options).run())


if __name__ == "__main__":
    main()
