"""The ways beside the mesh on which this router reaches sessions, and what is learnt from them."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import Final

from opentela.core.ids import SessionId
from opentela.core.record import Claim, Lifecycle, SessionRecord, claim_of, lifecycle_of
from opentela.mesh.identity import Identity
from opentela.router.config import RouterConfig
from opentela.router.dialler import Dialler
from opentela.router.home_port import HomePort, finder
from opentela.router.link import MeshLink
from opentela.router.vouching import LOOK_EVERY_S, Vouching
from opentela.tasks import Tasks
from opentela.wire.subjects import SessionPath

Records = Callable[[], Mapping[SessionId, SessionRecord]]
OnChange = Callable[[list[SessionRecord]], None]


class Carriers:
    """Home port and dialler of one router, and whom their channels vouch for.

    Attributes:
        vouching: Says of whom.
    """

    def __init__(
        self, config: RouterConfig, link: MeshLink, *, router: Identity, records: Records
    ) -> None:
        self.vouching: Final = Vouching(link.heard_at)
        self._config = config
        self._link = link
        self._identity = router
        self._records = records
        self._on_change: OnChange = lambda _: None
        self._loop = asyncio.get_running_loop()
        self._look: asyncio.TimerHandle | None = None

    async def start(self, stack: AsyncExitStack, on_change: OnChange) -> None:
        """Let sessions dial, and dial them, until *stack* ends.

        Args:
            stack: What ends all of it.
            on_change: Told of records that are to be judged anew.

        Raises:
            PortInUseError: Somebody else listens on the home port.
        """
        self._on_change = on_change
        self._link.on_channels(lambda _: self._look_now())
        stack.callback(self._stop)
        tasks = await stack.enter_async_context(Tasks())
        if self._config.home.address:
            home = HomePort(
                self._config.home, self._link, router=self._identity, find=finder(self._records)
            )
            await home.start()
            stack.push_async_callback(home.close)
        direct = self._config.direct
        if direct.engine:
            self._link.loans.start()
        if direct.sites or direct.same_host:
            dialler = Dialler(
                direct,
                self._link,
                router=self._identity,
                claim_of=self._claim_of,
                spawn=tasks.spawn,
            )
            dialler.start()
            stack.callback(dialler.close)

    def take(self, changed: list[SessionRecord]) -> None:
        """Take in records, before the directory does."""
        self.vouching.take(self._loop.time(), changed)
        if self._look is None and self.vouching.has_suspects:
            self._look = self._loop.call_later(LOOK_EVERY_S, self._look_now)

    def _look_now(self) -> None:
        if self._look is not None:
            self._look.cancel()
            self._look = None
        changed = self.vouching.look(self._loop.time())
        if changed:
            self._on_change(changed)
        if self.vouching.has_suspects:
            self._look = self._loop.call_later(LOOK_EVERY_S, self._look_now)

    def _stop(self) -> None:
        self._on_change = lambda _: None
        if self._look is not None:
            self._look.cancel()

    def _claim_of(self, path: SessionPath) -> Claim | None:
        record = self._records().get(path.session)
        if record is None or lifecycle_of(record) >= Lifecycle.DOWN:
            return None
        return claim_of(record)
