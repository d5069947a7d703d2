"""Whole requests and answers in one call, against the same in steps: nobody can tell which it was.

A script says what a client sends, what engines answer, and when either breaks off. It is played
with everything as it is, with nothing taken but event by event, and with reads cut anywhere. What
the client and the engines got, the books and the counters must be the same, over every carrier.
"""

import json
import random
from typing import Final

import pytest
from tests.property.one_call import CARRIERS, HELD_BYTES, Op, Script, in_steps, played

SEEDS: Final = 25
"""A carrier, of some 10 ms each way of playing."""
DELTA: Final = b'data: {"choices":[{"index":0,"delta":{"content":"\xc3\xa9"}}]}\n\n'
STOP: Final = b'data: {"choices":[{"index":0,"finish_reason":"stop"}]}\r\n\r\n'
USAGE: Final = b'data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4}}\n\n'
DONE: Final = b"data: [DONE]\n\n"
WHOLE: Final = b'{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3}}'


class Draw:
    """Draws scripts that are mostly as they should be."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)

    def script(self) -> Script:
        """Return one."""
        rng = self._rng
        if rng.random() < 0.2:
            return self._steady()
        sent = tuple(self._request() for _ in range(rng.choice((1, 2, 3, 6))))
        answers = tuple(self._answer() for _ in range(rng.choice((1, 1, 2, 4))))
        # How far the next ones are when a client leaves is a matter of time.
        leaves = any(op == ("leave",) for ops in answers for op in ops)
        return Script(sent, rng.random() < 0.3 and not leaves, answers)

    def _steady(self) -> Script:
        """Return one of a client and engines that say the same again and again, but for lengths."""
        rng = self._rng
        head = b"HTTP/1.1 %d Odd\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
        status = rng.choice((200, 201, 302, 400, 404, 429, 500))
        asked = b"POST /v1/embeddings HTTP/1.1\r\nhost: r\r\ncontent-length: %d\r\n\r\n%b"
        bodies = [b'{"model":"m","input":"%b"}' % (b"x" * rng.randrange(12)) for _ in range(7)]
        answers = [WHOLE + b" " * rng.randrange(50) for _ in range(7)]
        return Script(
            tuple(asked % (len(body), body) for body in bodies),
            rng.random() < 0.5,
            tuple((("send", head % (status, len(body)) + body),) for body in answers),
        )

    def _request(self) -> bytes:
        rng = self._rng
        line = rng.choice(
            (
                *(b"POST /v1/chat/completions",) * 6,
                *(b"POST /v1/embeddings", b"POST /v1/responses"),
                *(b"GET /v1/things", b"HEAD /v1/things", b"POST /nowhere"),
            )
        )
        version = b"HTTP/1.0" if rng.random() < 0.1 else b"HTTP/1.1"
        fields = [b"host: r", b"content-type: application/json"]
        if rng.random() < 0.1:
            fields.append(b"connection: close")
        body = b""
        if line.startswith(b"POST"):
            asked: dict[str, object] = {"model": "m", "stream": rng.random() < 0.5}
            if rng.random() < 0.1:
                count = rng.choice((200, 14_000, 80_000))
                asked["messages"] = " ".join(map(str, range(count)))
            body = json.dumps(asked).encode()
            fields.append(b"content-length: %d" % len(body))
        return b"\r\n".join((b"%b %b" % (line, version), *fields, b"", body))

    def _body(self, *, events: bool) -> bytes:
        rng = self._rng
        if not events:
            large = HELD_BYTES + rng.choice((-1, 1, 20_000, 300_000))
            return rng.choice((b"", *(WHOLE,) * 6, b"{}", b"not json", b"x" * large))
        parts = [DELTA] * rng.choice((0, 1, 5, 5, 40, 40, 5000)) + [STOP, USAGE, DONE]
        if rng.random() < 0.3:
            del parts[rng.randrange(len(parts)) :]
        return b"".join(parts)[: -1 if rng.random() < 0.1 else None]

    def _answer(self) -> tuple[Op, ...]:
        rng = self._rng
        status = rng.choice((*(200,) * 9, 201, 204, 302, 304, 400, 404, 429, 500, 502, 503))
        events = rng.random() < 0.5
        kind = b"text/event-stream" if events else b"application/json"
        body = self._body(events=events)
        fields = [b"content-type: " + kind, *self._odd_fields()]
        way = rng.random()
        if status in {204, 304}:
            body = b""
        if way < 0.5:
            fields.append(b"content-length: %d" % len(body))
        elif way < 0.9:
            fields.append(b"transfer-encoding: chunked")
            trailer = rng.choice((b"", b"x-trailer: 1\r\n"))
            chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            body = b"%b0\r\n%b\r\n" % (chunk, trailer)
        interim = b"HTTP/1.1 103 Early\r\nlink: </x>\r\n\r\n" if rng.random() < 0.1 else b""
        raw = b"\r\n".join((b"HTTP/1.1 %d Odd" % status, *fields, b"", b""))
        ops = self._performed(interim + raw, body, ends=way >= 0.9)
        # Another is asked then, and how far that one is when the client leaves is a matter of time.
        return tuple(op for op in ops if status not in {502, 503} or op != ("leave",))

    def _odd_fields(self) -> list[bytes]:
        odd = (b"x-kept: 1", b"connection: x-hop", b"x-hop: 1", b"connection: close")
        return [one for one in odd if self._rng.random() < 0.1]

    def _performed(self, head: bytes, body: bytes, *, ends: bool) -> tuple[Op, ...]:
        """Return what an engine does: mostly one read, and nothing else."""
        rng, raw = self._rng, head + body
        ops: list[Op] = [("send", raw)]
        way = rng.random()
        if way < 0.2:
            at = rng.randrange(1, len(raw))
            pause: list[Op] = [("pause",)] if rng.random() < 0.5 else []
            ops = [("send", raw[:at]), *pause, ("send", raw[at:])]
        elif way < 0.35:
            at = rng.randrange(len(raw))
            broken: Op = rng.choice((("eof",), ("reset",), ("leave",)))
            ops = [("send", raw[:at]), ("pause",), broken] if at else [broken]
            return tuple(ops)
        elif way < 0.4:
            ops = [("send", raw + b"HTTP/1.1 200 OK\r\n\r\n")]
        if ends or rng.random() < 0.15:
            ops.append(("eof",))
        elif rng.random() < 0.1:
            ops.append(("leave",))
        return tuple(ops)


@pytest.mark.parametrize("carrier", CARRIERS)
def test_one_call_or_many_is_the_same_to_everybody(carrier: str) -> None:
    """Whatever is sent, answered, cut or broken off, and whatever carries it."""
    for seed in range(SEEDS):
        script = Draw(seed).script()
        told = played(script, "mesh")
        assert played(script, carrier) == told, seed
        with in_steps():
            assert played(script, carrier) == told, seed
        assert played(script, carrier, random.Random(seed)) == told, seed
