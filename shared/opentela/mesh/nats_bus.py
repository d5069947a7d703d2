"""The bus of a running mesh: NATS for control messages, over a connection that is always renewed.

What is published while there is no connection is dropped and counted: a heartbeat of a minute ago
helps nobody, and whoever must be heard says it again when told that the bus is connected.
"""

import random
from collections.abc import Mapping
from typing import Final

from nats import errors
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription as NatsSubscription

from opentela.core.errors import CredentialError, MeshUnavailableError, WireError
from opentela.core.rng import Rng
from opentela.mesh.access import Access, Server
from opentela.mesh.bus import Handler, Message
from opentela.mesh.keeper import CONNECT_TIMEOUT_S, BusState, Keeper, Kept, OnState
from opentela.mesh.nats_connection import BROKEN, Connection, cancellable, unsubscribe
from opentela.telemetry import log as logs
from opentela.telemetry import metrics

log: Final = logs.get_logger()

_STATUS: Final = "Status"
_NO_RESPONDERS: Final = "503"

_dropped: Final = metrics.counter(
    "otela_mesh_messages_dropped_total",
    "Control messages dropped: unsent without a connection, or received faster than handled.",
    ("reason",),
)
_failures: Final = metrics.counter(
    "otela_mesh_handler_failures_total", "Exceptions in handlers of control messages."
)
_denials: Final = metrics.counter(
    "otela_mesh_permission_denials_total", "Subjects that the process was not allowed to use."
)
_losses: Final = metrics.counter(
    "otela_mesh_connections_lost_total", "Connections to the mesh that ended unexpectedly."
)


class _Subscription:
    """Interest that outlives connections."""

    def __init__(self, bus: "NatsBus", subject: str, handler: Handler, queue: str) -> None:
        self._bus = bus
        self._handler = handler
        self.subject: Final = subject
        self.queue: Final = queue
        self.is_wanted = True

    async def deliver(self, message: Msg) -> None:
        """Hand one message to the handler, whose exceptions end here."""
        if not self.is_wanted:
            return
        headers = message.headers or {}
        payload = b"" if headers.get(_STATUS) == _NO_RESPONDERS else message.data
        try:
            self._handler(Message(message.subject, payload, message.reply, headers))
        except Exception as error:
            _failures.inc()
            log.exception("mesh_handler_failed", subject=self.subject, error=repr(error))

    async def unsubscribe(self) -> None:
        """Withdraw the interest."""
        await self._bus.withdraw(self)


class NatsBus(Kept):
    """Publish, subscribe and request over the mesh; made by `connect`."""

    def __init__(
        self, access: Access, *, name: str, on_state: OnState | None = None, rng: Rng | None = None
    ) -> None:
        self._access = access
        self._name = name
        self._subscriptions: dict[_Subscription, NatsSubscription | None] = {}
        self._connection: Connection | None = None
        spread = rng or random.Random()  # noqa: S311  spreads load, guards nothing
        self._keeper = Keeper(
            self, access, name=name, carries="control", rng=spread, on_state=on_state
        )

    @property
    def is_answering(self) -> bool:
        """Whether the server has answered what it was last asked, as far as we can know by now."""
        return self._connection is not None and self._connection.is_answering

    async def publish(
        self,
        subject: str,
        payload: bytes,
        *,
        reply: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Hand a message to the mesh; it is dropped and counted while nobody takes it.

        Raises:
            MeshUnavailableError: The bus is closed.
            WireError: The payload is larger than the mesh carries.
        """
        self._require_open()
        connection = self._connection
        if connection is None or not connection.is_open:
            _dropped.labels("disconnected").inc()
        elif connection.is_congested:
            _dropped.labels("congested").inc()
        else:
            try:
                with cancellable():
                    await connection.publish(
                        subject, payload, reply=reply, headers=dict(headers) if headers else None
                    )
            except errors.MaxPayloadError as error:
                raise WireError(f"{len(payload)} bytes are more than the mesh carries") from error
            except BROKEN:
                _dropped.labels("disconnected").inc()

    async def subscribe(self, subject: str, handler: Handler, *, queue: str = "") -> _Subscription:
        """Call *handler* with each message; the server knows of it when this returns.

        Without a connection the interest is remembered for the next one.

        Raises:
            CredentialError: The access does not allow this subject.
            MeshUnavailableError: The bus is closed.
        """
        self._require_open()
        subscription = _Subscription(self, subject, handler, queue)
        self._subscriptions[subscription] = None
        connection = self._connection
        if connection is not None:
            await self._attach(connection, subscription)
            await connection.round_trip()
            if connection.was_denied(subject):
                del self._subscriptions[subscription]
                raise CredentialError(
                    f"{self._access.role} {self._access.name} may not subscribe to {subject}",
                    remedy="use an access file of the right role",
                )
        return subscription

    async def withdraw(self, subscription: _Subscription) -> None:
        """End a subscription; once is enough, twice does no harm."""
        subscription.is_wanted = False
        await unsubscribe(self._subscriptions.pop(subscription, None))

    async def request(
        self,
        subject: str,
        payload: bytes,
        *,
        timeout_s: float,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        """Return the first answer.

        Raises:
            MeshUnavailableError: No connection, nobody listens, or nobody answered in time.
        """
        self._require_open()
        connection = self._connection
        if connection is None or not connection.is_open:
            raise MeshUnavailableError("there is no connection to the mesh")
        try:
            with cancellable():
                answer = await connection.client.request(
                    subject, payload, timeout=timeout_s, headers=dict(headers) if headers else None
                )
        except errors.NoRespondersError as error:
            raise MeshUnavailableError(f"nobody listens on {subject}") from error
        except errors.TimeoutError as error:
            raise MeshUnavailableError(
                f"nobody answered on {subject} within {timeout_s:g} s"
            ) from error
        except BROKEN as error:
            raise MeshUnavailableError(f"no answer on {subject}: {error}") from error
        if not answer.data:
            # What an empty message means on a reply subject; nobody answers with nothing.
            raise MeshUnavailableError(f"nobody listens on {subject}")
        return answer.data

    async def close(self) -> None:
        """Flush what was published and leave the mesh."""
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
        await self._adopt(
            await Connection.dial(self._access, server, name=self._name, on_error=self._on_error)
        )

    async def until_lost(self) -> Server | None:
        """Return when the connection is lost; name its server if it had gone silent."""
        connection = self._connection
        assert connection is not None
        fault = connection.fault(await connection.until_lost())
        self._connection = None
        _losses.inc()
        self._keeper.lost(fault)
        # One that was restarted is dialled first; where nothing answered, nothing would.
        silent = connection.server if connection.was_silent else None
        await connection.abandon()
        return silent

    # The rest.

    async def _adopt(self, connection: Connection) -> None:
        """Carry every subscription over to *connection*, and use it from now on.

        Raises:
            MeshUnavailableError: It ended meanwhile.
            CredentialError: It ended because the server thought better of it.
        """
        try:
            is_carried = await self._carry_over(connection)
        except BaseException:
            await connection.abandon()
            raise
        if not is_carried:
            await connection.abandon()
            raise connection.fault(connection.ended_by)
        self._connection = connection

    async def _carry_over(self, connection: Connection) -> bool:
        carried: dict[_Subscription, NatsSubscription | None] = {}
        missing = list(self._subscriptions)
        while True:
            for subscription in missing:
                carried[subscription] = await self._attach(connection, subscription)
            if not await connection.round_trip():
                return False
            # Others may have subscribed and unsubscribed while we waited.
            missing = [one for one in self._subscriptions if one not in carried]
            gone = [one for one in carried if one not in self._subscriptions]
            if not missing and not gone:
                return True
            for subscription in gone:
                await unsubscribe(carried.pop(subscription))

    async def _attach(
        self, connection: Connection, subscription: _Subscription
    ) -> NatsSubscription | None:
        try:
            native = await connection.subscribe(
                subscription.subject, subscription.deliver, queue=subscription.queue
            )
        except WireError:
            self._subscriptions.pop(subscription, None)
            raise
        if subscription in self._subscriptions:
            self._subscriptions[subscription] = native
        return native

    def _on_error(self, text: str) -> None:
        if "permissions violation" in text:
            _denials.inc()
            log.warning("mesh_permission_denied", name=self._name, reason=text)
        elif "slow consumer" in text:
            _dropped.labels("slow_consumer").inc()

    def _require_open(self) -> None:
        if self.state is BusState.CLOSED:
            raise MeshUnavailableError("the bus is closed")


async def connect(
    access: Access,
    *,
    name: str,
    timeout_s: float | None = CONNECT_TIMEOUT_S,
    on_state: OnState | None = None,
    rng: Rng | None = None,
) -> NatsBus:
    """Return a bus that is connected, and that connects again for ever when it is not.

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
    bus = NatsBus(access, name=name, on_state=on_state, rng=rng)
    await bus.open(timeout_s)
    return bus
