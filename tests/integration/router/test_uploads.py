"""While a large body comes, everybody else has their turn."""

import asyncio

import pytest
from tests.integration.router.conftest import Bench
from tests.integration.router.raw import post

from opentela.core.pieces import Pieces
from opentela.router.connection import Connection

READ_BYTES_MAX = 256 * 1024
"""Of one read of either loop."""
BODY = b'{"messages":[{"role":"user","content":"' + b"words, " * 1_500_000 + b'"}],"model":"m"}'


class Turns:
    """Counts what connections read, by turns of the loop."""

    def __init__(self, patched: pytest.MonkeyPatch) -> None:
        self.most = self.total = self._now = 0
        received = Connection.data_received

        def counted(connection: Connection, data: bytes) -> None:
            if not self._now:
                asyncio.get_running_loop().call_soon(self._end)
            self._now += len(data)
            received(connection, data)

        # Before there are connections: their transports keep the method.
        patched.setattr(Connection, "data_received", counted)

    def _end(self) -> None:
        self.total += self._now
        self.most, self._now = max(self.most, self._now), 0


@pytest.mark.parametrize("framing", ["length", "chunks"])
async def test_one_read_of_a_large_body_is_all_of_a_turn(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, framing: str
) -> None:
    """However fast it comes; and what was read is passed on as it is, never put together."""
    turns = Turns(monkeypatch)
    monkeypatch.setattr(Pieces, "whole", None)
    client = await bench.client()
    client.send(post(BODY) if framing == "length" else chunked(BODY))
    stream = await bench.opened()
    assert stream.body == BODY
    assert turns.total >= len(BODY)
    assert turns.most <= READ_BYTES_MAX
    stream.answer(b"{}")
    assert (await client.answer()).status == 200


def chunked(body: bytes) -> bytes:
    """Return the request with a body in parts whose number is not known."""
    size = 1_000_000
    parts = [body[at : at + size] for at in range(0, len(body), size)]
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in [*parts, b""])
