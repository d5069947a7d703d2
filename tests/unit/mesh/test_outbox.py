"""What leaves on one connection: soon, and in order."""

import asyncio

import pytest
import uvloop

from opentela.mesh.outbox import Outbox

WORDS = tuple(b"%d " % number for number in range(100))


async def send_in_turns() -> None:
    """Send many words in one turn of the loop, and as many in a later one."""
    written: list[bytes] = []
    outbox = Outbox(written.append)
    for turn in (1, 2):
        for word in WORDS:
            outbox.send(word)
        assert written[0] == WORDS[0]
        assert sum(map(len, written)) + outbox.waiting_bytes == turn * sum(map(len, WORDS))
        await asyncio.sleep(0)
        assert b"".join(written) == turn * b"".join(WORDS)
        assert outbox.waiting_bytes == 0


def test_the_first_leaves_at_once_and_the_rest_when_the_turn_ends() -> None:
    """On the loop of the product, which tells milliseconds."""
    uvloop.run(send_in_turns())


async def test_what_follows_within_a_millisecond_leaves_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A write for each word would cost more than the word."""
    written: list[bytes] = []
    outbox = Outbox(written.append)
    with monkeypatch.context() as still:
        still.setattr(asyncio.get_running_loop(), "time", lambda: 1.0)
        for word in WORDS:
            outbox.send(word)
    await asyncio.sleep(0)
    assert written == [WORDS[0], b"".join(WORDS[1:])]


async def test_nothing_is_lost_or_late_where_each_look_tells_another_time() -> None:
    """On a loop that tells more."""
    await send_in_turns()
