"""A child that is tethered ends with its parent, however early that ends."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has it")

STARTS = """
import os, signal, subprocess, sys
from opentela import tether
child = subprocess.Popen(
    [sys.executable, "-c", "import signal; signal.pause()"], preexec_fn=tether.to_this_process()
)
os.kill(os.getpid(), signal.SIGKILL)
"""
ORPHAN = """
import os
from opentela import tether
of_parent = tether.to_this_process()
child = os.fork()
if not child:
    of_parent()
    grandchild = os.fork()
    if not grandchild:
        of_parent()
        os._exit(0)
    os._exit(os.waitstatus_to_exitcode(os.waitpid(grandchild, 0)[1]))
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_child_ends_when_its_parent_is_killed() -> None:
    """The pipe that it has inherited closes."""
    words = [sys.executable, "-c", STARTS]
    done = subprocess.run(words, capture_output=True, timeout=30, check=False)
    assert done.returncode < 0


def test_a_child_that_is_an_orphan_already_does_not_begin() -> None:
    """Its parent died before the kernel was told, and nobody would ever end it."""
    done = subprocess.run([sys.executable, "-c", ORPHAN], timeout=30, check=False)
    assert done.returncode == 1
