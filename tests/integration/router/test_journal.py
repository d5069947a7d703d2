"""Usage reaches the mesh once, in order, and waits while the mesh is away."""

import asyncio
import io
import json

import msgspec
import pytest
from structlog.testing import capture_logs

from opentela.router import journal as module
from opentela.router.journal import Journal
from opentela.telemetry import metrics
from opentela.telemetry.log import JsonLines
from opentela.testing.waiting import until
from opentela.wire import subjects
from opentela.wire.usage import UsageRecord, read_usage


class Mesh:
    """A connection that can be away."""

    def __init__(self) -> None:
        self.is_away = False
        self.taken: list[UsageRecord] = []

    def publish(self, subject: str, payload: bytes) -> bool:
        """Take a message, or not."""
        assert subject == subjects.USAGE
        if not self.is_away:
            self.taken.append(read_usage(payload))
        return not self.is_away


def usage(number: int, **fields: object) -> UsageRecord:
    """Return the record of a request."""
    given = {
        "model": "m",
        "path": "/v1/completions",
        "status": 200,
        "outcome": "ok",
        "attempts": 1,
        "duration_s": 0.25,
        **fields,
    }
    given |= {"id": str(number), "request": f"r{number}", "at_ms": 1, "router": "one"}
    return msgspec.convert(given, UsageRecord)


def value(name: str, **labels: str) -> float:
    """Return a sample of this process."""
    return metrics.REGISTRY.get_sample_value(name, labels) or 0.0


async def test_records_are_handed_on_in_order() -> None:
    """And only once."""
    journal, mesh = Journal(), Mesh()
    for number in range(3):
        journal.request_finished(usage(number))
    assert await journal.flush_usage(mesh.publish)
    assert [record.id for record in mesh.taken] == ["0", "1", "2"]
    assert journal.waiting == 0
    assert await journal.flush_usage(mesh.publish)
    assert len(mesh.taken) == 3


async def test_records_wait_while_the_mesh_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is lost by an outage."""
    monkeypatch.setattr(module, "RETRY_S", 0.001)
    journal, mesh = Journal(), Mesh()
    mesh.is_away = True
    task = asyncio.create_task(journal.publish_usage(mesh.publish))
    journal.request_finished(usage(1))
    await asyncio.sleep(0)
    assert (journal.waiting, mesh.taken) == (1, [])
    mesh.is_away = False
    await until(lambda: not journal.waiting, "the record is handed on")
    assert [record.id for record in mesh.taken] == ["1"]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_too_many_waiting_records_are_lost_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The oldest first."""
    monkeypatch.setattr(module, "RECORDS_MAX", 2)
    before = value("otela_router_usage_lost_total")
    journal, mesh = Journal(), Mesh()
    for number in range(4):
        journal.request_finished(usage(number))
    await journal.flush_usage(mesh.publish)
    assert [record.id for record in mesh.taken] == ["2", "3"]
    assert value("otela_router_usage_lost_total") == before + 2


async def test_lines_for_machines_are_written_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Soon, and each with the time of its own request; nothing waits when the router ends."""
    monkeypatch.setattr(module, "GATHER_S", 0.01)
    out = io.StringIO()
    monkeypatch.setattr(module, "json_lines", lambda: JsonLines("router", out))
    journal, mesh = Journal(), Mesh()
    journal.request_finished(usage(1))
    journal.request_finished(usage(2))
    assert out.getvalue() == ""
    assert journal.waiting == 2
    await until(lambda: bool(out.getvalue()), "the lines are written")
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [line["request"] for line in lines] == ["r1", "r2"]
    assert lines[0]["timestamp"] == "1970-01-01T00:00:00.001000Z"
    journal.request_finished(usage(3))
    assert await journal.flush_usage(mesh.publish)
    assert [record.id for record in mesh.taken] == ["1", "2", "3"]
    assert out.getvalue().count("\n") == 3


async def test_many_records_leave_in_several_turns() -> None:
    """After an outage requests need not wait for the books."""
    journal, mesh = Journal(), Mesh()
    for number in range(2 * module.AT_ONCE_MAX):
        journal.request_finished(usage(number))
    flushing = asyncio.create_task(journal.flush_usage(mesh.publish))
    await asyncio.sleep(0)
    assert len(mesh.taken) == module.AT_ONCE_MAX
    journal.request_finished(usage(7))
    assert await flushing
    assert len(mesh.taken) == 2 * module.AT_ONCE_MAX + 1
    assert journal.waiting == 0


async def test_a_request_is_one_line_and_some_numbers() -> None:
    """No text of it is anywhere."""
    journal = Journal()
    served = {"session": "s", "site": "a", "tokens_in": 7, "tokens_out": 3, "ttft_s": 0.125}
    tokens = value("otela_router_tokens_total", model="m", direction="in")
    with capture_logs() as logs:
        journal.request_finished(usage(1, **served))
        journal.request_finished(usage(2, model="nobody serves it", outcome="failed", status=404))
        journal.request_refused(413, "too large")
    assert [line["event"] for line in logs] == ["request_finished"] * 2 + ["request_refused"]
    assert logs[0] == {
        "event": "request_finished",
        "log_level": "info",
        "request": "r1",
        "model": "m",
        "session": "s",
        "site": "a",
        "path": "/v1/completions",
        "attempts": 1,
        "outcome": "ok",
        "status": 200,
        "duration_s": 0.25,
        "ttft_s": 0.125,
        "tokens_in": 7,
        "tokens_out": 3,
    }
    assert logs[1]["ttft_s"] is None
    assert value("otela_router_tokens_total", model="m", direction="in") == tokens + 7
    assert value("otela_router_requests_total", model="other", outcome="failed") >= 1
    assert value("otela_router_requests_total", model="nobody serves it", outcome="failed") == 0
