"""One connection of nats-py to one server, from its dial to its loss; it never dials again.

nats-py's own reconnection is not used. It waits for unsent bytes on a link that will never take
them, ends for good on an error that the server sends, and its task dies of a proxy's bad answer.
`NatsBus` dials anew instead, and everything that reaches into nats-py for that stands here.
"""

import asyncio
import base64
import contextlib
import ssl
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

import aiohttp
from nats import errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription as NatsSubscription
from nats.aio.transport import WebSocketTransport

from opentela.core.errors import CredentialError, MeshUnavailableError, WireError
from opentela.mesh import jwt_reader
from opentela.mesh.access import Access, Server
from opentela.mesh.keepalive import PING_EVERY_S, Due, KeepAlive
from opentela.wire import subjects

DIAL_TIMEOUT_S: Final = 5.0
"""For one server: name, TCP, TLS and the handshake; three round trips of a slow link fit often."""
ROUND_TRIP_TIMEOUT_S: Final = 5.0
LEAVE_TIMEOUT_S: Final = 2.0
"""What was published last has this long to get out before the socket is cut."""
_WRITE_TURNS_MAX: Final = 8
_SELDOM_S: Final = 86_400.0
"""Between the pings that nats-py sends by itself; a `KeepAlive` asks instead."""
_PING: Final = b"PING\r\n"
BACKLOG_BYTES_MAX: Final = 2 * 1024 * 1024
"""Unsent control messages of one connection; minutes of them, so more means a dead link."""

PENDING_MESSAGES_MAX: Final = 8192
PENDING_BYTES_MAX: Final = 16 * 1024 * 1024
"""Received but not yet handled, one subscription: a loop that is late by a second of full load."""

BROKEN: Final = (errors.Error, OSError, RuntimeError)
"""What nats-py raises on a connection that breaks under it; the last is uvloop's word for a
transport that is closed already."""

_REFUSALS: Final = ("authorization violation", "authentication expired", "authentication revoked")
_DENIED: Final = "permissions violation for subscription"


@contextlib.contextmanager
def cancellable() -> Iterator[None]:
    """Let no cancellation get lost inside the block.

    nats-py swallows some, and so does `asyncio.wait_for` of Python 3.11 when what it waited for
    ends at that very moment. Whoever cancelled us would then wait for ever.
    """
    task = asyncio.current_task()
    assert task is not None
    before = task.cancelling()
    try:
        yield
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        if task.cancelling() > before:
            raise asyncio.CancelledError from error
        raise
    if task.cancelling() > before:
        raise asyncio.CancelledError


class _DialFailed(Exception):  # noqa: N818  never seen outside
    """Breaks nats-py's loop over one server that does not answer."""


class Connection:
    """An open connection; whoever has it calls `leave` or `abandon` once.

    Attributes:
        server: The server at the other end.
        client: nats-py's client, for requests and subscriptions.
        was_silent: The connection was given up because the other side said nothing.
    """

    def __init__(self, access: Access, server: Server, on_error: Callable[[str], None]) -> None:
        self.server: Final = server
        self.client: Final = Client()
        self.was_silent = False
        self._access = access
        self._on_error = on_error
        self._loop = asyncio.get_running_loop()
        self._alive = KeepAlive(self._loop.time(), every_s=PING_EVERY_S)
        self._dialling = True
        self._closed = asyncio.Event()
        self._denied: set[str] = set()

    @classmethod
    async def dial(
        cls, access: Access, server: Server, *, name: str, on_error: Callable[[str], None]
    ) -> "Connection":
        """Return a connection to *server* that it has accepted.

        Raises:
            CredentialError: It refuses the credentials, or its certificate cannot be trusted.
            MeshUnavailableError: It does not answer, or not as a server of the mesh.
        """
        self = cls(access, server, on_error)
        try:
            with cancellable():
                async with asyncio.timeout(DIAL_TIMEOUT_S):
                    await self._dial(name)
        except BaseException as error:
            await self.abandon()
            if isinstance(error, _DialFailed):
                raise self.fault(error.args[0]) from error.args[0]
            if isinstance(error, OSError | errors.Error | aiohttp.ClientError | ValueError):
                raise self.fault(error) from error
            raise
        self._dialling = False
        self._note_what_arrives()
        return self

    async def _dial(self, name: str) -> None:
        identity = self._access.identity
        # The two spans are declared as whole seconds; nats-py takes any number.
        await self.client.connect(
            servers=[self.server.url],
            name=name,
            allow_reconnect=False,
            connect_timeout=DIAL_TIMEOUT_S,  # type: ignore[arg-type]
            ping_interval=_SELDOM_S,  # type: ignore[arg-type]
            error_cb=self._error,
            closed_cb=self._on_closed,
            inbox_prefix=subjects.inbox(self._access.name),
            pending_size=2 * BACKLOG_BYTES_MAX,  # never reached: `is_congested` comes first
            user_jwt_cb=self._access.jwt.encode,
            signature_cb=lambda nonce: base64.b64encode(identity.sign(nonce.encode())),
            tls=self._access.tls() if self.server.is_encrypted else None,
            # Without it whoever sits in between could answer "no TLS here", and be believed.
            tls_handshake_first=self.server.scheme == "tls",
        )

    @property
    def is_open(self) -> bool:
        """Whether messages can be sent."""
        return self.client.is_connected and not self.was_silent

    @property
    def is_answering(self) -> bool:
        """Whether the server has said something since it was last asked to."""
        return self.is_open and not self._alive.is_waiting

    @property
    def is_congested(self) -> bool:
        """Whether the link takes so little that one more message would have to wait."""
        return self.client.pending_data_size > BACKLOG_BYTES_MAX

    async def publish(
        self, subject: str, payload: bytes, *, reply: str, headers: dict[str, str] | None
    ) -> None:
        """Hand a message to the server, and with it the ping that is due soon.

        Raises:
            errors.MaxPayloadError: It is larger than the mesh carries.
        """
        await self.client.publish(subject, payload, reply=reply, headers=headers)
        if self._alive.rides(self._loop.time()):
            await self._ask()

    async def subscribe(
        self, subject: str, deliver: Callable[[Msg], Awaitable[None]], *, queue: str
    ) -> NatsSubscription | None:
        """Return an interest that the server will know of; None if the connection is lost.

        Raises:
            WireError: *subject* is none.
        """
        try:
            with cancellable():
                return await self.client.subscribe(
                    subject,
                    queue=queue,
                    cb=deliver,
                    pending_msgs_limit=PENDING_MESSAGES_MAX,
                    pending_bytes_limit=PENDING_BYTES_MAX,
                )
        except errors.BadSubjectError as error:
            raise WireError(f"{subject!r} is no subject") from error
        except BROKEN:
            return None

    def was_denied(self, subject: str) -> bool:
        """Return, once, whether the server refused interest in *subject*; after a round trip."""
        subject = subject.lower()
        is_denied = subject in self._denied
        self._denied.discard(subject)
        return is_denied

    async def round_trip(self) -> bool:
        """Return whether the server has read, and answered, all that was sent so far."""
        try:
            with cancellable():
                if not await self._is_written():
                    await self.client.flush(timeout=int(ROUND_TRIP_TIMEOUT_S))
                await self.client.flush(timeout=int(ROUND_TRIP_TIMEOUT_S))
        except BROKEN:
            return False
        return self.is_open

    async def _is_written(self) -> bool:
        """Return whether all that was sent is on the socket, where nats-py's next PING follows it.

        nats-py writes a PING past what its own task has yet to write. That needs a few turns of
        the loop; on a link that takes less, the answer to a first PING tells that they have come.
        """
        for _ in range(_WRITE_TURNS_MAX):
            if self.client.pending_data_size == 0:
                return True
            await asyncio.sleep(0)
        return False

    async def until_lost(self) -> Exception:
        """Keep asking the server for signs of life; return why the connection ended, once it has.

        nats-py may find the link dead and then hang on it before it tells: hence the look as well.
        """
        while self.is_open:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(self._alive.wake_at):
                    await self._closed.wait()
            if self.client.is_connected:
                await self._act(self._alive.step(self._loop.time()))
        return self.ended_by

    async def _act(self, due: Due) -> None:
        match due:
            case Due.NOTHING:
                pass
            case Due.PING:
                await self._ask()
            case Due.END:
                self.was_silent = True

    async def _ask(self) -> None:
        """Send a ping, in one piece with what was published last if that is still to be written."""
        client: Any = self.client
        client._pongs.append(self._loop.create_future())  # noqa: SLF001
        if client._pending:  # noqa: SLF001
            client._pending[-1] += _PING  # noqa: SLF001
            client._pending_data_size += len(_PING)  # noqa: SLF001
        else:
            await client._send_command(_PING)  # noqa: SLF001
            await client._flush_pending()  # noqa: SLF001

    def _note_what_arrives(self) -> None:
        transport = self.client._transport  # noqa: SLF001  nats-py tells of messages alone
        assert transport is not None
        read = transport.read

        async def read_and_note(buffer_size: int) -> bytes:
            data = await read(buffer_size)
            self._alive.heard(self._loop.time())
            return data

        transport.read = read_and_note  # type: ignore[method-assign]

    @property
    def ended_by(self) -> Exception:
        """Why the connection has ended."""
        if self.was_silent:
            return errors.StaleConnectionError()
        return self.client.last_error or errors.UnexpectedEOF()

    async def leave(self) -> None:
        """Send what is left and close, within `LEAVE_TIMEOUT_S`."""
        try:
            async with asyncio.timeout(LEAVE_TIMEOUT_S):
                await self.round_trip()
                await self.client.close()
        except BROKEN:  # a time-out is an OSError
            pass  # it would not go in order; now it goes anyhow
        finally:
            await self.abandon()

    async def abandon(self) -> None:
        """Cut the socket and end every task that nats-py has for it."""
        client: Any = self.client
        transport = client._transport  # noqa: SLF001  nats-py has no way to abort
        tasks = [client._reading_task, client._flusher_task, client._ping_interval_task]  # noqa: SLF001
        tasks += [subscription._wait_for_msgs_task for subscription in client._subs.values()]  # noqa: SLF001
        self._fail_waiting()
        current = asyncio.current_task()
        for task in tasks:
            if task is not None and task is not current:
                task.cancel()
        if transport:
            await _cut(transport)

    def fault(self, error: Exception) -> MeshUnavailableError | CredentialError:
        """Return what *error* of this connection means to whoever runs us."""
        access, url = self._access, self.server.url
        distrust = getattr(error, "certificate_error", error)  # aiohttp wraps it
        if isinstance(distrust, ssl.SSLCertVerificationError):
            return CredentialError(
                f"the certificate of {url} cannot be trusted: {distrust.verify_message}",
                remedy="use a server name that it holds, or get an access file with the right ca",
            )
        reason = str(error).removeprefix("nats: ").strip("'") or type(error).__name__
        if any(refusal in reason.lower() for refusal in _REFUSALS):
            return CredentialError(
                f"{url} refuses {access.role} {access.name}: {reason.lower()}",
                remedy=_why_refused(access),
            )
        return MeshUnavailableError(f"{url} does not answer: {reason}")

    async def _error(self, error: Exception) -> None:
        if self._dialling:
            raise _DialFailed(error)
        text = str(error)
        if _DENIED in text:
            self._denied.update(text.split('"')[1::2])
        self._on_error(text)

    async def _on_closed(self) -> None:
        self._closed.set()
        self._fail_waiting()

    def _fail_waiting(self) -> None:
        """End what waits for an answer that cannot come; nats-py lets it run into its time-out."""
        client: Any = self.client
        waiting = [*client._pongs, *getattr(client, "_resp_map", {}).values()]  # noqa: SLF001
        for future in waiting:
            if not future.done():
                future.set_exception(errors.ConnectionClosedError())
                future.exception()  # whoever waited may have given up


async def unsubscribe(native: NatsSubscription | None) -> None:
    """Withdraw an interest; if its connection went first, the interest went with it."""
    if native is not None:
        with contextlib.suppress(*BROKEN), cancellable():
            await native.unsubscribe()


async def _cut(transport: Any) -> None:
    """Cut the socket under nats-py's transport, whichever kind it is, and close that."""
    websocket = getattr(transport, "_ws", None)
    if websocket is None:
        writer = getattr(transport, "_io_writer", None)
    else:
        writer = getattr(websocket, "_writer", None)
    if writer is not None and writer.transport is not None:
        writer.transport.abort()
    # Whatever closing a cut socket says, it is closed.
    with contextlib.suppress(Exception):
        transport.close()
        if isinstance(transport, WebSocketTransport):
            async with asyncio.timeout(LEAVE_TIMEOUT_S):
                await transport.wait_closed()  # type: ignore[no-untyped-call]


def _why_refused(access: Access) -> str:
    expires_at = jwt_reader.expires_at(access.jwt)
    when = (
        f"valid until {datetime.fromtimestamp(expires_at, UTC):%Y-%m-%d %H:%M} UTC, "
        if expires_at
        else ""
    )
    return f"{when}it may have expired or been revoked: ask the operator for a new access file"
