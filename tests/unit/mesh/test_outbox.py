"""What leaves on one connection: soon, and in as few writes as that allows."""

import asyncio

import uvloop

from opentela.mesh.outbox import Outbox
from opentela.testing.waiting import until


async def _send_in_turns() -> list[bytes]:
    """Send three words in one turn of the loop, and one in a later one."""
    written: list[bytes] = []
    outbox = Outbox(written.append)
    for word in (b"a", b"b", b"c"):
        outbox.send(word)
    assert written == [b"a"]
    assert outbox.waiting_bytes == 2
    await until(lambda: outbox.waiting_bytes == 0, "the end of the turn")
    outbox.send(b"d")
    return written


def test_the_first_of_a_turn_leaves_at_once_and_the_rest_together() -> None:
    """On the loop of the product, whose time stands still within a turn."""
    assert uvloop.run(_send_in_turns()) == [b"a", b"bc", b"d"]


async def test_nothing_is_lost_or_late_where_time_goes_on_within_a_turn() -> None:
    """On a loop that tells another time at each look."""
    written: list[bytes] = []
    outbox = Outbox(written.append)
    for word in (b"a", b"b", b"c"):
        outbox.send(word)
    await asyncio.sleep(0)
    assert b"".join(written) == b"abc"
    assert outbox.waiting_bytes == 0
