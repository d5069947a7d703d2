"""Ends what a run of tests leaves behind when it is killed: nothing else can, by then.

Every process below a run carries a variable of that run in its environment, into whatever session,
group or namespace it moves. A small process beside the run waits for the end of a pipe that the run
alone holds open. When that comes, by SIGKILL too, it kills all that still carry the variable, also
those that were stopped by a signal and would not hear any other. Then it removes the folders that
the run made under a name of `folder_prefix`.
"""

import atexit
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from opentela import leftovers

MARK: Final = "OTELA_WARDEN"
_LOOKS_MAX: Final = 50
"""Each finds what was being started at the one before."""
_LOOK_S: Final = 0.1
_WAIT_S: Final = 10.0


def watch() -> str:
    """See to it that nothing outlives this process; return its mark. A second call does nothing."""
    if _watched:
        return _watched[0]
    mark = secrets.token_hex(8)
    read_end, write_end = os.pipe()
    module = [sys.executable, "-P", "-m", "opentela.testing.warden", mark]
    warden = subprocess.Popen(  # noqa: S603 - ourselves
        module, stdin=read_end, start_new_session=True
    )
    os.close(read_end)
    os.environ[MARK] = mark
    _watched.append(mark)

    def end() -> None:
        os.close(write_end)
        warden.wait(_WAIT_S)

    atexit.register(end)
    return mark


def folder_prefix() -> str:
    """Return how names of temporary folders begin that this run's warden removes."""
    return f"otela-{os.environ.get(MARK, 'unwatched')}-"


def sweep(mark: str) -> None:
    """Kill whoever carries *mark*, until nobody does."""
    for _ in range(_LOOKS_MAX):
        found = leftovers.marked(MARK, mark)
        if not found:
            return
        for one in found:
            try:
                os.kill(one.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(_LOOK_S)


def remove_folders(mark: str) -> None:
    """Remove what a run has left in the folder for temporary things."""
    for folder in Path(tempfile.gettempdir()).glob(f"otela-{mark}-*"):
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """Wait for the end of the run whose mark is our argument."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while os.read(0, 1):
        pass
    sweep(sys.argv[1])
    remove_folders(sys.argv[1])


_watched: Final[list[str]] = []

if __name__ == "__main__":
    main()
