"""What is common to all engines: lists of models, options of commands, metrics, log lines."""

import pytest

from opentela.core.errors import EngineError
from opentela.supervisor.engines import base

NAMES = base.MetricNames(
    running=("x:running",), waiting=("x:waiting",), kv_used=("x:kv",), tokens=("x:in", "x:out")
)


@pytest.mark.parametrize(
    "document",
    [None, [], "models", {"data": None}, {"data": [{"name": "no id"}]}, {"object": "list"}],
)
def test_what_is_no_list_of_models_is_refused(document: object) -> None:
    """The reason names the path."""
    with pytest.raises(EngineError, match="/v1/models is no list of models"):
        base.read_models({"/v1/models": document})


def test_entries_without_a_usable_name_are_left_out() -> None:
    """An empty or endless name is none."""
    data = [{"id": "a"}, {"id": ""}, {"id": "x" * 513}, {"id": "b", "unknown": {"x": 1}}]
    assert [entry.id for entry in base.read_models({"/v1/models": {"data": data}})] == ["a", "b"]


@pytest.mark.parametrize(
    ("document", "text"),
    [({"v": "1.2"}, "1.2"), ({"v": 3}, ""), ({}, ""), (None, ""), ("v", ""), ([], "")],
)
def test_a_text_is_read_or_absent(document: object, text: str) -> None:
    """Foreign JSON may have any shape."""
    assert base.read_text(document, "v") == text


@pytest.mark.parametrize(
    ("argv", "value"),
    [
        (["serve", "--port", "80"], "80"),
        (["serve", "--port=81"], "81"),
        (["serve", "--port", "80", "--port=82"], "82"),
        (["serve", "-p", "83"], "83"),
        (["serve", "--port"], ""),
        (["serve", "--ports", "80"], ""),
    ],
)
def test_an_option_is_read_in_each_of_its_forms(argv: list[str], value: str) -> None:
    """The last one counts."""
    assert base.option(argv, "--port", "-p") == value


def test_programs_are_compared_without_their_folders() -> None:
    """/opt/bin/vllm is vllm."""
    assert base.program_names(["/opt/bin/vllm", "serve"]) == ("vllm", "serve")


def test_lines_about_our_own_reads_are_no_progress() -> None:
    """An access log of probes would keep a dead engine loading for ever."""
    assert base.is_echo(b'INFO: 127.0.0.1 - "GET /health HTTP/1.1" 503')
    assert base.is_echo(b'"GET /metrics HTTP/1.1" 200 OK')
    assert not base.is_echo(b"Loading safetensors checkpoint shards: 50%")


@pytest.mark.parametrize(
    ("line", "share"),
    [
        ("Loading shards:  50% Completed | 2/4", 0.5),
        ("at 7 %", 0.07),
        ("12.9% done", 0.12),
        ("150%", 1.0),
        ("no number", -1.0),
        ("1.5.50%x", -1.0),
    ],
)
def test_a_percentage_is_found_in_a_line(line: str, share: float) -> None:
    """Most loaders print one."""
    assert base.read_percent(line) == share


def test_metrics_are_added_up_over_ranks_and_the_fullest_memory_counts() -> None:
    """Samples are told from comments, from longer names and from time stamps."""
    text = """# HELP x:running Requests
# TYPE x:running gauge
x:running{engine="0",model="a b"} 2.0
x:running{engine="1",model="}"} 3.0 1700000000
x:running_more{engine="0"} 100
x:waiting 1
x:kv{engine="0"} 0.25
x:kv{engine="1"} 0.5
x:in 10
x:out 5.5
y:other 1"""
    assert base.read_metrics(text, NAMES) == base.EngineLoad(
        running=5, waiting=1, kv_used=0.5, tokens=15.5
    )


def test_metrics_that_say_nothing_are_unknown_rather_than_zero() -> None:
    """Broken samples are left out too."""
    broken = 'x:running\nx:waiting{a="b"} many\nx:kv NaN\nx:in +Inf'
    assert base.read_metrics(broken, NAMES) == base.EngineLoad()
    assert base.read_metrics("x:running 1", base.MetricNames()) == base.EngineLoad()
