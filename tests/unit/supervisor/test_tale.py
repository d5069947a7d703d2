"""People are told little, in words, on lines that fit; terminals obey nobody but us."""

from typing import Any

import pytest

from opentela.supervisor.engine_state import EngineState
from opentela.supervisor.tale import (
    OUTPUT_LINES_MAX,
    Said,
    Scene,
    Tale,
    clean,
    on_one_line,
    shown,
    span,
    waiting,
)

WALL = 1_800_000_000.0
SCENE = Scene(WALL)


def tale(api: str = "http://r/v1") -> Tale:
    return Tale(place="provider p, site s", api=api)


def event(name: str, level: str = "info", /, **values: object) -> dict[str, Any]:
    return {"timestamp": "now", "service": "supervisor", "level": level, "event": name, **values}


def session(lifecycle: str, reason: str = "", *models: str, name: str = "A") -> dict[str, Any]:
    values = {"session": name, "incarnation": 2, "models": list(models), "reason": reason}
    return event("session_announced", lifecycle=lifecycle, **values)


def lines(said: list[Said]) -> list[str]:
    return [f"{one.word} {one.text}".strip() for one in said]


def test_a_start_is_told_once_for_both_connections() -> None:
    """And again when the mesh was lost and is back."""
    told = tale()
    data = event("mesh_connected", carries="data", server="tls://hub")
    control = event("mesh_connected", carries="control", server="tls://hub")
    assert told.tell(data, SCENE) == []
    assert lines(told.tell(control, SCENE)) == ["joined tls://hub as provider p, site s"]
    assert lines(told.tell(control, SCENE)) == ["joined tls://hub as provider p, site s, again"]
    first, second = (event("engine_started", launch=n, pid=7, port=9) for n in (0, 1))
    assert lines(told.tell(first, SCENE)) == ["started the engine: process 7, port 9"]
    assert lines(told.tell(second, SCENE)) == ["started the engine again: process 7, port 9"]
    assert told.tell(session("JOINING"), SCENE) == []
    assert told.tell(event("readiness_changed", ready=True), SCENE) == []


def test_what_is_served_is_told_with_how_to_ask_and_until_when() -> None:
    """The advice comes once, what is served whenever it changes."""
    told = tale()
    told.tell(event("engine_started", launch=0, pid=7, port=9), SCENE)
    scene = Scene(WALL + 72, leave_at=WALL + 72 + 7140)
    said = told.tell(session("SERVING", "", "m", "lora"), scene)
    assert lines(said)[0] == "serving m, lora, after 1 min 12 s"
    assert "curl http://r/v1/chat/completions \\" in lines(said)
    assert "(in 1 h 59 min) or at Ctrl-C" in lines(said)[-1]
    assert told.tell(session("SERVING", "", "m", "lora"), scene) == []
    assert lines(told.tell(session("SERVING", "", "m"), scene)) == ["serving m"]


def test_without_a_known_router_or_end_none_is_made_up() -> None:
    """Every line of the advice stays true."""
    said = lines(tale(api="").tell(session("SERVING", "", "m"), SCENE))
    assert "Ask any router of the mesh:" in said
    assert "curl http://ROUTER/v1/chat/completions \\" in said
    assert said[-1].startswith("Leaves at Ctrl-C;")


def test_a_departure_is_told_with_what_may_still_finish() -> None:
    """And what a second Ctrl-C would do."""
    told = tale()
    idle = Scene(WALL, leaves=True)
    busy = Scene(WALL, leaves=True, running=2, limit_s=18)
    assert lines(told.tell(session("DRAINING", "why"), idle)) == [
        "draining why; nothing is running"
    ]
    assert lines(told.tell(session("DRAINING", "why"), busy)) == [
        "draining why; 2 requests may finish within 18 s. Ctrl-C again ends at once."
    ]
    assert lines(told.tell(session("LEFT", "why"), idle)) == ["left the mesh: why"]
    ended = event("engine_ended", launch=0, reason="exit 0")
    assert lines(told.tell(ended, idle)) == ["ended exit 0"]
    assert told.tell(ended, SCENE) == []
    assert told.tell(session("LEFT", "followed"), SCENE) == []


def test_a_failure_is_told_with_what_the_engine_wrote_last() -> None:
    """A few lines of it, as they are."""
    output = [f"line {number}" for number in range(20)]
    said = tale().tell(session("DOWN", "exit 1"), Scene(WALL, output=output))
    assert lines(said) == ["failed exit 1", *output[-OUTPUT_LINES_MAX:]]
    assert all(one.is_verbatim for one in said[1:])


def test_warnings_and_faults_are_always_told() -> None:
    """Whatever they are: by their own name and values."""
    told = tale()
    lost = event("mesh_lost", "warning", name="n", reason="closed")
    assert lines(told.tell(lost, SCENE)) == ["warning mesh lost; name: n; reason: closed"]
    bug = event("mesh_handler_failed", "error", exception="Traceback\n  x")
    assert lines(told.tell(bug, SCENE)) == ["error mesh handler failed", "Traceback", "x"]
    moved = event("walltime_moved", ends_at="")
    assert lines(told.tell(moved, SCENE)) == ["time the allocation now ends never"]


@pytest.mark.parametrize(
    ("state", "running", "expected"),
    [
        (EngineState.LOADING, 0, Said("loading", "1 min 5 s  50 %")),
        (EngineState.READY, 0, None),
        (EngineState.READY, 1, Said("serving", "1 request running")),
        (EngineState.DRAINING, 2, Said("draining", "2 requests running")),
        (EngineState.STOPPED, 0, None),
    ],
)
def test_what_is_under_way_stands_below(
    state: EngineState, running: int, expected: Said | None
) -> None:
    """Only while something is."""
    assert waiting(state, 65, "50 %", running) == expected


def test_lines_fit_the_terminal_and_commands_stay_whole() -> None:
    """Prose is wrapped below itself; what is copied is not."""
    said = Said("serving", "word " * 30, "good")
    told = shown(said, "12:00:00", 80, styles=False)
    assert len(told) > 1
    assert all(len(line) <= 80 for line in told)
    assert told[0].startswith("12:00:00  serving   word")
    assert told[1].startswith(" " * 20 + "word")
    assert "\x1b[1;32mserving\x1b[0m" in shown(said, "12:00:00", 80, styles=True)[0]
    command = Said("", "x" * 200, is_verbatim=True)
    assert shown(command, "12:00:00", 80, styles=True) == [" " * 20 + "x" * 200]
    assert len(on_one_line(said, "12:00:00", 80)) == 79


def test_a_terminal_obeys_no_engine() -> None:
    """Escapes, bells and line ends are left out."""
    assert clean("\x1b[2J\x1b]0;title\x07a\x07\rb\x1b[31mc\x1b(B\x1b7") == "abc"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-1, "0 s"), (59.6, "1 min 0 s"), (7199, "1 h 59 min"), (90_000, "1 d 1 h")],
)
def test_lengths_of_time_are_given_in_two_units(seconds: float, words: str) -> None:
    """The largest two."""
    assert span(seconds) == words
