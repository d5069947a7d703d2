"""The instruments measure what they say: checked against the mock engine alone."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.bench import engine, procfs, report
from tests.bench.load import FailedRequestError, Target, chat_request, open_loop, percentile
from tests.bench.measure import added, first_ms, saturated, total_ms
from tests.bench.report import Figure
from tests.e2e.processes import Process, wait_until


class Mock:
    """A mock engine that runs."""

    def __init__(self, port: int, pid: int) -> None:
        self.port = port
        self.pid = pid

    def target(self, *, stream: bool = False, path: str = "/v1/chat/completions") -> Target:
        """Return the engine as a target."""
        request = chat_request(engine.MODEL, stream=stream)
        asked = request.replace(b"/v1/chat/completions", path.encode())
        return Target("direct", "127.0.0.1", self.port, asked)


@pytest.fixture
def mock(tmp_path: Path) -> Iterator[Mock]:
    """A mock engine on a port of its own."""
    announce = tmp_path / "engine.json"
    argv = [sys.executable, "-m", "tests.bench.engine", "--announce", str(announce)]
    process = Process("engine", argv, log=tmp_path / "engine.log")
    try:
        wait_until(announce.exists, "the engine", within_s=10, detail=process.tail)
        yield Mock(**json.loads(announce.read_text()))
    finally:
        process.end()


async def test_streams_and_whole_answers_are_timed(mock: Mock) -> None:
    """Every token is counted; the first comes before the last; a whole answer has no first."""
    stream, unary = mock.target(stream=True), mock.target()
    await open_loop([stream, unary], rate=50, count=5)
    shortest_ms = (engine.TOKENS - 1) * engine.DELTA_INTERVAL_S * 1000
    for sample in stream.samples:
        assert sample.deltas == engine.TOKENS + 1  # and [DONE]
        assert first_ms(sample) < shortest_ms <= total_ms(sample)
    assert [total_ms(sample) for sample in unary.samples] == [*map(first_ms, unary.samples)]
    assert added(unary.samples, unary.samples, total_ms) == (0.0, 0.0)
    for target in (stream, unary):
        target.close()


async def test_saturation_counts_requests_and_their_cpu(mock: Mock) -> None:
    """What a request costs the engine is some microseconds: neither nothing nor milliseconds."""
    target = mock.target()
    run = await saturated(target, {"engine": mock.pid}, concurrency=4, seconds=0.4)
    assert run.rps > 100
    assert 1 < run.cpu_us["engine"] < 1e6 / run.rps * 2
    target.close()


async def test_an_answer_that_is_no_success_ends_the_benchmark(mock: Mock) -> None:
    """Figures of failed requests would mean nothing."""
    target = mock.target(path="/v1/nothing")
    with pytest.raises(FailedRequestError, match="404"):
        await target.once()
    target.close()


def test_percentiles_lie_between_neighbours() -> None:
    """The median of an even number of values is the middle of two."""
    assert percentile([4.0, 1.0, 3.0, 2.0], 50) == 2.5
    assert percentile([7.0], 99) == 7.0


def test_memory_and_cpu_are_read_from_the_kernel() -> None:
    """This process has some of both."""
    assert procfs.pss_mb(os.getpid()) > 1
    assert procfs.cpu_s(os.getpid()) > 0


def test_figures_are_written_with_their_targets(tmp_path: Path) -> None:
    """Whoever reads the file sees whether a target holds, and how it was measured."""
    figures = [Figure.below("added p50", 1.5, "ms", 1.42), Figure("p99", 2.0, "ms")]
    rows = json.loads(report.write("area", figures, "make bench-area", tmp_path).read_text())
    assert [row["holds"] for row in rows] == [False, None]
    assert rows[0] == {
        "name": "added p50",
        "value": 1.5,
        "unit": "ms",
        "target": "< 1.42",
        "holds": False,
        "baseline": "",
        "command": "make bench-area",
    }
