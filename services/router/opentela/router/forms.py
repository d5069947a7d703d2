"""Forms with files in them, of which the router reads two short fields.

RFC 7578 on RFC 2046 section 5.1: parts between lines of one boundary. The files pass unread; what
a second reader could find elsewhere is refused, as with JSON.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from opentela.core.pieces import Text, whole
from opentela.router.fault import Fault, FaultKind

PARTS_MAX: Final = 256
"""Parts of one form; people send five."""
PART_HEAD_BYTES_MAX: Final = 4096
BOUNDARIES_MAX: Final = 100_000
"""That are noted of a form; those between parts are few, and others are what a file holds."""
FIELD_BYTES_MAX: Final = 1024
"""Of a field that is read; a model's name is shorter."""

_BOUNDARY: Final = re.compile(
    rb"""multipart/form-data[^"]*?;[ \t]*"""
    rb"""boundary=(?:"([^"\r\n]{1,70})"|([^\s;"]{1,70}))[ \t]*(?:;.*)?""",
    re.IGNORECASE,
)
_NAME: Final = re.compile(
    rb"""[;\s]name=(?:"([^"\\\r\n]*)"|([^\s;"]+))[ \t]*(?=[;\r]|$)""", re.IGNORECASE
)
_DISPOSITION: Final = re.compile(
    rb"^content-disposition[ \t]*:[ \t]*form-data[ \t]*(;[^\r\n]*)", re.IGNORECASE | re.MULTILINE
)
_BAD: Final = "The body is no well-formed multipart/form-data"


def is_form(content_type: bytes) -> bool:
    """Return whether a body of this type is a form with parts."""
    return content_type[:20].lower().startswith(b"multipart/form-data")


class Boundaries:
    """Where the boundary of a large form stands behind a line end, noted while the form comes."""

    __slots__ = ("_at", "_delimiter", "_last", "_places")

    def __init__(self, line: bytes) -> None:
        self._delimiter = b"\r\n" + line
        self._places: list[int] = []
        self._last = b""
        self._at = 0

    @classmethod
    def of(cls, content_type: bytes) -> "Boundaries | None":
        """Return those of a form; None where *content_type* is of none, or names no boundary."""
        line = _line(content_type) if is_form(content_type) else b""
        return cls(line) if line else None

    @property
    def are_told(self) -> bool:
        """Whether there are so few that each could be noted."""
        return len(self._places) <= BOUNDARIES_MAX

    def feed(self, piece: bytes) -> None:
        """Look through the next piece, and where it was joined to the last one."""
        size = len(self._delimiter)
        seam = self._last + piece[: size - 1]
        self._note(seam, self._at - len(self._last))
        self._note(piece, self._at)
        self._last = (self._last + piece[-(size - 1) :])[-(size - 1) :]
        self._at += len(piece)

    def find(self, start: int) -> int:
        """Return the first place from *start* on, or -1."""
        index = bisect_left(self._places, start)
        return self._places[index] if index < len(self._places) else -1

    def _note(self, data: bytes, shift: int) -> None:
        at = data.find(self._delimiter)
        while at >= 0 and self.are_told:
            self._places.append(at + shift)
            at = data.find(self._delimiter, at + 1)


def read_fields(
    content_type: bytes,
    body: Text,
    names: tuple[str, ...],
    boundaries: Boundaries | None = None,
) -> Mapping[str, str] | Fault:
    """Return the fields *names* of a form as far as it has them, or the 400 that says why not.

    Args:
        content_type: Of the form.
        body: All of it.
        names: Of the fields.
        boundaries: What was noted while it came, if it is large.
    """
    line = _line(content_type)
    if not line:
        return _bad(f"{_BAD}: its Content-Type names no boundary.")
    find: Callable[[int], int]
    if boundaries is not None and boundaries.are_told:
        find = boundaries.find
    else:
        find = partial(whole(body).find, b"\r\n" + line)
    if body[: len(line)] == line:
        at = len(line)
    elif (start := find(0)) >= 0:
        at = start + 2 + len(line)
    else:
        return _bad(f"{_BAD}: it does not contain its boundary.")
    return _read_parts(body, at, find, names, line)


def _read_parts(
    body: Text, at: int, find: Callable[[int], int], names: tuple[str, ...], line: bytes
) -> Mapping[str, str] | Fault:
    fields: dict[str, str] = {}
    for _ in range(PARTS_MAX):
        if body[at : at + 2] == b"--":
            return fields
        head, ended, _ = body[at : at + PART_HEAD_BYTES_MAX].partition(b"\r\n\r\n")
        head_end = at + len(head)
        end = find(head_end + 2) if ended else -1
        if end < 0:
            return _bad(f"{_BAD}: it ends within a part.")
        name = _name_of(head)
        if name is None:
            return _bad(f"{_BAD}: a part has no name.")
        if name in names:
            # One byte more than it may have tells that it has too many.
            value = _value_of(body[head_end + 4 : min(end, head_end + 5 + FIELD_BYTES_MAX)], name)
            if isinstance(value, Fault):
                return value
            if name in fields:
                return _bad(f"The field {name!r} occurs more than once.", name)
            fields[name] = value
        at = end + 2 + len(line)
    return _bad(f"The form has more than {PARTS_MAX} parts.")


def _line(content_type: bytes) -> bytes:
    """Return what stands between two parts; empty where no boundary is named."""
    found = _BOUNDARY.fullmatch(content_type.strip())
    return b"--" + (found[1] or found[2]) if found else b""


def _name_of(head: bytes) -> str | None:
    found = _DISPOSITION.findall(head)
    if len(found) != 1:
        return None
    named = _NAME.findall(found[0])
    if len(named) != 1:
        return None
    quoted, bare = named[0]
    return str(quoted or bare, "utf-8", "replace")


def _value_of(value: bytes, name: str) -> str | Fault:
    if len(value) > FIELD_BYTES_MAX:
        return _bad(f"The field {name!r} has more than {FIELD_BYTES_MAX} bytes.", name)
    try:
        return value.decode()
    except UnicodeDecodeError:
        return _bad(f"The field {name!r} must be text.", name)


def _bad(message: str, param: str | None = None) -> Fault:
    return Fault(kind=FaultKind.BAD_REQUEST, message=message, param=param)
