"""What a link knows of a session from one stream helps it to judge another one."""

import random
import time
from collections.abc import Callable
from typing import cast

import pytest
from tests.integration.data.fabric import Recorder

from opentela.core.ids import ProviderId, SessionId, SiteId
from opentela.mesh.data_client import DataClient
from opentela.mesh.nats_wire import Message
from opentela.router.link import MeshLink
from opentela.router.link_stream import MeshStream
from opentela.stream.caller import CallerSettings
from opentela.wire import frames
from opentela.wire.frames import Credit
from opentela.wire.subjects import SessionPath

BUSY, IDLE = (
    SessionPath(ProviderId("p"), SiteId("s"), SessionId(name)) for name in ("busy", "idle")
)
ACK_S = 100.0
"""Longer than any test: time-outs are looked at, and not waited for."""


class Client:
    """A connection to a mesh on which nothing comes but what a test says."""

    say: Callable[[Message], None]

    def watch(self, _watcher: object) -> None:
        """Know who wants to know."""

    def unwatch(self, _watcher: object) -> None:
        """Know it no more."""

    def subscribe(self, _subject: str, told: Callable[[Message], None], **_: object) -> int:
        """Take note of whom to tell."""
        self.say = told
        return 1

    def unsubscribe(self, _sid: int) -> None:
        """Tell nobody any more."""

    def publish(self, _subject: str, _payload: bytes, _reply: str = "") -> bool:
        """Take a message."""
        return True

    async def round_trip(self) -> None:
        """Nothing is between."""


def ask(link: MeshLink, path: SessionPath) -> MeshStream:
    """Send a request."""
    stream = link.open(
        path,
        method="POST",
        path_and_query="/",
        headers=(),
        body=b"{}",
        deadline_s=0.0,
        trace="",
        sink=Recorder(),
    )
    assert isinstance(stream, MeshStream)
    return stream


@pytest.mark.parametrize(("path", "is_later"), [(BUSY, True), (IDLE, False)])
async def test_who_is_heard_on_one_stream_gets_more_time_on_another(
    path: SessionPath, *, is_later: bool
) -> None:
    """What it owes is behind what it sends; of a session that is not heard, nothing is known."""
    client = Client()
    link = MeshLink(
        cast("DataClient", client),
        role="r",
        rng=random.Random(1),
        settings=CallerSettings(ack_timeout_s=ACK_S, idle_timeout_s=2 * ACK_S),
    )
    await link.start()
    running, waiting = ask(link, BUSY), ask(link, path)
    due = waiting.caller.next_deadline()
    assert due is not None
    before = time.monotonic()
    payload = frames.encode(Credit(running.caller.stream, 0))
    client.say(Message(running.answers, 1, "", payload))
    link._tick(waiting.caller.stream)
    after = waiting.caller.next_deadline()
    assert after is not None
    assert (after >= before + ACK_S) is is_later
    assert (after == due) is not is_later
    link.close()
