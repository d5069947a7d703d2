"""A session in a process of its own, for tests that stop or kill it.

`python -m tests.integration.data.session_process ACCESS PORT ANNOUNCE`
"""

import asyncio
import sys
from pathlib import Path

import uvloop
from tests.integration.data.fabric import PATH

from opentela.mesh import access as access_files
from opentela.mesh import data_client
from opentela.stream.callee import CalleeSettings
from opentela.supervisor.engine_http import EngineAddress, EngineHttp
from opentela.supervisor.gateway import Gateway, GatewaySettings

KEEPALIVE_S = 0.1


async def main(access: str, port: str, announce: str) -> None:
    client = await data_client.connect(access_files.read(Path(access)), name="session")
    settings = GatewaySettings(stream=CalleeSettings(keepalive_s=KEEPALIVE_S))
    engine = EngineHttp(EngineAddress("127.0.0.1", int(port)))
    await Gateway(client, PATH, engine, settings=settings).start()
    _announce(Path(announce))
    await asyncio.Event().wait()


def _announce(file: Path) -> None:
    file.write_text("ready")


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
