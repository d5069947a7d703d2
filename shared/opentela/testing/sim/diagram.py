"""The last messages that touched a session, as a sequence diagram: an SVG that any browser shows.

A trace has a line for each end of a message; here the two are one arrow again. What was lost ends
in a cross, what nobody heard in a dot at its sender.
"""

import re
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Final, NamedTuple

from opentela.testing.sim.describe import describe
from opentela.testing.world_trace import Entry

ARROWS: Final = 40
"""As many as fit on a screen or two."""
EARLIER_FAULTS: Final = 8
"""Of what befell somebody before all that is drawn: it may be why."""
_SESSION: Final = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")
_LOST: Final = re.compile(r"^(?P<subject>\S+) to (?P<target>\S+)$")
_COLUMN: Final = 190
_ROW: Final = 24
_LEFT: Final = 90
_TOP: Final = 56
_TEXT_MAX: Final = 58
_STYLE: Final = (
    "text{font:11px ui-monospace,monospace;fill:#222}"
    ".message{marker-end:url(#end)}"
    ".head{font-weight:600}.time{fill:#777}.fault{fill:#b00020}"
    "line{stroke:#333}.life{stroke:#bbb;stroke-dasharray:3 3}.lost{stroke:#b00020}"
)
_ARROWHEAD: Final = (
    '<defs><marker id="end" markerWidth="8" markerHeight="8" refX="7" refY="3" orient="auto">'
    '<path d="M0,0 L7,3 L0,6 z"/></marker></defs>'
)


class Arrow(NamedTuple):
    """One message from one process to another, or something that befell one.

    Attributes:
        sent_at, at: When it left, and when it arrived, was lost, or happened.
        target: Empty when nobody heard it.
        text: What it says; of a fault, what it did.
    """

    sent_at: float
    at: float
    source: str
    target: str
    text: str
    is_lost: bool = False
    is_fault: bool = False


def session_in(text: str) -> str:
    """Return the session that a failure names; empty if it names none."""
    found = _SESSION.search(text)
    return found[0] if found else ""


def arrows(entries: Iterable[Entry], session: str, *, last: int = ARROWS) -> list[Arrow]:
    """Return the *last* messages and faults that touch *session*, or of all if it is empty.

    The latest faults before them come first.
    """
    sent: dict[tuple[str, bytes], Entry] = {}
    unheard: dict[int, Entry] = {}
    drawn: list[Arrow] = []
    for entry in entries:
        if entry.mark == ">":
            sent[entry.subject, entry.payload] = entry
            sent[entry.subject, b""] = entry
            if _touches(entry, session):
                unheard[id(entry)] = entry
        elif entry.mark == "!":
            drawn.append(_fault(entry))
        elif entry.mark in "<x":
            _pair(entry, sent, unheard, drawn, session)
    drawn += [_arrow(entry, entry, "") for entry in unheard.values()]
    # What befell others than those who speak would only take up room.
    said = [arrow for arrow in drawn if not arrow.is_fault]
    near = {"world", *(name for arrow in said for name in (arrow.source, arrow.target))}
    drawn = [arrow for arrow in drawn if arrow.source in near]
    drawn.sort(key=lambda arrow: arrow.sent_at)
    before, shown = drawn[:-last], drawn[-last:]
    return [arrow for arrow in before if arrow.is_fault][-EARLIER_FAULTS:] + shown


def _pair(
    entry: Entry,
    sent: dict[tuple[str, bytes], Entry],
    unheard: dict[int, Entry],
    drawn: list[Arrow],
    session: str,
) -> None:
    lost = _LOST.match(entry.subject) if entry.mark == "x" else None
    subject = lost["subject"] if lost else entry.subject
    origin = sent.get((subject, entry.payload))
    if origin is None or not _touches(origin, session):
        return
    unheard.pop(id(origin), None)
    target = lost["target"] if lost else entry.node
    drawn.append(_arrow(origin, entry, target, is_lost=lost is not None))


def _arrow(origin: Entry, end: Entry, target: str, *, is_lost: bool = False) -> Arrow:
    text = describe(origin.subject, origin.payload)
    return Arrow(origin.at, end.at, origin.node, target, text, is_lost=is_lost)


def _fault(entry: Entry) -> Arrow:
    return Arrow(entry.at, entry.at, entry.node, "", entry.subject, is_fault=True)


def _touches(entry: Entry, session: str) -> bool:
    return not session or session in entry.subject or session.encode() in entry.payload


def svg(drawn: Sequence[Arrow], title: str) -> str:
    """Return the diagram: time goes down, one column a process."""
    names = sorted({name for arrow in drawn for name in (arrow.source, arrow.target) if name})
    place = {name: _LEFT + _COLUMN * column for column, name in enumerate(names)}
    width = _LEFT + _COLUMN * max(1, len(names)) + 2 * _COLUMN
    height = _TOP + _ROW * (len(drawn) + 2)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}">',
        f"<style>{_STYLE}</style>",
        _ARROWHEAD,
        '<rect width="100%" height="100%" fill="white"/>',
        _text(8, 16, title, "head"),
    ]
    for name, x in place.items():
        parts.append(_text(x - 4, 40, name, "head"))
        parts.append(_line((x, _TOP - 8), (x, height - _ROW), "life"))
    for row, arrow in enumerate(drawn, 1):
        parts += _drawn(arrow, place, _TOP + _ROW * row)
    return "\n".join([*parts, "</svg>", ""])


def _drawn(arrow: Arrow, place: dict[str, int], y: int) -> list[str]:
    start = place[arrow.source]
    end = place.get(arrow.target, start)
    parts = [_text(8, y + 4, f"{arrow.sent_at:10.4f}", "time")]
    if arrow.is_fault:
        return [*parts, _text(start + 6, y + 4, f"! {_short(arrow.text)}", "fault")]
    style = "lost" if arrow.is_lost else ""
    if start == end:
        parts.append(f'<circle cx="{start}" cy="{y}" r="3"/>')
    else:
        end = (start + 3 * end) // 4 if arrow.is_lost else end
        parts.append(_line((start, y), (end, y), style or "message"))
    if arrow.is_lost:
        parts.append(_text(end - 3, y + 4, "x", "fault"))
    took = f" ({1000 * (arrow.at - arrow.sent_at):.1f} ms)" if arrow.target else " (nobody)"
    return [*parts, _text(min(start, end) + 8, y - 4, _short(arrow.text) + took, "")]


def _short(text: str) -> str:
    return text if len(text) <= _TEXT_MAX else f"{text[: _TEXT_MAX - 1]}…"


def _line(start: tuple[int, int], end: tuple[int, int], style: str) -> str:
    (x1, y1), (x2, y2) = start, end
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" class="{style}"/>'


def _text(x: int, y: int, text: str, style: str) -> str:
    return f'<text x="{x}" y="{y}" class="{style}">{escape(text)}</text>'


def write(entries: Sequence[Entry], failure: str, path: Path, *, session: str = "") -> Path:
    """Write the diagram of what a failure is about, and return where it is."""
    session = session or session_in(failure)
    path.parent.mkdir(parents=True, exist_ok=True)
    title = failure.strip().splitlines()[0]
    path.write_text(svg(arrows(entries, session), title), encoding="utf-8")
    return path
