"""Builds what hangs on the mesh of one test."""

import contextlib

from tests.integration.data.carriers import Scene, gateway_of
from tests.integration.data.fabric import Fabric
from tests.integration.data.raw_engine import RawEngine, Script

from opentela.mesh.identity import Identity
from opentela.stream.caller import CallerSettings
from opentela.supervisor.gateway import GatewaySettings
from opentela.tasks import Tasks
from opentela.testing.mesh import TestMesh


class Builder:
    """Builds a fabric over the test's mesh, with an engine that follows a script.

    Attributes:
        way: What carries the frames; the channel is there when a fabric is returned.
    """

    def __init__(
        self, mesh: TestMesh, stack: contextlib.AsyncExitStack, tasks: Tasks, way: str
    ) -> None:
        self.mesh = mesh
        self.stack = stack
        self.tasks = tasks
        self.way = way

    async def __call__(
        self,
        script: Script,
        *,
        caller: CallerSettings | None = None,
        gateway: GatewaySettings | None = None,
        api_key: str = "",
    ) -> tuple[Fabric, RawEngine]:
        engine = await self.stack.enter_async_context(RawEngine(script))
        key = Identity.new()
        fabric = await Fabric.open(
            self.mesh,
            engine.address,
            self.stack,
            caller=caller,
            gateway=gateway_of(self.way, gateway),
            api_key=api_key,
            provider=key,
            spawn=self.tasks.spawn,
        )
        scene = Scene(fabric, engine, self.tasks, key=key, way=self.way)
        await scene.open(self.stack)
        await scene.connect()
        return fabric, engine
