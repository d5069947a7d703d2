"""A whole router but for the mesh: from a link and a directory to a port that clients use."""

import asyncio
import os
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from opentela.core.clock import Clock
from opentela.core.record import SessionRecord
from opentela.core.rng import Rng
from opentela.router.choosing import Chooser
from opentela.router.config import RouterConfig
from opentela.router.connection import Connection
from opentela.router.desk import Desk
from opentela.router.directory import Directory
from opentela.router.gate import Gate
from opentela.router.journal import Journal
from opentela.router.listening import listen, url_of
from opentela.router.outcomes import Outcomes
from opentela.router.pages import Pages
from opentela.router.paths import Paths
from opentela.router.plugins import policy
from opentela.router.policies.base import Policy
from opentela.router.ports import Link
from opentela.router.sightings import Sightings
from opentela.router.waiting import Waiting
from opentela.telemetry.log import get_logger

log: Final = get_logger()


class Front:
    """The client side of a router, listening from `start` to `stop`.

    Attributes:
        directory: Fed with records by whoever follows the mesh.
        journal: Whose usage records somebody must publish.
        url: Where clients connect, once started.
    """

    def __init__(
        self,
        config: RouterConfig,
        *,
        name: str,
        link: Link,
        clock: Clock,
        rng: Rng,
        metrics_token: bytes | None = None,
    ) -> None:
        self._config = config
        self._readiness = (False, "starting")
        self.directory = Directory(config.providers)
        self.journal = Journal()
        self.outcomes = Outcomes(config.ejection)
        self.sightings = Sightings()
        chosen = policy(config.policy, rng)
        waiting = Waiting(config.wait)
        self.desk = Desk(
            config=config,
            name=name,
            link=link,
            chooser=self._chooser(chosen, waiting),
            policy=chosen,
            outcomes=self.outcomes,
            sightings=self.sightings,
            journal=self.journal,
            waiting=waiting,
            clock=clock,
            rng=rng,
        )
        paths = Paths(config.extra_paths, config.path_prefixes)
        pages = Pages(
            desk=self.desk,
            directory=self.directory,
            paths=paths,
            is_ready=lambda: self._readiness,
            metrics_token=metrics_token,
        )
        self.gate = Gate(
            config=config.listen, desk=self.desk, paths=paths, pages=pages, clock=clock
        )
        self._server: asyncio.Server | None = None
        self.url = ""

    def _chooser(self, chosen: Policy, waiting: Waiting) -> Chooser:
        return Chooser(
            self.directory,
            self.outcomes,
            chosen,
            walltime_margin_s=self._config.walltime_margin_s,
            waiting=waiting,
        )

    def sessions_changed(self, changed: Iterable[SessionRecord]) -> None:
        """Take in what is new of sessions."""
        for session in self.directory.apply(changed, wall=self.desk.clock.wall()):
            self.outcomes.forget(session)
        self.desk.sessions_changed()

    def set_ready(self, flag: bool, reason: str) -> None:  # noqa: FBT001 - reads as a fact
        """State what `/readyz` on the API's port says."""
        self._readiness = (flag, reason)

    async def start(self) -> None:
        """Listen.

        Raises:
            PortInUseError: Somebody else does.
            ConfigError: The address is not one of this host.
        """
        self._server = await listen(self._config.listen, lambda: Connection(self.gate), os.environ)
        self.url = url_of(self._server)
        log.info("router_opened", url=self.url)

    async def drain(self) -> None:
        """Let every client finish and go elsewhere; return when all have gone or time is up."""
        running, config = self.desk.in_flight, self._config
        self.gate.is_closing = True
        try:
            async with asyncio.timeout(config.drain_s):
                if config.drain_notice_s:
                    await asyncio.sleep(config.drain_notice_s)
                if self._server is not None:
                    self._server.close()
                with suppress(TimeoutError):
                    async with asyncio.timeout(config.drain_idle_s):
                        await self.gate.deserted.wait()
                self.gate.close_idle()
                # Also for the last bytes of answers that clients are slow to take.
                await self.gate.deserted.wait()
                await self.desk.wait_idle()
        except TimeoutError:
            log.warning("drain_cut_short", running=self.desk.in_flight)
        else:
            log.info("drained", running=running)

    async def stop(self) -> None:
        """Close everything that is still open."""
        if self._server is not None:
            self._server.close()
        self.gate.close()
        self.desk.alarms.close()
