"""The bus of a running mesh: NATS for control messages, over a connection that is always renewed.

What is published while there is no connection is dropped and counted: a heartbeat of a minute ago
helps nobody, and whoever must be heard says it again when told that the bus is connected.
"""

import asyncio
import random
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final, Self

from nats import errors
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription as NatsSubscription

from opentela.core.errors import CredentialError, MeshUnavailableError, WireError
from opentela.core.rng import Rng
from opentela.mesh.access import Access, Server
from opentela.mesh.backoff import backoff_s
from opentela.mesh.bus import Handler, Message
from opentela.mesh.nats_connection import Connection, cancellable, unsubscribe
from opentela.telemetry import log as logs
from opentela.telemetry import metrics

log: Final = logs.get_logger()

CONNECT_TIMEOUT_S: Final = 10.0
"""For the first connection; a service manager starts a process again that gives up."""
REFUSED_BACKOFF_S: Final = 30.0
"""After a refusal: only a person changes that."""
_STATUS: Final = "Status"
_NO_RESPONDERS: Final = "503"

_dropped: Final = metrics.counter(
    "otela_mesh_messages_dropped_total",
    "Control messages dropped: unsent without a connection, or received faster than handled.",
    ("reason",),
)
_failures: Final = metrics.counter(
    "otela_mesh_handler_failures_total", "Exceptions of handlers of control messages."
)
_denials: Final = metrics.counter(
    "otela_mesh_permission_denials_total", "Subjects that the mesh did not let this process touch."
)
_losses: Final = metrics.counter(
    "otela_mesh_connections_lost_total", "Connections to the mesh that ended against our will."
)


class BusState(StrEnum):
    """How a bus and the mesh are to each other."""

    CONNECTED = "connected"
    DISCONNECTED = "disconnected"
    REFUSED = "refused"  # the credentials are no longer taken
    CLOSED = "closed"


OnState = Callable[[BusState, str], None]
"""Called on the loop with the new state and, where it is bad news, one line of why."""


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


class NatsBus:
    """Publish, subscribe and request over the mesh; made by `connect`."""

    def __init__(
        self, access: Access, *, name: str, on_state: OnState | None = None, rng: Rng | None = None
    ) -> None:
        self._access = access
        self._name = name
        self._on_state = on_state
        self._rng = rng or random.Random()  # noqa: S311  spreads load, guards nothing
        self._subscriptions: dict[_Subscription, NatsSubscription | None] = {}
        self._connection: Connection | None = None
        self._avoided: Server | None = None
        self._keeper: asyncio.Task[None] | None = None
        self.state = BusState.DISCONNECTED

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def is_connected(self) -> bool:
        """Whether a server of the mesh has us, and we have every subscription there."""
        return self.state is BusState.CONNECTED

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
                    await connection.client.publish(
                        subject, payload, reply=reply, headers=dict(headers) if headers else None
                    )
            except errors.MaxPayloadError as error:
                raise WireError(f"{len(payload)} bytes are more than the mesh carries") from error
            except errors.Error:
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

    async def request(self, subject: str, payload: bytes, *, timeout_s: float) -> bytes:
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
                answer = await connection.client.request(subject, payload, timeout=timeout_s)
        except errors.NoRespondersError as error:
            raise MeshUnavailableError(f"nobody listens on {subject}") from error
        except errors.TimeoutError as error:
            raise MeshUnavailableError(
                f"nobody answered on {subject} within {timeout_s:g} s"
            ) from error
        except errors.Error as error:
            raise MeshUnavailableError(f"no answer on {subject}: {error}") from error
        if not answer.data:
            # What an empty message means on a reply subject; nobody answers with nothing.
            raise MeshUnavailableError(f"nobody listens on {subject}")
        return answer.data

    async def close(self) -> None:
        """Flush what was published and leave the mesh."""
        if self.state is BusState.CLOSED:
            return
        connection, self._connection = self._connection, None
        self._become(BusState.CLOSED, "")
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
        if connection is not None:
            await connection.leave()

    async def open(self, timeout_s: float | None) -> None:
        """Connect for the first time, and stay so until `close`.

        Raises:
            CredentialError: The mesh refuses the access.
            MeshUnavailableError: Nobody answers for *timeout_s*; None waits for ever.
        """
        last: Exception | None = None
        try:
            async with asyncio.timeout(timeout_s):
                attempt = 0
                while self._connection is None:
                    try:
                        await self._dial_any()
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
        self._keeper = asyncio.create_task(self._keep(), name=f"mesh:{self._name}")

    async def _keep(self) -> None:
        while True:
            connection = self._connection
            assert connection is not None
            fault = connection.fault(await connection.until_lost())
            self._connection = None
            if connection.was_silent:
                # Nothing would answer there for a while; one that was restarted is dialled first.
                self._avoided = connection.server
            _losses.inc()
            self._lost(fault)
            await connection.abandon()
            await self._redial()

    async def _redial(self) -> None:
        attempt = 0
        while self._connection is None:
            refused = self.state is BusState.REFUSED
            await asyncio.sleep(REFUSED_BACKOFF_S if refused else backoff_s(attempt, self._rng))
            attempt += 1
            try:
                await self._dial_any()
            except (MeshUnavailableError, CredentialError) as error:
                self._lost(error)
            except Exception:
                # A bug, ours or nats-py's; a process without a mesh would be worse than the log.
                log.exception("mesh_dial_failed", name=self._name)

    async def _dial_any(self) -> None:
        """Connect to the first server that takes us, in the order of the access file."""
        fault: MeshUnavailableError | CredentialError | None = None
        avoided, self._avoided = self._avoided, None
        for server in sorted(self._access.addresses, key=lambda one: one == avoided):
            try:
                await self._adopt(
                    await Connection.dial(
                        self._access, server, name=self._name, on_error=self._on_error
                    )
                )
            except (MeshUnavailableError, CredentialError) as error:
                # A refusal says more than a silence.
                if not isinstance(fault, CredentialError):
                    fault = error
            else:
                return
        assert fault is not None, "an access has servers"
        raise fault

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
        self._become(BusState.CONNECTED, "")
        log.info("mesh_connected", server=connection.server.url, name=self._name)

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

    def _lost(self, fault: MeshUnavailableError | CredentialError) -> None:
        refused = isinstance(fault, CredentialError)
        state = BusState.REFUSED if refused else BusState.DISCONNECTED
        if state is not self.state:
            event = "mesh_refused" if refused else "mesh_lost"
            log.warning(event, name=self._name, reason=fault.line())
        self._become(state, fault.line())

    def _become(self, state: BusState, reason: str) -> None:
        if state is not self.state:
            self.state = state
            if self._on_state is not None:
                self._on_state(state, reason)

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
