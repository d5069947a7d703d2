"""One connection to the mesh, renewed for ever: what both clients do about dialling and loss.

The clients differ in what a connection is; when to dial, where, how long to wait, and what to tell
about it is decided here once.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import StrEnum
from typing import Final, Protocol, Self, TypeAlias

from opentela.core.errors import CredentialError, MeshUnavailableError
from opentela.core.rng import Rng
from opentela.mesh.access import Access, Server
from opentela.mesh.backoff import backoff_s
from opentela.telemetry import log as logs

log: Final = logs.get_logger()

CONNECT_TIMEOUT_S: Final = 10.0
"""For the first connection; a service manager starts a process again that gives up."""
REFUSED_BACKOFF_S: Final = 30.0
"""After a refusal: only a person changes that."""

Fault: TypeAlias = MeshUnavailableError | CredentialError


class BusState(StrEnum):
    """How a client and the mesh are to each other."""

    CONNECTED = "connected"
    DISCONNECTED = "disconnected"
    REFUSED = "refused"  # the credentials are no longer taken
    CLOSED = "closed"


OnState = Callable[[BusState, str], None]
"""Called on the loop with the new state and, where it is bad news, one line of why."""


class Dialler(Protocol):
    """A client, as its keeper sees it."""

    async def dial(self, server: Server) -> None:
        """Connect to *server*, carry every subscription over, and use the connection.

        Raises:
            MeshUnavailableError: It did not take us, or was lost again meanwhile.
            CredentialError: It refuses the access.
        """

    async def until_lost(self) -> Server | None:
        """Return when the connection is lost and put away; name a server to try last, if any."""


class Keeper:
    """Keeps a client connected; the client tells of losses, the keeper of states.

    A process has two: *carries* tells in the log which one is meant, `control` or `data`.

    Attributes:
        state: The latest; never changes after `CLOSED`.
    """

    def __init__(
        self,
        dialler: Dialler,
        access: Access,
        *,
        name: str,
        carries: str,
        rng: Rng,
        on_state: OnState | None,
    ) -> None:
        self._dialler = dialler
        self._access = access
        self._name = name
        self._carries = carries
        self._rng = rng
        self._on_state = on_state
        self._task: asyncio.Task[None] | None = None
        self.state = BusState.DISCONNECTED

    async def open(self, timeout_s: float | None) -> None:
        """Connect for the first time, and stay so until `close`.

        Raises:
            CredentialError: The mesh refuses the access.
            MeshUnavailableError: Nobody answers for *timeout_s*; None waits for ever.
        """
        last: MeshUnavailableError | None = None
        attempt = 0
        try:
            async with asyncio.timeout(timeout_s):
                while self.state is not BusState.CONNECTED:
                    try:
                        await self._dial_any(None)
                    except MeshUnavailableError as error:
                        last = error
                        await asyncio.sleep(backoff_s(attempt, self._rng))
                        attempt += 1
        except TimeoutError as error:
            silent = f"{' and '.join(self._access.servers)} did not answer within {timeout_s:g} s"
            raise MeshUnavailableError(
                str(last or silent),
                remedy="check that the hub or leaf runs and that its port can be reached",
            ) from error
        self._task = asyncio.create_task(self._keep(), name=f"mesh:{self._name}")

    async def close(self) -> bool:
        """End the keeping; return False when it had ended before."""
        if self.state is BusState.CLOSED:
            return False
        self._become(BusState.CLOSED, "")
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        return True

    def lost(self, fault: Fault) -> None:
        """Tell why there is no connection; told again for the same state, it stays quiet."""
        refused = isinstance(fault, CredentialError)
        state = BusState.REFUSED if refused else BusState.DISCONNECTED
        if state is not self.state:
            event = "mesh_refused" if refused else "mesh_lost"
            log.warning(event, name=self._name, carries=self._carries, reason=fault.line())
        self._become(state, fault.line())

    async def _keep(self) -> None:
        while True:
            avoided = await self._dialler.until_lost()
            attempt = 0
            while self.state is not BusState.CONNECTED:
                refused = self.state is BusState.REFUSED
                await asyncio.sleep(REFUSED_BACKOFF_S if refused else backoff_s(attempt, self._rng))
                attempt += 1
                try:
                    await self._dial_any(avoided)
                except (MeshUnavailableError, CredentialError) as error:
                    self.lost(error)
                except Exception:
                    # A bug, ours or a library's; a process without a mesh would be worse.
                    log.exception("mesh_dial_failed", name=self._name, carries=self._carries)
                avoided = None

    async def _dial_any(self, avoided: Server | None) -> None:
        """Connect to the first server that takes us, in the order of the access file.

        *avoided* comes last: nothing would answer there for a while.
        """
        fault: Fault | None = None
        for server in sorted(self._access.addresses, key=lambda one: one == avoided):
            try:
                await self._dialler.dial(server)
            except (MeshUnavailableError, CredentialError) as error:
                # A refusal says more than a silence.
                if not isinstance(fault, CredentialError):
                    fault = error
            else:
                self._become(BusState.CONNECTED, "")
                log.info(
                    "mesh_connected", server=server.url, name=self._name, carries=self._carries
                )
                return
        assert fault is not None, "an access has servers"
        raise fault

    def _become(self, state: BusState, reason: str) -> None:
        if state is not self.state and self.state is not BusState.CLOSED:
            self.state = state
            if self._on_state is not None:
                self._on_state(state, reason)


class Kept(ABC):
    """What both clients are beside their messages; each makes its keeper."""

    _keeper: Keeper

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def state(self) -> BusState:
        """How we and the mesh are to each other."""
        return self._keeper.state

    @property
    def is_connected(self) -> bool:
        """Whether a server of the mesh has us, and we have every subscription there."""
        return self.state is BusState.CONNECTED

    async def open(self, timeout_s: float | None) -> None:
        """Connect for the first time, and stay so until `close`.

        Raises:
            CredentialError: The mesh refuses the access.
            MeshUnavailableError: Nobody answers for *timeout_s*; None waits for ever.
        """
        await self._keeper.open(timeout_s)

    @abstractmethod
    async def close(self) -> None:
        """Send what was published and leave the mesh."""
