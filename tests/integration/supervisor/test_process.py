"""An engine's processes: started as asked, ended to the last child, whoever is killed first."""

import asyncio
import json
import os
import resource
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import (
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from opentela.core.errors import EngineError
from opentela.supervisor import proctree
from opentela.supervisor.agent.events import AgentEvent, Ended, ReplicaEnded
from opentela.supervisor.agent.replica import ReplicaProcess
from opentela.supervisor.process import EngineProcess, reclaim
from opentela.supervisor.proctree import Process
from opentela.testing.fake_engine import SPAWN_MODES
from opentela.testing.waiting import TRIES, UNTIL_S, until

FAKE = [sys.executable, "-m", "opentela.testing.fake_engine", "--port", "0"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal; signal.signal(15, signal.SIG_IGN); print('up', flush=True); signal.pause()",
]


class Started:
    """An engine's process under test, and every process of it that we know."""

    def __init__(self, process: EngineProcess, exits: list[str]) -> None:
        self.process = process
        self.exits = exits
        self.family: list[Process] = []

    @property
    def guardian(self) -> int:
        assert self.process._guardian is not None
        return self.process._guardian.pid

    async def says(self, word: str) -> str:
        """Return the first line with *word*, once the engine has written it."""
        await until(lambda: any(word in line for line in self.process.lines.tail), word)
        return next(line for line in self.process.lines.tail if word in line)

    async def grown(self, members: int) -> list[Process]:
        """Return guardian and descendants, once there are so many."""

        def is_grown() -> bool:
            self.family = proctree.descendants(self.guardian)
            return len(self.family) >= members

        await until(is_grown, f"{members} processes")
        guardian = proctree.read(self.guardian)
        assert guardian is not None
        return [guardian, *self.family]


Start = Callable[..., Awaitable[Started]]


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    async with AsyncExitStack() as stack:

        async def start(argv: list[str], **environ: str) -> Started:
            exits: list[str] = []
            process = EngineProcess(
                tail_lines=50, copier=None, on_line=lambda _: None, on_exit=exits.append
            )
            await process.spawn(argv, {**os.environ, **environ})

            async def end() -> None:
                if not process.has_ended:
                    process.stop(0.0)
                    await process.ended()

            stack.push_async_callback(end)
            return Started(process, exits)

        yield start


def alive(family: list[Process]) -> list[int]:
    return [one.pid for one in family if proctree.is_same(one)]


async def test_arguments_reach_the_engine_word_by_word(start: Start) -> None:
    """No shell: quotes, blanks, dollars, braces, newlines and the empty word are what they are."""
    words = ["a b", "'q'", '"d"', "$HOME", "`id`", "*", "", '{"k": {}}', "é\n;", "--", "-c"]
    code = "import json, sys; print(json.dumps(sys.argv[1:]))"
    started = await start([sys.executable, "-c", code, *words])
    ending = await started.process.ended()
    assert ending.reason.startswith("engine exited with status 0")
    assert json.loads(started.process.lines.tail[0]) == words


async def test_the_engine_starts_with_a_clean_slate(start: Start) -> None:
    """A session of its own, signals as usual, no foreign descriptor, nothing to read."""
    code = """
import json, os, signal, sys
print(json.dumps({
    "leads": os.getsid(0) == os.getpid() == os.getpgid(0),
    "ignored": [n.name for n in signal.Signals
                if n in (1, 2, 3, 10, 12, 13, 15, 17, 25) and signal.getsignal(n) == 1],
    "files": [n for n in os.listdir("/proc/self/fd") if int(n) > 2],
    "stdin": sys.stdin.read(),
    "given": os.environ["GIVEN"],
}))
"""
    started = await start([sys.executable, "-c", code], GIVEN="a=b c")
    await started.process.ended()
    seen = json.loads(started.process.lines.tail[0])
    # Python itself ignores SIGPIPE and SIGXFSZ; the listing of its files is one of them.
    # What schedulers warn every process with is for the supervisor to hear.
    ignored = set(seen.pop("ignored")) - {"SIGPIPE", "SIGXFSZ"}
    assert ignored == {"SIGHUP", "SIGUSR1", "SIGUSR2"}
    assert len(seen.pop("files")) == 1
    assert seen == {"leads": True, "stdin": "", "given": "a=b c"}


@pytest.mark.parametrize("mode", SPAWN_MODES)
async def test_sigterm_ends_the_engine_and_a_child_in_any_session(start: Start, mode: str) -> None:
    """A child that ignores SIGTERM, in another group or session or without its parent, dies too."""
    started = await start([*FAKE, "--spawn", mode])
    await started.says("listening")
    family = await started.grown(2)
    started.process.stop(5.0)
    ending = await started.process.ended()
    assert ending.reason.startswith("engine exited with status 0")
    assert alive(family) == []


async def test_an_engine_that_ignores_sigterm_is_killed_at_its_limit(start: Start) -> None:
    """And not before."""
    started = await start(STUBBORN)
    await started.says("up")
    started.process.stop(60.0)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await started.process.ended()
    started.process.stop(0.1)
    ending = await started.process.ended()
    assert ending.reason == "engine was ended by SIGKILL"


async def test_a_frozen_engine_is_woken_to_end(start: Start) -> None:
    """SIGTERM alone would wait for SIGCONT for ever."""
    started = await start(FAKE)
    await started.says("listening")
    os.kill(started.process.pid, signal.SIGSTOP)
    started.process.stop(30.0)
    assert (await started.process.ended()).reason.startswith("engine exited with status 0")


@pytest.mark.parametrize("mode", SPAWN_MODES)
async def test_what_a_killed_engine_leaves_is_ended(start: Start, mode: str) -> None:
    """SIGKILL to the engine alone: its children are found and ended before it counts as ended."""
    started = await start([*FAKE, "--spawn", mode])
    await started.says("listening")
    family = await started.grown(2)
    os.kill(started.process.pid, signal.SIGKILL)
    ending = await started.process.ended()
    assert ending.reason.startswith("engine was ended by SIGKILL")
    assert not ending.is_hopeless
    assert [one[:27] for one in started.exits] == ["engine was ended by SIGKILL"]
    assert alive(family) == []


@pytest.mark.parametrize("mode", SPAWN_MODES)
async def test_a_killed_guardian_takes_everything_with_it(start: Start, mode: str) -> None:
    """The kernel ends the engine; its children are found by their mark."""
    started = await start([*FAKE, "--spawn", mode])
    await started.says("listening")
    family = await started.grown(2)
    os.kill(started.guardian, signal.SIGKILL)
    ending = await started.process.ended()
    assert ending.reason.startswith("the engine's guardian was killed")
    assert alive(family) == []


async def test_a_frozen_guardian_is_the_kernels_business(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cannot be asked, so it is killed after its time."""
    monkeypatch.setattr("opentela.supervisor.process.STUCK_S", 0.1)
    monkeypatch.setattr("opentela.supervisor.process._GUARDIAN_LATE_S", 0.1)
    started = await start(FAKE)
    await started.says("listening")
    family = await started.grown(1)
    os.kill(started.guardian, signal.SIGSTOP)
    started.process.stop(0.1)
    await started.process.ended()
    assert alive(family) == []


async def test_signals_to_everybody_do_not_end_the_guardian_first(start: Start) -> None:
    """Slurm signals every process of a step."""
    started = await start(STUBBORN)
    await started.says("up")
    family = await started.grown(1)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        os.kill(started.guardian, number)
    assert alive(family) == [started.guardian, started.process.pid]


SUPERVISOR = """
import asyncio, os, sys
from opentela.supervisor.process import EngineProcess

async def main():
    process = EngineProcess(tail_lines=5, copier=None, on_exit=print,
        on_line=lambda line: print(line, flush=True))
    await process.spawn(sys.argv[1:], dict(os.environ))
    await process.ended()

asyncio.run(main())
"""


@asynccontextmanager
async def supervisor(mode: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A supervisor in a process of its own, whose engine listens and has a child."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", SUPERVISOR, *FAKE, "--spawn", mode),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(UNTIL_S):
            while b"listening" not in await process.stdout.readline():
                pass
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.mark.parametrize("mode", SPAWN_MODES)
async def test_a_killed_supervisor_leaves_nothing(mode: str) -> None:
    """SIGKILL to the supervisor: the engine and all its children die too."""
    async with supervisor(mode) as process:
        family = proctree.descendants(process.pid)
        assert len(family) >= 3  # guardian, engine, child
        process.kill()
        await process.wait()
    await until(lambda: alive(family) == [], "the end of all")


async def left_behind() -> list[proctree.Process]:
    """Return an engine and its child after supervisor and guardian were killed: the child lives."""
    async with supervisor("session") as process:
        guardian, *rest = proctree.descendants(process.pid)
        # Neither may see the other's end: whoever does ends the engine's children in order.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            process.send_signal(number)
            proctree.send(guardian, number)
        await process.wait()
    await until(lambda: not proctree.is_same(rest[0]), "the end of the engine itself")
    return rest


async def test_what_a_killed_supervisor_and_its_killed_guardian_leave_is_reclaimed() -> None:
    """Everything of ours was killed at once: the next supervisor ends what still holds the GPUs."""
    for _ in range(TRIES):
        rest = await left_behind()
        killed = reclaim()
        # Gone, and not only signalled: the next engine may have its memory at once.
        assert alive(rest) == []
        if rest[-1].pid in killed:
            return  # else another supervisor that started on this host was faster
    pytest.fail("nothing was killed")


@pytest.mark.parametrize(
    ("content", "reason"),
    [("", "Exec format error"), ("#!/no/such/interpreter\n", "No such file or directory")],
)
async def test_a_command_that_the_kernel_refuses_is_hopeless(
    start: Start, tmp_path: Path, content: str, reason: str
) -> None:
    """It is not tried again, and the reason is the kernel's."""
    program = tmp_path / "engine"
    program.write_text(content)
    program.chmod(0o755)
    started = await start([str(program)])
    assert started.process.pid == 0
    ending = await started.process.ended()
    assert ending.is_hopeless
    assert ending.reason == f"the command cannot be run: {reason}"


async def test_the_last_words_are_kept_beside_the_reason(start: Start) -> None:
    """Who reads the failure sees why; the mesh is told no word of the engine's own."""
    code = "import sys; print('loading'); sys.stderr.write('CUDA out of memory'); sys.exit(3)"
    started = await start([sys.executable, "-c", code])
    ending = await started.process.ended()
    assert ending.reason == "engine exited with status 3"
    assert started.process.lines.last == "CUDA out of memory"


async def test_the_end_of_the_engine_is_told_before_that_of_its_children(start: Start) -> None:
    """Nobody shall be sent to it while what it left is being ended."""
    started = await start([*FAKE, "--spawn", "child"])
    await started.says("listening")
    os.kill(started.process.pid, signal.SIGKILL)
    told: list[int] = []
    ended = asyncio.create_task(started.process.ended())
    ended.add_done_callback(lambda _: told.append(len(started.exits)))
    await until(lambda: bool(started.exits), "word of the exit")
    await ended
    await until(lambda: told == [1], "the end of all")


async def test_two_engines_of_one_supervisor_do_not_touch_each_other(start: Start) -> None:
    """One of them dies; the other goes on serving."""
    first, second = await start(FAKE), await start(FAKE)
    url = (await second.says("listening")).split()[-1]
    await first.says("listening")
    os.kill(first.process.pid, signal.SIGKILL)
    await first.process.ended()
    async with aiohttp.ClientSession() as http, http.get(f"{url}/health") as answer:
        assert answer.status == 200


async def test_control_of_the_fake_can_be_used_through_its_port(start: Start) -> None:
    """Children that are spawned later are found as well."""
    started = await start(FAKE)
    url = (await started.says("listening")).split()[-1]
    async with aiohttp.ClientSession() as http:
        for mode in SPAWN_MODES:
            async with http.post(f"{url}/control/spawn", json={"mode": mode}) as answer:
                pid: Any = (await answer.json())["pid"]
                assert pid in [one.pid for one in proctree.descendants(started.guardian)]
    family = await started.grown(1 + len(SPAWN_MODES))
    started.process.stop(1.0)
    await started.process.ended()
    assert alive(family) == []


def open_files() -> int:
    """Return how many this process has."""
    return len(list(Path("/proc/self/fd").iterdir()))


@contextmanager
def no_more_files() -> Iterator[None]:
    """Let this process open nothing more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize(
    ("word", "around", "reason"),
    [
        ("a\0b", nullcontext, "cannot be passed on: embedded null byte"),
        ("x" * 200_000, nullcontext, "no process can be started: Argument list too long"),
        ("x", no_more_files, "no process can be started: Too many open files"),
    ],
)
async def test_a_process_that_cannot_be_started_says_why(
    word: str, around: Callable[[], AbstractContextManager[None]], reason: str
) -> None:
    """And ends nothing else that this process does."""
    process = EngineProcess(
        tail_lines=5, copier=None, on_line=lambda _: None, on_exit=lambda _: None
    )
    before = open_files()
    with around(), pytest.raises(EngineError, match=reason):
        await process.spawn([sys.executable, word], dict(os.environ))
    assert open_files() == before
    assert process.has_ended


async def test_an_agents_replica_that_cannot_be_started_is_told_as_failed() -> None:
    """Its neighbours go on."""
    told: list[AgentEvent] = []
    for word, around in (("a\0b", nullcontext), ("x", no_more_files)):
        replica = ReplicaProcess("01J", 0, tell=told.append, on_line=lambda _: None)
        with around():
            await replica.run([word], dict(os.environ))
    assert [one.how for one in told if isinstance(one, ReplicaEnded)] == [Ended.GAVE_UP] * 2
