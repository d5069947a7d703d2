"""Whoever starts an engine on a terminal reads a few plain lines; a log stays what it is."""

import asyncio
import fcntl
import os
import re
import signal
import struct
import sys
import termios
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.integration.supervisor.conftest import FAKE

from opentela.testing.waiting import until

pytestmark = pytest.mark.nats

COLUMNS = 80
LIFE = ("joined", "started", "serving", "draining", "left", "ended")
ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class Screen:
    """A terminal with a supervisor on it, and all that was written there."""

    def __init__(self) -> None:
        self.written = b""
        self._ours, self.theirs = os.openpty()
        size = struct.pack("HHHH", 24, COLUMNS, 0, 0)
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, size)
        os.set_blocking(self._ours, False)
        asyncio.get_running_loop().add_reader(self._ours, self._read)

    def lines(self) -> list[str]:
        """Return what stood on each line last, without escapes."""
        text = ESCAPES.sub("", self.written.decode(errors="replace"))
        return [line.rpartition("\r")[2] for line in text.replace("\r\n", "\n").split("\n")]

    async def shows(self, words: str) -> None:
        """Return once *words* were written."""
        try:
            await until(lambda: any(words in line for line in self.lines()), words)
        except AssertionError:
            raise AssertionError("\n".join(self.lines())) from None

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._ours)
        os.close(self._ours)

    def _read(self) -> None:
        try:
            self.written += os.read(self._ours, 65536)
        except OSError:  # whoever wrote has gone
            asyncio.get_running_loop().remove_reader(self._ours)


@pytest.fixture
async def screen() -> AsyncIterator[Screen]:
    screen = Screen()
    yield screen
    screen.close()


async def on(screen: Screen, access_file: Path, *argv: str) -> asyncio.subprocess.Process:
    """Start a supervisor on *screen*."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "opentela.cli", "start", "--access", str(access_file)),
        *("--walltime", "2h", "--", *argv),
        stdin=screen.theirs,
        stdout=screen.theirs,
        stderr=screen.theirs,
        env={**os.environ, "TERM": "xterm"},
    )
    os.close(screen.theirs)
    return process


async def test_a_life_is_told_in_lines_that_fit(screen: Screen, access_file: Path) -> None:
    """What is served, how to ask for it, until when; then the end."""
    process = await on(screen, access_file, *FAKE)
    try:
        await screen.shows("serving   tiny, after ")
        await screen.shows("(in 1 h 59 min) or at Ctrl-C")
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    await screen.shows("ended     engine ")
    words = [line[10:19].strip() for line in screen.lines()]
    assert [word for word in words if word in LIFE] == list(LIFE), screen.lines()
    assert max(map(len, screen.lines())) <= COLUMNS


async def test_a_command_that_fails_shows_what_it_wrote(screen: Screen, access_file: Path) -> None:
    """And the last line says what ended the supervisor."""
    process = await on(screen, access_file, "sh", "-c", "echo no GPU is free; exit 3")
    try:
        await screen.shows("otela start: engine exited with status 3: no GPU is free")
        assert await process.wait() == 1
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert " " * 20 + "no GPU is free" in screen.lines()
