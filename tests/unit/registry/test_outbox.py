"""The outbox: in order, bounded, and not ended by one letter."""

import asyncio
from collections.abc import Mapping

import pytest
from structlog.testing import capture_logs

from opentela.core.errors import WireError
from opentela.mesh.bus import Bus, Handler, Subscription
from opentela.registry import outbox as outboxes
from opentela.registry.letters import Letter
from opentela.registry.outbox import Outbox
from opentela.testing.waiting import until


class Recorder(Bus):
    """A bus that keeps what it is given, and carries no letter to `big`."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, bytes, str, Mapping[str, str] | None]] = []

    async def publish(
        self,
        subject: str,
        payload: bytes,
        *,
        reply: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        if subject == "big":
            raise WireError("too large")
        self.sent.append((subject, payload, reply, headers))

    async def subscribe(self, subject: str, handler: Handler, *, queue: str = "") -> Subscription:
        raise AssertionError

    async def request(
        self,
        subject: str,
        payload: bytes,
        *,
        timeout_s: float,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        raise AssertionError

    async def close(self) -> None:
        raise AssertionError


async def test_letters_are_sent_in_order_with_all_that_they_have() -> None:
    """Also those that are put in later."""
    bus = Recorder()
    outbox = Outbox(bus)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(outbox.run())
        outbox.put(Letter("a", b"1", "r", {"h": "v"}))
        outbox.put(Letter("b", b"2"))
        await until(lambda: len(bus.sent) == 2, "both letters are sent")
        outbox.put(Letter("c", b"3"))
        await until(lambda: len(bus.sent) == 3, "the third letter is sent")
        running.cancel()
    assert bus.sent == [("a", b"1", "r", {"h": "v"}), ("b", b"2", "", None), ("c", b"3", "", None)]


async def test_a_letter_that_is_too_large_does_not_hold_up_the_next() -> None:
    """It is logged: somebody configured the mesh too small."""
    bus = Recorder()
    outbox = Outbox(bus)
    with capture_logs() as logs:
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(outbox.run())
            outbox.put(Letter("big", b""))
            outbox.put(Letter("small", b""))
            await until(lambda: bool(bus.sent), "the small letter is sent")
            running.cancel()
    assert [line["event"] for line in logs] == ["message_unsendable"]


def test_a_full_outbox_drops_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded while the bus stands still."""
    monkeypatch.setattr(outboxes, "LETTERS_MAX", 2)
    outbox = Outbox(Recorder())
    for number in range(3):
        outbox.put(Letter(str(number), b""))
    assert [letter.subject for letter in outbox._letters] == ["0", "1"]
