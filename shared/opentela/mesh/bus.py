"""What a control shell asks of the mesh; `NatsBus` is real, `MemoryBus` is its verified fake."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple, Protocol, TypeAlias


class Message(NamedTuple):
    """A message as it arrived; an empty payload on a reply subject means "no responders".

    Answers of JetStream, and they alone, say something in headers.
    """

    subject: str
    payload: bytes
    reply: str = ""
    headers: Mapping[str, str] = MappingProxyType({})


Handler: TypeAlias = Callable[[Message], None]
"""Called on the event loop, in order of arrival a subscription; must not block.

An exception of a handler is logged and counted; it never ends the subscription.
"""


class Subscription(Protocol):
    """Interest in a subject, until it is withdrawn."""

    async def unsubscribe(self) -> None:
        """Withdraw the interest."""


class Bus(Protocol):
    """Publish, subscribe and request over the mesh."""

    async def publish(
        self,
        subject: str,
        payload: bytes,
        *,
        reply: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Hand a message to the mesh; nothing is known of its arrival.

        With *reply*, an empty message arrives there when nobody listens on *subject*.

        Raises:
            MeshUnavailableError: The bus is closed.
        """

    async def subscribe(self, subject: str, handler: Handler, *, queue: str = "") -> Subscription:
        """Call *handler* with each message; with *queue*, one member of the group gets it."""

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
            MeshUnavailableError: Nobody listens there, or nobody answered in time.
        """

    async def close(self) -> None:
        """Flush what was published and leave the mesh."""
