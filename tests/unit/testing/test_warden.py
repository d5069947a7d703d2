"""Nothing that a run started outlives it, also when it is killed."""

import asyncio
import os
import signal
import sys
import tempfile
from pathlib import Path

from opentela import leftovers
from opentela.testing import warden
from opentela.testing.waiting import until

RUN = """
import os, signal, subprocess, sys, tempfile
from opentela.testing import warden
mark = warden.watch()
assert warden.watch() == mark
code = "import os, signal; print(os.getpid(), flush=True); os.kill(os.getpid(), signal.SIGSTOP)"
words = [sys.executable, "-c", code]
child = subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True)
child.stdout.readline()
folder = tempfile.mkdtemp(prefix=warden.folder_prefix())
open(os.path.join(folder, "file"), "w").close()
print(mark, flush=True)
if "stay" in sys.argv:
    signal.pause()
"""


async def start(*words: str) -> tuple[asyncio.subprocess.Process, str]:
    """Start a run of one child, which is stopped in a session of its own; return its mark too."""
    environ = {name: value for name, value in os.environ.items() if name != warden.MARK}
    run = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", RUN, *words), stdout=asyncio.subprocess.PIPE, env=environ
    )
    assert run.stdout is not None
    return run, (await run.stdout.readline()).decode().strip()


def folders(mark: str) -> list[Path]:
    """Return the temporary folders of a run."""
    return list(Path(tempfile.gettempdir()).glob(f"otela-{mark}-*"))


async def test_what_a_killed_run_started_is_ended_and_what_it_made_removed() -> None:
    """Also what would hear no other signal."""
    run, mark = await start("stay")
    assert len(leftovers.marked(warden.MARK, mark)) == 1
    assert len(folders(mark)) == 1
    run.send_signal(signal.SIGKILL)
    await run.wait()
    await until(lambda: not leftovers.marked(warden.MARK, mark), "the end of the child")
    await until(lambda: not folders(mark), "the end of its folder")


async def test_what_a_run_forgot_is_ended_with_it() -> None:
    """And the warden, too: the run waits for it."""
    run, mark = await start()
    assert await run.wait() == 0
    assert not leftovers.marked(warden.MARK, mark)
    assert not folders(mark)


async def test_this_run_is_watched() -> None:
    """Whatever it starts carries its mark."""
    mark = os.environ[warden.MARK]
    child = await asyncio.create_subprocess_exec("sleep", "60")
    assert [one.pid for one in leftovers.marked(warden.MARK, mark) if one.pid == child.pid]
    child.kill()
    await child.wait()
