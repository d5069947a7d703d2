"""A replica's supervisor tells its agent how it is, and never waits for it."""

import contextlib
import os
from collections.abc import Iterator

import msgspec
import pytest
from tests.unit.supervisor.test_machine import Bench

from opentela.core.errors import ConfigError
from opentela.supervisor.agent import report
from opentela.supervisor.agent.report import LINE_BYTES_MAX, Report, Reporter
from opentela.supervisor.engine_state import EngineState
from opentela.supervisor.events import EngineExited, StopAsked

READY, UNREADY = (True, ""), (False, "leaving")


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    os.set_blocking(ends[0], False)
    yield ends
    for end in ends:
        os.close(end)


def test_news_are_told_once(pipe: tuple[int, int]) -> None:
    """State, session and reason; readers get them as they were."""
    reporter = Reporter(pipe[1])
    bench = Bench().serving(1.0)
    told: list[tuple[bool, str]] = []
    on_ready = reporter.beside(lambda flag, why: told.append((flag, why)), bench.machine)
    for _ in range(2):
        on_ready(*READY)
    (line,) = os.read(pipe[0], 4096).splitlines()
    assert report.read(line) == Report(state="ready", session=bench.claim.session)
    bench.at(2.0, StopAsked("enough"))
    on_ready(*UNREADY)
    (line,) = os.read(pipe[0], 4096).splitlines()
    assert report.read(line).reason == "enough"
    assert told == [READY, READY, UNREADY]


def test_an_engine_that_crashed_does_not_drain(pipe: tuple[int, int]) -> None:
    """It is started again: whoever hears that it drains would start another in its place."""
    bench = Bench().serving(1.0)
    bench.at(2.0, EngineExited(bench.launch, "exited with status 3"))
    assert bench.machine.state is EngineState.DRAINING
    Reporter(pipe[1]).tell(bench.machine)
    assert report.read(os.read(pipe[0], 4096).strip()).state == "stopped"


def filled(descriptor: int) -> int:
    """Write until there is no room; return how much went in."""
    written = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            written += os.write(descriptor, b"x" * 4096)
    return written


def test_an_agent_that_does_not_read_is_not_waited_for(pipe: tuple[int, int]) -> None:
    """What it misses is said as soon as there is room."""
    reporter = Reporter(pipe[1])
    written = filled(pipe[1])
    bench = Bench().serving(1.0)
    reporter.tell(bench.machine)
    assert os.read(pipe[0], 2 * written) == b"x" * written
    reporter.tell(bench.machine)
    assert report.read(os.read(pipe[0], 4096).strip()).state == "ready"


def test_a_line_is_never_cut(pipe: tuple[int, int]) -> None:
    """Whatever the reason, it fits into what a pipe takes as one."""
    bench = Bench().serving(1.0)
    bench.at(2.0, StopAsked("\x01" * 5000))
    Reporter(pipe[1]).tell(bench.machine)
    assert len(os.read(pipe[0], 1 << 16)) <= LINE_BYTES_MAX


def test_a_descriptor_that_is_none_is_refused() -> None:
    """Somebody typed what is not for typing."""
    with pytest.raises(ConfigError, match="--report-fd 987"):
        Reporter(987)


def test_what_is_no_report_is_refused() -> None:
    """The agent says so, and goes on."""
    with pytest.raises(msgspec.DecodeError):
        report.read(b"{}")
