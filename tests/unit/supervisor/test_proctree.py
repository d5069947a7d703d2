"""Processes are told apart by pid and start, found by ancestry and by mark."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from opentela.supervisor import proctree

SLEEPER = [sys.executable, "-c", "import signal; print(flush=True); signal.pause()"]
PARENT = (
    "import subprocess, sys, signal;"
    "child = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()']);"
    "print(child.pid, flush=True); signal.pause()"
)


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        SLEEPER, stdout=subprocess.PIPE, env={**os.environ, proctree.MARK: "the.mark.0"}
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def test_a_process_is_read_with_parent_and_state(sleeper: subprocess.Popen[bytes]) -> None:
    """Whatever its name holds."""
    found = proctree.read(sleeper.pid)
    assert found is not None
    assert (found.parent, found.is_alive) == (os.getpid(), True)
    assert found.started > 0
    assert proctree.is_same(found)


def test_a_pid_with_another_start_is_another_process(sleeper: subprocess.Popen[bytes]) -> None:
    """Nobody is signalled for having got a pid that was free."""
    found = proctree.read(sleeper.pid)
    assert found is not None
    stranger = found._replace(started=found.started - 1)
    assert not proctree.is_same(stranger)
    assert not proctree.send(stranger, signal.SIGKILL)
    assert sleeper.poll() is None


def test_a_signal_reaches_its_process(sleeper: subprocess.Popen[bytes]) -> None:
    """And afterwards there is nobody to signal."""
    found = proctree.read(sleeper.pid)
    assert found is not None
    assert proctree.send(found, signal.SIGKILL)
    assert sleeper.wait(10) == -signal.SIGKILL
    assert not proctree.send(found, signal.SIGKILL)
    assert proctree.read(found.pid) is None


def test_a_zombie_is_not_alive() -> None:
    """It holds a pid, and nothing else."""
    with subprocess.Popen(["true"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        found = proctree.read(process.pid)
        assert found is not None
        assert not found.is_alive
        assert process.pid not in [one.pid for one in proctree.descendants(os.getpid())]


def test_descendants_are_found_at_any_depth() -> None:
    """Parents come before children."""
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        grandchild = int(parent.stdout.readline())
        pids = [one.pid for one in proctree.descendants(os.getpid())]
        assert pids.index(parent.pid) < pids.index(grandchild)
        os.kill(grandchild, signal.SIGKILL)
        parent.kill()


def test_a_marked_process_is_found_by_its_mark(sleeper: subprocess.Popen[bytes]) -> None:
    """However it has been re-parented."""
    assert [one.pid for one in proctree.marked("the.mark.0")] == [sleeper.pid]
    assert proctree.marked("another.mark.0") == []


def test_what_a_dead_guardian_left_is_abandoned() -> None:
    """What a living one guards is not; marks of other namespaces or of nobody mean nothing."""
    mine = proctree.guardian_mark(os.getpid())
    namespace, pid, started = mine.split(".")
    dead = f"{namespace}.{pid}.{int(started) - 1}"
    marks = [mine, dead, f"1.{pid}.{int(started) - 1}", f"{namespace}.x.1", f"{namespace}.1.x", ""]
    processes = [
        subprocess.Popen(SLEEPER, stdout=subprocess.PIPE, env={**os.environ, proctree.MARK: mark})
        for mark in marks
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            process.stdout.readline()
        ours = {process.pid for process in processes}
        found = {one.pid for one in proctree.abandoned()} & ours
        assert found == {processes[marks.index(dead)].pid}
    finally:
        for process in processes:
            with process:
                process.kill()


def test_a_guardian_that_is_not_there_has_no_mark() -> None:
    """Pid 0 is nobody."""
    with pytest.raises(ProcessLookupError):
        proctree.guardian_mark(0)
