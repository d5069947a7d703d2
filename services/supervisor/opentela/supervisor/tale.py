"""What a supervisor tells somebody who watches it: a few plain lines out of all log events."""

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal, NamedTuple

from opentela.supervisor.engine_state import EngineState

OUTPUT_LINES_MAX: Final = 8
"""Of an engine that failed: what it wrote last mostly says why."""
WORD_WIDTH: Final = 9
_CLOCK_WIDTH: Final = 8
_INDENT: Final = _CLOCK_WIDTH + WORD_WIDTH + 3
_WIDTH_MIN: Final = 40
"""Narrower terminals wrap by themselves."""
_MARKS: Final = ("timestamp", "level", "service", "event", "exception")
# Escape sequences of terminals, which engines use for colours and progress bars.
_ESCAPES: Final = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|[ -/]+.|.)")

Style = Literal["", "good", "bad", "warn"]


class Said(NamedTuple):
    """One thing to tell.

    Attributes:
        word: What happened, in one word; empty for what belongs to the line before.
        text: The rest.
        is_verbatim: It is copied, or somebody else's words: it must not be broken into lines.
    """

    word: str
    text: str
    style: Style = ""
    is_verbatim: bool = False


class Scene(NamedTuple):
    """What is known besides the event.

    Attributes:
        wall: Unix seconds.
        leave_at: When the session is gone by itself, Unix seconds; 0 for never.
        limit_s: For how long running requests may finish once it is to leave.
        running: Requests at the engine.
        leaves: Whether it is to leave.
        output: What the engine wrote last, if that is shown nowhere else.
    """

    wall: float
    leave_at: float = 0.0
    limit_s: float = 0.0
    running: int = 0
    leaves: bool = False
    output: Sequence[str] = ()


class Tale:
    """Turns log events into what people are told.

    Args:
        place: Who offers where.
        api: Base URL of a router, `/v1` included; empty when none is known.
    """

    def __init__(self, *, place: str, api: str = "") -> None:
        self._place = place
        self._api = api
        self._has_joined = self._has_advised = False
        self._started_at = 0.0
        self._served: tuple[str, tuple[str, ...]] = ("", ())

    def tell(self, event: Mapping[str, Any], scene: Scene) -> list[Said]:
        """Return what *event* means to people; most mean nothing to them."""
        said: Iterable[Said] = ()
        match event["event"]:
            case "mesh_connected" if event["carries"] == "control":
                again = ", again" if self._has_joined else ""
                self._has_joined = True
                said = [Said("joined", f"{event['server']} as {self._place}{again}")]
            case "engine_started":
                self._started_at = scene.wall
                again = " again" if event["launch"] else ""
                where = f"process {event['pid']}, port {event['port']}"
                said = [Said("started", f"the engine{again}: {where}")]
            case "session_announced":
                said = self._session(event, scene)
            case "engine_ended" if scene.leaves:
                said = [Said("ended", str(event["reason"]))]
            case "walltime_moved":
                when = f"at {event['ends_at']}" if event["ends_at"] else "never"
                said = [Said("time", f"the allocation now ends {when}")]
            case _ if event["level"] != "info":
                said = _complaint(event)
        return list(said)

    def _session(self, event: Mapping[str, Any], scene: Scene) -> list[Said]:
        reason = str(event["reason"])
        match event["lifecycle"]:
            case "SERVING":
                return self._serving((event["session"], tuple(event["models"])), scene)
            case "DRAINING":
                return [_draining(reason, scene)]
            case "DOWN":
                last = scene.output[-OUTPUT_LINES_MAX:]
                shown = [Said("", line, is_verbatim=True) for line in last]
                return [Said("failed", reason, "bad"), *shown]
            case "LEFT" if scene.leaves:
                return [Said("left", f"the mesh: {reason}")]
        return []

    def _serving(self, served: tuple[str, tuple[str, ...]], scene: Scene) -> list[Said]:
        if served == self._served:
            return []  # it refuted a suspicion, or joined again
        is_new = served[0] != self._served[0]
        self._served = served
        took = f", after {span(scene.wall - self._started_at)}" if is_new else ""
        models = served[1]
        said = [Said("serving", f"{', '.join(models)}{took}", "good")]
        if models and not self._has_advised:
            self._has_advised = True
            said += self._advice(models[0], scene)
        return said

    def _advice(self, model: str, scene: Scene) -> Iterable[Said]:
        api = self._api or "http://ROUTER/v1"
        yield Said("", "Ask a router of the mesh:" if self._api else "Ask any router of the mesh:")
        for line in (
            f"curl {api}/chat/completions \\",
            "  -H 'Content-Type: application/json' \\",
            f"""  -d '{{"model": "{model}",""",
            """       "messages": [{"role": "user", "content": "Hi"}]}'""",
        ):
            yield Said("", line, is_verbatim=True)
        at = ""
        if scene.leave_at:
            at = f"at {clock(scene.leave_at)[:-3]} (in {span(scene.leave_at - scene.wall)}) or "
        yield Said("", f"Leaves {at}at Ctrl-C; requests that are running may finish.")


def waiting(state: EngineState, loads_s: float, stage: str, running: int) -> Said | None:
    """Return what is under way, to stand below everything until it changes."""
    match state:
        case EngineState.LAUNCHING | EngineState.LOADING:
            return Said("loading", f"{span(loads_s)}  {stage}".rstrip())
        case EngineState.READY | EngineState.DRAINING if running:
            word = "serving" if state is EngineState.READY else "draining"
            return Said(word, f"{_requests(running)} running")
    return None


def shown(said: Said, at: str, width: int, *, styles: bool) -> list[str]:
    """Return the lines of *said* on a terminal of *width* columns."""
    text = clean(said.text)
    head = f"{at if said.word else '':<{_CLOCK_WIDTH}}  {said.word:<{WORD_WIDTH}} "
    if styles and said.word:
        code = {"good": "1;32", "bad": "1;31", "warn": "1;33"}.get(said.style, "1")
        head = head.replace(said.word, f"\x1b[{code}m{said.word}\x1b[0m", 1)
    if said.is_verbatim:
        return [head + text]
    room = max(width, _WIDTH_MIN) - _INDENT
    first, *more = textwrap.wrap(text, room, break_on_hyphens=False) or [""]
    return [(head + first).rstrip(), *(" " * _INDENT + line for line in more)]


def on_one_line(said: Said, at: str, width: int) -> str:
    """Return *said* cut to *width* columns: what is rewritten in place must not wrap."""
    head = f"{at:<{_CLOCK_WIDTH}}  {said.word:<{WORD_WIDTH}} "
    return (head + clean(said.text))[: max(width - 1, 0)]


def clean(text: str) -> str:
    """Return *text* without what a terminal would obey."""
    return "".join(one for one in _ESCAPES.sub("", text) if one.isprintable())


def span(seconds: float) -> str:
    """Return a length of time as people say it."""
    left = max(0, round(seconds))
    for unit, size, part, part_size in (
        ("d", 86_400, "h", 3600),
        ("h", 3600, "min", 60),
        ("min", 60, "s", 1),
    ):
        if left >= size:
            count, rest = divmod(left, size)
            return f"{count} {unit} {rest // part_size} {part}"
    return f"{left} s"


def clock(wall: float) -> str:
    """Return the local time of day, to the second."""
    return datetime.fromtimestamp(wall, UTC).astimezone().strftime("%H:%M:%S")


def _requests(count: int) -> str:
    return "1 request" if count == 1 else f"{count} requests"


def _draining(reason: str, scene: Scene) -> Said:
    if not scene.running:
        return Said("draining", f"{reason}; nothing is running")
    may = f"{_requests(scene.running)} may finish within {span(scene.limit_s)}"
    return Said("draining", f"{reason}; {may}. Ctrl-C again ends at once.")


def _complaint(event: Mapping[str, Any]) -> Iterable[Said]:
    values = [f"{key}: {value}" for key, value in event.items() if key not in _MARKS]
    name = str(event["event"]).replace("_", " ")
    is_bad = event["level"] != "warning"
    yield Said(event["level"], "; ".join((name, *values)), "bad" if is_bad else "warn")
    for line in str(event.get("exception", "")).splitlines():
        yield Said("", line, is_verbatim=True)
