"""Builds what hangs on the mesh of one test."""

import contextlib

from tests.integration.data.fabric import Fabric
from tests.integration.data.raw_engine import RawEngine, Script

from opentela.stream.caller import CallerSettings
from opentela.supervisor.gateway import GatewaySettings
from opentela.testing.mesh import TestMesh


class Builder:
    """Builds a fabric over the test's mesh, with an engine that follows a script."""

    def __init__(self, mesh: TestMesh, stack: contextlib.AsyncExitStack) -> None:
        self.mesh = mesh
        self.stack = stack

    async def __call__(
        self,
        script: Script,
        *,
        caller: CallerSettings | None = None,
        gateway: GatewaySettings | None = None,
        api_key: str = "",
    ) -> tuple[Fabric, RawEngine]:
        engine = await self.stack.enter_async_context(RawEngine(script))
        fabric = await Fabric.open(
            self.mesh, engine.address, self.stack, caller=caller, gateway=gateway, api_key=api_key
        )
        return fabric, engine
