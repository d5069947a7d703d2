"""What the tests have in common: engines whose words are known, and clients that keep asking."""

import json
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any, Final
from urllib.parse import urlsplit

from tests.e2e import history
from tests.e2e.history import Exchange
from tests.e2e.processes import GaveUpError, descendants, signal_all, wait_until
from tests.e2e.product import Place, Product, Service

MODEL: Final = "tiny"
TOKENS: Final = 16
_WORDS: Final = 64


def words(name: str) -> list[str]:
    """Return the tokens of the engine *name*: no two alike, none of another engine's."""
    return [f"{name}-{index} " for index in range(_WORDS)]


def fake_engine(name: str, *, ttft_ms: float = 100, tpot_ms: float = 20) -> list[str]:
    """Return the command of a scripted engine whose answers tell who gave them."""
    return [
        *(sys.executable, "-m", "opentela.testing.fake_engine", "--port", "{port}"),
        *("--model", MODEL, "--owned-by", "vllm", "--tokens", str(_WORDS)),
        *("--ttft-ms", str(ttft_ms), "--tpot-ms", str(tpot_ms)),
        *("--script", json.dumps({"text": words(name)})),
    ]


def llama_engine(alias: str = MODEL) -> list[str]:
    """Return the command of a real llama.cpp with a small instruct model."""
    return [
        *(sys.executable, "-m", "opentela.testing.llama_engine", "--port", "{port}"),
        *("--alias", alias),
    ]


def expected(exchange: Exchange) -> str:
    """Return the whole answer of the engine that wrote this one; a real engine's is its own."""
    name, dash, _ = exchange.text.partition("-")
    if not exchange.text:
        return ""
    return "".join(words(name)[:TOKENS]) if dash and name.isalnum() else exchange.text


def author(exchange: Exchange) -> str:
    """Return the name of the scripted engine that answered."""
    return exchange.text.partition("-")[0]


class Engine:
    """A supervisor with its engine, as tests need it.

    Attributes:
        service: The supervisor.
    """

    def __init__(self, service: Service) -> None:
        self.service = service

    @property
    def session(self) -> str:
        """The present session."""
        return str(self.service.status()["session"])

    @property
    def engine_pid(self) -> int:
        """The engine's process."""
        return int(self.service.status()["engine"]["pid"])

    @property
    def running(self) -> int:
        """Requests that the supervisor carries."""
        return int(self.service.status()["running"])

    def script(self, **fields: object) -> None:
        """Change what a scripted engine does."""
        address = self.service.status()["engine"]["address"]
        self.service.place.fetch(f"http://{address}/control", json.dumps(fields))

    def seen(self) -> Any:
        """Return what a scripted engine saw."""
        address = self.service.status()["engine"]["address"]
        return self.service.place.fetch(f"http://{address}/control/state")


def kill_engine(engine: Engine) -> None:
    """End an engine as an out-of-memory killer would; its supervisor lives."""
    signal_all([engine.engine_pid], signal.SIGKILL)


def freeze_engine(engine: Engine) -> None:
    """Stop an engine as a hung driver would; its supervisor lives."""
    signal_all(descendants(engine.engine_pid), signal.SIGSTOP)


def kill_node(engine: Engine) -> None:
    """End a supervisor and its engine at once, as a power cut would."""
    engine.service.process.send_tree(signal.SIGKILL)


def freeze_node(engine: Engine) -> None:
    """Stop a supervisor and its engine, as a starved or suspended node would."""
    engine.service.process.send_tree(signal.SIGSTOP)


class Asking:
    """One request on a connection of its own, as bytes: what is sent, what came."""

    def __init__(self, router: Service, *, stream: bool) -> None:
        address = urlsplit(router.url)
        body = json.dumps({"model": MODEL, "stream": stream, "messages": []})
        self._socket = socket.create_connection((address.hostname, address.port), timeout=30)
        self.received = b""
        self._socket.sendall(
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: router\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
        )

    def read_deltas(self, count: int) -> None:
        """Read up to event number *count*."""
        self._read_until(lambda received: received.count(b"data:") >= count)

    def read_to_end(self) -> list[str]:
        """Return the data of all events, once the answer has ended as HTTP says."""
        self._read_until(lambda received: received.endswith(b"\r\n0\r\n\r\n"))
        lines = self.received.decode().splitlines()
        return [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]

    def header(self, name: str) -> str:
        """Return a field of the answer's head; empty when there is none."""
        head, _, _ = self.received.partition(b"\r\n\r\n")
        fields = (line.partition(": ") for line in head.decode().splitlines())
        return next((value for field, _, value in fields if field.lower() == name), "")

    def leave(self) -> None:
        """Close the connection, whatever is still to come."""
        self._socket.close()

    def _read_until(self, holds: Callable[[bytes], bool]) -> None:
        while not holds(self.received):
            piece = self._socket.recv(65536)
            assert piece, self.received
            self.received += piece


class Load:
    """A client in the background, and the history that it writes.

    Args:
        count: Requests, or 0 to go on until `finish`.
    """

    def __init__(
        self,
        product: Product,
        router: Service,
        *,
        place: Place | None = None,
        count: int = 0,
        concurrency: int = 8,
        model: str = MODEL,
    ) -> None:
        self.file = product.folder / f"history-{len(product.services)}.jsonl"
        argv = [
            *(sys.executable, "-m", "tests.e2e.client", "--url", router.url, "--model", model),
            *("--history", str(self.file), "--count", str(count), "--tokens", str(TOKENS)),
            *("--concurrency", str(concurrency)),
        ]
        self.started_at = time.monotonic()
        self._service = product.started("client", place or Place(), argv)

    def history(self) -> list[Exchange]:
        """Return what has ended so far."""
        return history.read(self.file)

    def wait_for(
        self, holds: Callable[[list[Exchange]], bool], what: str, *, within_s: float
    ) -> None:
        """Return once *holds* of the history."""
        wait_until(
            lambda: holds(self.history()),
            what,
            within_s=within_s,
            detail=lambda: "\n".join(one.describe() for one in self.history()[-12:]),
        )

    def wait_for_count(self, count: int, *, within_s: float = 60.0) -> None:
        """Return once so many requests have ended."""
        self.wait_for(lambda known: len(known) >= count, f"{count} requests", within_s=within_s)

    def finish(self, *, within_s: float = 90.0) -> list[Exchange]:
        """Let what runs end, and return the whole history."""
        self._service.process.send(signal.SIGTERM)
        return self.complete(within_s=within_s)

    def complete(self, *, within_s: float = 90.0) -> list[Exchange]:
        """Return the whole history of a client that ends by itself."""
        status = self._service.process.wait(within_s)
        if status != 0:
            raise GaveUpError(self._service.process.tail())
        return self.history()


def verify(exchanges: Iterable[Exchange], *, longest_s: float) -> None:
    """Check a history by every rule.

    Raises:
        AssertionError: It breaks some; the message lists them.
    """
    found = history.check(tuple(exchanges), expected=expected, longest_s=longest_s)
    assert not found, history.report(found)
