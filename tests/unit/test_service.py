"""How a process begins, is told to stop, and ends: seen from outside, on real processes."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from opentela import service
from opentela.explain import warn

PRELUDE = """
import asyncio
from opentela import service
from opentela.core.errors import ConfigError, PortInUseError
"""

Start = Callable[[str], "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    running: list[subprocess.Popen[str]] = []

    def begin(body: str) -> "subprocess.Popen[str]":
        lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
        source = f"{PRELUDE}\nasync def main(life):\n{lines}\nservice.run(main, name='router')\n"
        running.append(
            subprocess.Popen(
                [sys.executable, "-c", source],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        return running[-1]

    yield begin
    for process in running:
        process.kill()
        process.communicate()


def finish(process: "subprocess.Popen[str]") -> tuple[int, str]:
    _, err = process.communicate(timeout=30)
    return process.returncode, err


def wait_until_ready(process: "subprocess.Popen[str]") -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"


def test_a_service_that_returns_has_done_its_work(start: Start) -> None:
    """No signal, no failure: exit 0."""
    assert finish(start("life.ready(flag=True)"))[0] == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_lets_the_service_finish(start: Start, number: signal.Signals) -> None:
    """The service sees `stopping`, finishes what runs, and that is success."""
    process = start("""
print("ready", flush=True)
await life.stopping.wait()
print("drained", flush=True)
""")
    wait_until_ready(process)
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, "drained\n")
    assert "stop_requested" in err


def test_a_signal_and_its_echo_are_one(start: Start) -> None:
    """`timeout` signals its child, then the group that the child is in: nothing is cut short."""
    process = start("""
import os, signal
later = asyncio.Event()
asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, later.set)
for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGUSR1):
    os.kill(os.getpid(), number)
await later.wait()
print("drained", flush=True)
""")
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, "drained\n")
    assert err.count("stop_requested") == 1
    assert "stop_forced" not in err


def test_the_second_signal_ends_it_at_once(start: Start) -> None:
    """A drain that takes too long is cut short; clean-up still runs."""
    process = start("""
service.ECHO_S = 0
print("ready", flush=True)
await life.stopping.wait()
print("ready", flush=True)
try:
    await asyncio.Event().wait()
finally:
    print("cleaned up", flush=True)
""")
    wait_until_ready(process)
    process.send_signal(signal.SIGTERM)
    wait_until_ready(process)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=30)
    assert (process.returncode, out) == (128 + signal.SIGTERM, "cleaned up\n")


def test_clean_up_that_hangs_is_ended_too(start: Start) -> None:
    """Two signals always end a process, whatever its clean-up does."""
    process = start("""
service.ECHO_S = 0
print("ready", flush=True)
await life.stopping.wait()
print("ready", flush=True)
while True:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        print("ready", flush=True)
""")
    wait_until_ready(process)
    process.send_signal(signal.SIGINT)
    wait_until_ready(process)
    process.send_signal(signal.SIGINT)
    wait_until_ready(process)
    process.send_signal(signal.SIGINT)
    assert finish(process)[0] == 128 + signal.SIGINT


def test_an_expected_failure_is_one_line(start: Start) -> None:
    """Out of a task group comes the fault and its remedy, without a traceback."""
    code, err = finish(
        start("""
async def fail():
    raise PortInUseError("127.0.0.1:80 is taken", remedy="choose another")
async with asyncio.TaskGroup() as group:
    group.create_task(fail())
""")
    )
    assert code == 1
    assert err.splitlines()[-1] == "otela router: 127.0.0.1:80 is taken; choose another"
    assert "Traceback" not in err


def test_a_mistake_of_the_caller_exits_with_2(start: Start) -> None:
    """Wrong configuration can be told from bad luck by the exit code."""
    code, err = finish(start("raise ConfigError('queue.depth_max = 0')"))
    assert (code, err) == (2, "otela router: queue.depth_max = 0\n")


def test_a_bug_keeps_its_traceback(start: Start) -> None:
    """What nobody expected is shown whole, even beside an expected failure."""
    code, err = finish(
        start("""
async def fail():
    raise PortInUseError("taken")
async def bug():
    raise KeyError("impossible")
async with asyncio.TaskGroup() as group:
    group.create_task(fail())
    group.create_task(bug())
""")
    )
    assert code == 1
    assert "Traceback" in err
    assert "KeyError: 'impossible'" in err


def test_people_are_told_warnings_in_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    """As failures are; a bug keeps its traceback."""
    lost = {"event": "mesh_lost", "level": "warning", "service": "status", "reason": "closed"}
    warn({"timestamp": "now", **lost}, "status")
    warn({"event": "mesh_handler_failed", "level": "error", "exception": "Trace\nback"}, "otela x")
    assert capsys.readouterr().err.splitlines() == [
        "otela status: warning: mesh lost; reason: closed",
        "otela x: error: mesh handler failed",
        "Trace",
        "back",
    ]


def test_a_command_for_people_tells_no_more_than_warnings() -> None:
    """No log line, whatever else is logged."""
    lines = (
        PRELUDE,
        "from opentela.telemetry.log import get_logger",
        "async def main(life):",
        "    get_logger().info('readiness_changed')",
        "    get_logger().warning('mesh_lost')",
        "service.run_for_people(main, name='status')",
    )
    argv = [sys.executable, "-c", "\n".join(lines)]
    ended = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=30)
    assert ended.stderr == "otela status: warning: mesh lost\n"


def test_output_that_nobody_reads_ends_quietly(start: Start) -> None:
    """`otela events | head -1` prints one event and no complaint."""
    process = start("""
print("ready", flush=True)
while True:
    print("more", flush=True)
""")
    wait_until_ready(process)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    err = process.stderr.read()
    assert process.wait(timeout=30) == 1
    assert "Traceback" not in err


def test_the_clocks_are_those_of_the_host() -> None:
    """Monotonic time goes up and wall time is after 2020."""
    clock = service.SystemClock()
    assert clock.now() <= clock.now()
    assert clock.wall() > 1.5e9
