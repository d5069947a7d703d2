"""Logs: one JSON object a line for machines, text for people."""

import io
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import structlog
from nats.errors import UnexpectedEOF

from opentela.telemetry import log
from opentela.telemetry.config import LogConfig


@pytest.fixture(autouse=True)
def _unconfigured() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.reset_defaults()
    log._json_lines = None
    root.handlers[:] = handlers
    root.setLevel(level)


def lines(out: io.StringIO) -> list[dict[str, object]]:
    return [msgspec.json.decode(line) for line in out.getvalue().splitlines()]


def test_an_event_is_one_json_object() -> None:
    """Who reads logs by machine finds every value under its key."""
    out = io.StringIO()
    log.configure(service="router", stream=out)
    log.get_logger().info("readiness_changed", ready=True)
    (event,) = lines(out)
    assert list(event) == ["timestamp", "level", "service", "event", "ready"]
    assert event["service"] == "router"
    assert event["level"] == "info"


def test_less_severe_events_are_left_out() -> None:
    """The level is a floor."""
    out = io.StringIO()
    log.configure(service="router", config=LogConfig(level="warning"), stream=out)
    log.get_logger().info("readiness_changed")
    log.get_logger().warning("stop_forced")
    assert [event["event"] for event in lines(out)] == ["stop_forced"]


def test_text_is_for_people() -> None:
    """Asked for text, a line holds the event and its values without braces."""
    out = io.StringIO()
    log.configure(service="router", config=LogConfig(form="text"), stream=out)
    log.get_logger().info("stop_requested", signal="SIGTERM")
    assert "stop_requested" in out.getvalue()
    assert "signal=SIGTERM" in out.getvalue()


def test_what_libraries_log_becomes_an_event() -> None:
    """A warning of a library is not lost and not of another form."""
    out = io.StringIO()
    log.configure(service="router", stream=out)
    log.configure(service="router", stream=out)
    logging.getLogger("nats.aio.client").warning("lost %s", "it")
    (first,) = lines(out)
    assert first["event"] == "library_logged"
    assert first["library"] == "nats.aio.client"
    assert first["message"] == "lost it"


def test_a_goodbye_over_tls_is_no_warning() -> None:
    """What asyncio says of every connection that ends well is not shown to who asked a question."""
    out = io.StringIO()
    log.configure(service="sessions", stream=out)
    said = "returning true from eof_received() has no effect when using ssl"
    logging.getLogger("asyncio").warning(said)
    logging.getLogger("asyncio").warning("something else")
    assert [event["message"] for event in lines(out)] == ["something else"]


@pytest.mark.parametrize(
    ("error", "part"),
    [
        (ConnectionResetError(104, "reset"), "reason"),
        (UnexpectedEOF(), "reason"),
        (TimeoutError(), "reason"),
        (KeyError("x"), "exception"),
    ],
)
def test_a_library_that_loses_a_connection_needs_one_line(error: Exception, part: str) -> None:
    """A lost mesh is no bug; what is one keeps its traceback."""
    out = io.StringIO()
    log.configure(service="supervisor", stream=out)
    logging.getLogger("nats.aio.client").error("encountered error", exc_info=error)
    (event,) = lines(out)
    assert {"reason", "exception"} & set(event) == {part}
    assert repr(error)[:8] in str(event[part])


def test_a_failure_carries_its_traceback() -> None:
    """An unexpected exception can be found from its log line."""
    out = io.StringIO()
    log.configure(service="router", stream=out)
    try:
        dict[str, int]()["x"]
    except KeyError:
        log.get_logger().exception("library_logged", value=object())
    (event,) = lines(out)
    assert "KeyError" in str(event["exception"])


def test_many_events_at_once_look_as_if_logged_one_by_one() -> None:
    """Readers cannot tell the difference."""
    out = io.StringIO()
    log.configure(service="router", config=LogConfig(form="json"), stream=out)
    log.get_logger().info("request_finished", status=200, model="ä")
    many = log.json_lines()
    assert many is not None
    many.write("request_finished", [(1_800_000_000.25, {"status": 200, "model": "ä"})] * 2)
    one, *others = lines(out)
    assert others == [{**one, "timestamp": "2027-01-15T08:00:00.250000Z"}] * 2
    assert [list(event) for event in others] == [list(one)] * 2


@pytest.mark.parametrize("config", [LogConfig(form="text"), LogConfig(level="warning")])
def test_many_events_go_one_by_one_where_they_are_no_json_lines(config: LogConfig) -> None:
    """The logger knows what becomes of them."""
    log.configure(service="router", config=config, stream=io.StringIO())
    assert log.json_lines() is None


@pytest.mark.parametrize("form", ["json", "text"])
@pytest.mark.parametrize("is_full", [True, False], ids=["full disk", "no reader"])
def test_a_log_that_cannot_be_written_ends_no_service(form: str, is_full: bool) -> None:  # noqa: FBT001 - a parameter
    """Nor does it spoil the exit status, which schedulers read."""
    service = (
        "from opentela.telemetry import log\n"
        "from opentela.telemetry.config import LogConfig\n"
        f"log.configure(service='router', config=LogConfig(form={form!r}))\n"
        "log.get_logger().info('readiness_changed', ready=True)\n"
        "if lines := log.json_lines():\n"
        "    lines.write('request_finished', [(0.0, {})])\n"
    )
    if is_full:
        stderr = os.open("/dev/full", os.O_WRONLY)
    else:
        read_end, stderr = os.pipe()
        os.close(read_end)
    try:
        assert subprocess.call([sys.executable, "-c", service], stderr=stderr) == 0
    finally:
        os.close(stderr)


def test_a_log_goes_on_once_there_is_room_again(tmp_path: Path) -> None:
    """What was lost in between is not made up for, and nothing is written twice."""
    with (tmp_path / "log").open("w+") as out:
        log.configure(service="router", stream=out)
        log.get_logger().info("readiness_changed", ready=True)
        room = os.dup(out.fileno())
        full = os.open("/dev/full", os.O_WRONLY)
        os.dup2(full, out.fileno())
        log.get_logger().info("readiness_changed", ready=False)
        os.dup2(room, out.fileno())
        os.close(full)
        os.close(room)
        log.get_logger().info("stop_requested")
    written = (tmp_path / "log").read_text().splitlines()
    events = [msgspec.json.decode(line)["event"] for line in written]
    assert events == ["readiness_changed", "stop_requested"]


def test_events_can_be_worded_by_somebody_else() -> None:
    """With their marks, and above the level; nothing goes to the stream."""
    out, told = io.StringIO(), list[dict[str, object]]()
    log.configure(service="router", stream=out, tell=lambda event: told.append(dict(event)))
    log.get_logger().info("readiness_changed", ready=True)
    log.get_logger().debug("message_unsent")
    assert [(one["event"], one["level"], one["ready"]) for one in told] == [
        ("readiness_changed", "info", True)
    ]
    assert out.getvalue() == ""
    assert log.json_lines() is None
