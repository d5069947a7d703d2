"""Children that end when their parent does, however that ends: the kernel sees to it.

It is the *thread* that started a child whose end counts (PR_SET_PDEATHSIG(2const)): start children
on the event loop's thread, which lasts as long as the process.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Callable
from typing import Final

_PR_SET_PDEATHSIG: Final = 1


def to_this_process() -> Callable[[], None] | None:
    """Return what a child does between fork and exec to be tethered; None where nothing can be.

    It takes no lock: a call into libc, and one look at who the parent is by then.
    """
    if sys.platform != "linux":
        return None
    prctl, parent = ctypes.CDLL(None, use_errno=True).prctl, os.getpid()
    arguments = [ctypes.c_ulong(value) for value in (int(signal.SIGTERM), 0, 0, 0)]

    def tether() -> None:
        prctl(_PR_SET_PDEATHSIG, *arguments)
        if os.getppid() != parent:
            os._exit(1)  # it died before the kernel knew that we care

    return tether
