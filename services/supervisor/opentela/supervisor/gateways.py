"""The gateways of our sessions: one for the present session, and those that still finish."""

import asyncio
from typing import Final

from opentela.core.errors import MeshUnavailableError
from opentela.core.ids import SessionId
from opentela.engine.curfew import Curfew
from opentela.engine.pool import EngineHttp
from opentela.mesh.data_client import DataClient
from opentela.mesh.identity import Identity
from opentela.supervisor.channels import Channels, Spawn
from opentela.supervisor.door import Door
from opentela.supervisor.events import Carried
from opentela.supervisor.gateway import Gateway, GatewaySettings
from opentela.telemetry import log as logs
from opentela.wire.subjects import SessionPath

log: Final = logs.get_logger()


class Gateways:
    """Opens, drains and closes gateways as the machine says.

    Attributes:
        curfew: Until when requests may run.
    """

    def __init__(
        self,
        data: DataClient,
        settings: GatewaySettings,
        spawn: Spawn,
        *,
        provider: Identity | None = None,
        calls_home: bool = True,
        door: Door | None = None,
    ) -> None:
        self._data = data
        self._provider = provider
        self._calls_home = calls_home
        self._door = door
        if door is not None:
            door.find = self._channels_of
        self._settings = settings
        self._spawn = spawn
        self._open: dict[SessionId, Gateway] = {}
        self._received_before = 0
        self.curfew = Curfew()

    def carried(self) -> Carried:
        """Return what all of them carry; bytes never become fewer."""
        running = sum(gateway.in_flight for gateway in self._open.values())
        received = sum(gateway.received for gateway in self._open.values())
        return Carried(running=running, received=self._received_before + received)

    async def open(self, path: SessionPath, engine: EngineHttp) -> None:
        """Take requests for a session."""
        gateway = Gateway(
            self._data,
            path,
            engine,
            settings=self._settings,
            provider=self._provider,
            spawn=self._spawn,
            dials=self._calls_home,
            curfew=self.curfew,
        )
        self._open[path.session] = gateway
        if self._door is not None and gateway.channels is not None:
            gateway.channels.on_announced = self._door.announced
        try:
            await gateway.start()
        except MeshUnavailableError as error:
            # The interest is kept for the next connection.
            log.warning("gateway_opened_without_mesh", session=path.session, reason=str(error))

    def drain(self, path: SessionPath) -> None:
        """Refuse new requests of a session."""
        if gateway := self._open.get(path.session):
            gateway.drain()

    def close(self, path: SessionPath) -> None:
        """Break off what a session still runs."""
        if gateway := self._open.pop(path.session, None):
            gateway.stop()
            self._received_before += gateway.received

    def retire(self, path: SessionPath, limit_s: float) -> None:
        """Let a session's requests finish in the background, for *limit_s* at most."""
        self.drain(path)
        self._spawn(self._retire(path, limit_s))

    def close_all(self) -> None:
        """Break everything off."""
        for gateway in self._open.values():
            gateway.stop()
        self._open.clear()

    def _channels_of(self, session: str) -> Channels | None:
        gateway = self._open.get(SessionId(session))
        return gateway.channels if gateway is not None else None

    async def _retire(self, path: SessionPath, limit_s: float) -> None:
        gateway = self._open.get(path.session)
        if gateway is None:
            return
        try:
            async with asyncio.timeout(limit_s):
                await gateway.wait_idle()
        except TimeoutError:
            log.warning("requests_broken_off", session=path.session, running=gateway.in_flight)
        self.close(path)
