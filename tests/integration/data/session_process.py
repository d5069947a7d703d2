"""A session in a process of its own, for tests that stop or kill it.

`python -m tests.integration.data.session_process ACCESS PORT ANNOUNCE`
"""

import asyncio
import sys
from pathlib import Path

import uvloop
from tests.integration.data.fabric import PATH

from opentela.engine.pool import EngineAddress, EngineHttp
from opentela.mesh import access as access_files
from opentela.mesh import data_client
from opentela.mesh.identity import Identity
from opentela.stream.callee import CalleeSettings
from opentela.supervisor.gateway import Gateway, GatewaySettings
from opentela.tasks import Tasks

KEEPALIVE_S = 0.1


async def main(access: str, port: str, announce: str) -> None:
    client = await data_client.connect(access_files.read(Path(access)), name="session")
    settings = GatewaySettings(stream=CalleeSettings(keepalive_s=KEEPALIVE_S))
    engine = EngineHttp(EngineAddress("127.0.0.1", int(port)))
    key = Identity.new()
    async with Tasks() as tasks:
        gateway = Gateway(client, PATH, engine, settings=settings, provider=key, spawn=tasks.spawn)
        await gateway.start()
        _announce(Path(announce), key)
        await asyncio.Event().wait()


def _announce(file: Path, key: Identity) -> None:
    """Show the session's public key, at once and whole."""
    part = file.with_suffix(".part")
    part.write_text(key.key)
    part.rename(file)


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
