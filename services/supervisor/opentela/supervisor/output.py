"""What an engine writes: the last lines kept, everything passed on, nobody blocked.

The engine must never wait for whoever reads our stdout, and neither must our event loop: a thread
writes, and what it cannot write in time is dropped and counted.
"""

import os
import queue
import re
import threading
from collections import deque
from typing import Final

QUEUED_CHUNKS_MAX: Final = 256
"""Each of up to 64 KiB: what a reader that pauses for some seconds is worth keeping for."""
LINE_BYTES_MAX: Final = 8192
_CLOSE_WITHIN_S: Final = 1.0
# Progress bars end their lines with a carriage return only.
_ENDS: Final = re.compile(rb"[\r\n]+")


class Lines:
    """Cuts a byte stream into lines, and keeps the last of them."""

    def __init__(self, kept: int) -> None:
        self.tail: deque[str] = deque(maxlen=kept)
        self._rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that *data* completes, without blank ones."""
        *lines, self._rest = _ENDS.split(self._rest + data)
        if len(self._rest) > LINE_BYTES_MAX:
            lines.append(self._rest)
            self._rest = b""
        lines = [line[:LINE_BYTES_MAX] for line in lines if line.strip()]
        self.tail.extend(line.decode(errors="replace") for line in lines)
        return lines

    def finish(self) -> None:
        """Keep what came without a line end, too."""
        self.feed(b"\n")

    @property
    def last(self) -> str:
        """The last line; empty when there is none."""
        return self.tail[-1].strip() if self.tail else ""


class Copier:
    """Copies chunks to a file descriptor from a thread of its own."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._chunks: queue.Queue[bytes | None] = queue.Queue(QUEUED_CHUNKS_MAX)
        self._thread = threading.Thread(target=self._run, name="engine-output", daemon=True)
        self._thread.start()
        self.dropped_bytes = 0

    def write(self, data: bytes) -> None:
        """Pass *data* on soon, or count it as dropped; never waits."""
        try:
            self._chunks.put_nowait(data)
        except queue.Full:
            self.dropped_bytes += len(data)

    def close(self) -> None:
        """Pass on what is queued, unless that takes too long."""
        try:
            self._chunks.put(None, timeout=_CLOSE_WITHIN_S)
        except queue.Full:
            return
        self._thread.join(_CLOSE_WITHIN_S)

    def _run(self) -> None:
        while data := self._chunks.get():
            try:
                _write_all(self._descriptor, data)
            except OSError:
                # Whoever read has gone; the engine goes on, and so do we.
                self._descriptor = _discard()


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _discard() -> int:
    return os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
