"""The data plane's client of the mesh: thin, always renewed, and it never loses a word silently.

`publish` returns False when nobody takes the message, so that the stream it belongs to fails at
once and surely. Beside it, control messages go through `NatsBus`, over a connection of their own.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from opentela.core.errors import MeshUnavailableError
from opentela.core.rng import Rng
from opentela.mesh.access import Access, Server
from opentela.mesh.data_connection import DataConnection
from opentela.mesh.keeper import CONNECT_TIMEOUT_S, BusState, Fault, Keeper, Kept, OnState
from opentela.mesh.nats_wire import NO_RESPONDERS, Message
from opentela.mesh.seldom import Seldom
from opentela.telemetry import log as logs
from opentela.telemetry import metrics

log: Final = logs.get_logger()

OnMessage = Callable[[Message], None]
"""Called on the loop, in order of arrival; an exception is logged and counted, and ends here."""

_failures: Final = metrics.counter(
    "otela_mesh_data_handler_failures_total", "Exceptions in handlers of data messages."
)
_untaken: Final = metrics.counter(
    "otela_mesh_data_untaken_total", "Data messages that no connection accepted."
)
_losses: Final = metrics.counter(
    "otela_mesh_data_connections_lost_total", "Data connections that ended unexpectedly."
)
_denials: Final = metrics.counter(
    "otela_mesh_data_permission_denials_total",
    "Data subjects that the process was not allowed to use.",
)


class Watcher(Protocol):
    """Who must know how the connection is; called on the loop."""

    def on_mesh(self, *, connected: bool) -> None:
        """Act on the loss of the connection, or on a new one with every subscription."""

    def on_congested(self, *, congested: bool) -> None:
        """Stop producing, or go on."""


class _Subscription(NamedTuple):
    subject: str
    on_message: OnMessage
    on_no_responders: OnMessage


class DataClient(Kept):
    """Publish and subscribe on the data subjects; made by `connect`."""

    def __init__(
        self, access: Access, *, name: str, on_state: OnState | None = None, rng: Rng | None = None
    ) -> None:
        self._access = access
        self._name = name
        self._on_state = on_state
        self._connection: DataConnection | None = None
        self._subscriptions: dict[int, _Subscription] = {}
        self._last_sid = 0
        self._watchers: list[Watcher] = []
        self._has_lost = asyncio.Event()
        self._logs_denial = Seldom()
        self._was_connected = False
        spread = rng or random.Random()  # noqa: S311  spreads load, guards nothing
        self._keeper = Keeper(
            self, access, name=name, carries="data", rng=spread, on_state=self._tell
        )

    @property
    def is_congested(self) -> bool:
        """Whether the link takes less than is published."""
        return self._connection is not None and self._connection.is_congested

    def watch(self, watcher: Watcher) -> None:
        """Tell *watcher* of what happens to the connection from now on."""
        self._watchers.append(watcher)

    def unwatch(self, watcher: Watcher) -> None:
        """Tell *watcher* nothing more."""
        self._watchers.remove(watcher)

    def publish(self, subject: str, payload: bytes, reply: str = "") -> bool:
        """Hand a message to the mesh; False when it is surely not sent."""
        connection = self._connection
        if connection is not None and connection.publish(subject, payload, reply):
            return True
        _untaken.inc()
        return False

    def carry(self, subject: str, payload: bytes) -> bool:
        """Send a message with a ping, if the connection idles and is due one; False if not sent."""
        connection = self._connection
        return connection is not None and connection.carry(subject, payload)

    def subscribe(
        self, subject: str, on_message: OnMessage, *, on_no_responders: OnMessage | None = None
    ) -> int:
        """Call *on_message* with each message on *subject*, over every connection to come.

        *on_no_responders* is called instead with what the servers say when a message that named
        *subject* as its reply found nobody; without it such words are passed over.

        Returns:
            The number to `unsubscribe` with. The server knows of it after a `round_trip`.
        """
        self._last_sid += 1
        sid = self._last_sid
        self._subscriptions[sid] = _Subscription(subject, on_message, on_no_responders or _ignore)
        if self._connection is not None:
            self._connection.subscribe(subject, sid)
        return sid

    def unsubscribe(self, sid: int) -> None:
        """Withdraw a subscription; nothing of it is delivered from now on."""
        if self._subscriptions.pop(sid, None) is not None and self._connection is not None:
            self._connection.unsubscribe(sid)

    async def round_trip(self) -> None:
        """Return when the server has taken all that was sent and subscribed.

        Raises:
            MeshUnavailableError: There is no connection, or it was lost meanwhile.
        """
        if self._connection is None:
            raise MeshUnavailableError("there is no connection to the mesh")
        await self._connection.round_trip()

    async def close(self) -> None:
        """Send what was published and leave the mesh."""
        connection, self._connection = self._connection, None
        if await self._keeper.close() and connection is not None:
            await connection.leave()

    # What the keeper calls.

    async def dial(self, server: Server) -> None:
        """Connect to *server*, carry every subscription over, and use the connection.

        Raises:
            MeshUnavailableError: It did not take us, or was lost again meanwhile.
            CredentialError: It refuses the access.
        """
        connection = await DataConnection.dial(self._access, server, self, name=self._name)
        await self._carry_over(connection)

    async def until_lost(self) -> Server | None:
        """Return when the connection is lost."""
        await self._has_lost.wait()
        self._has_lost.clear()
        return None

    # What the connection calls.

    def on_message(self, message: Message) -> None:
        """Hand a message to whoever subscribed."""
        subscription = self._subscriptions.get(message.sid)
        if subscription is None:
            return
        try:
            if message.status == NO_RESPONDERS:
                subscription.on_no_responders(message)
            else:
                subscription.on_message(message)
        except Exception as error:
            # It must not reach the socket's callback: the loop would close the connection.
            _failures.inc()
            log.error(  # noqa: TRY400  the traceback is in `exc_info`, the form is ours
                "mesh_handler_failed",
                subject=subscription.subject,
                error=repr(error),
                exc_info=error,
            )

    def on_congested(self, *, congested: bool) -> None:
        """Tell the watchers."""
        for watcher in self._watchers:
            watcher.on_congested(congested=congested)

    def on_refusal(self, text: str) -> None:
        """Count and log what the server does not let us touch."""
        _denials.inc()
        if self._logs_denial.now():
            log.warning("mesh_permission_denied", name=self._name, reason=text)

    def on_lost(self, connection: DataConnection, fault: Fault) -> None:
        """Let every stream know at once, then the keeper."""
        if connection is self._connection:
            self._connection = None
            _losses.inc()
            self._keeper.lost(fault)
            self._has_lost.set()

    # The rest.

    async def _carry_over(self, connection: DataConnection) -> None:
        try:
            carried: set[int] = set()
            while missing := [sid for sid in self._subscriptions if sid not in carried]:
                for sid in missing:
                    connection.subscribe(self._subscriptions[sid].subject, sid)
                carried.update(missing)
                await connection.round_trip()
        except BaseException:
            connection.abandon()
            raise
        if not connection.is_open:
            raise MeshUnavailableError(f"{connection.server.url} went away at once")
        self._connection = connection

    def _tell(self, state: BusState, reason: str) -> None:
        is_connected = state is BusState.CONNECTED
        if is_connected is not self._was_connected:
            self._was_connected = is_connected
            for watcher in tuple(self._watchers):
                watcher.on_mesh(connected=is_connected)
        if self._on_state is not None:
            self._on_state(state, reason)


async def connect(
    access: Access,
    *,
    name: str,
    timeout_s: float | None = CONNECT_TIMEOUT_S,
    on_state: OnState | None = None,
    rng: Rng | None = None,
) -> DataClient:
    """Return a client that is connected, and that connects again for ever when it is not.

    Args:
        access: Who we are and where the servers are; they are tried in that order.
        name: Shown by the server's monitoring.
        timeout_s: For the first connection; None waits for ever.
        on_state: Told of every change after the first connection, and of that one.
        rng: Spreads reconnections; a test hands in a seeded one.

    Raises:
        CredentialError: The mesh refuses the access.
        MeshUnavailableError: No server answers in time.
    """
    client = DataClient(access, name=name, on_state=on_state, rng=rng)
    await client.open(timeout_s)
    return client


def _ignore(_: Message) -> None:
    pass
