"""Forms with files in them, of which the router reads two short fields.

RFC 7578 on RFC 2046 section 5.1: parts between lines of one boundary. The files pass unread; what
a second reader could find elsewhere is refused, as with JSON.
"""

import re
from collections.abc import Mapping
from typing import Final

from opentela.router.fault import Fault, FaultKind

PARTS_MAX: Final = 256
"""Parts of one form; people send five."""
PART_HEAD_BYTES_MAX: Final = 4096
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


def read_fields(
    content_type: bytes, body: bytes, names: tuple[str, ...]
) -> Mapping[str, str] | Fault:
    """Return the fields *names* of a form as far as it has them, or the 400 that says why not."""
    found = _BOUNDARY.fullmatch(content_type.strip())
    if found is None:
        return _bad(f"{_BAD}: its Content-Type names no boundary.")
    line = b"--" + (found[1] or found[2])
    if body.startswith(line):
        at = len(line)
    elif (start := body.find(b"\r\n" + line)) >= 0:
        at = start + 2 + len(line)
    else:
        return _bad(f"{_BAD}: it does not contain its boundary.")
    return _read_parts(body, at, b"\r\n" + line, names)


def _read_parts(
    body: bytes, at: int, delimiter: bytes, names: tuple[str, ...]
) -> Mapping[str, str] | Fault:
    fields: dict[str, str] = {}
    for _ in range(PARTS_MAX):
        if body.startswith(b"--", at):
            return fields
        head_end = body.find(b"\r\n\r\n", at, at + PART_HEAD_BYTES_MAX)
        end = body.find(delimiter, head_end + 2) if head_end >= 0 else -1
        if end < 0:
            return _bad(f"{_BAD}: it ends within a part.")
        name = _name_of(body[at:head_end])
        if name is None:
            return _bad(f"{_BAD}: a part has no name.")
        if name in names:
            value = _value_of(body[head_end + 4 : end], name)
            if isinstance(value, Fault):
                return value
            if name in fields:
                return _bad(f"The field {name!r} stands there more than once.", name)
            fields[name] = value
        at = end + len(delimiter)
    return _bad(f"The form has more than {PARTS_MAX} parts.")


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
