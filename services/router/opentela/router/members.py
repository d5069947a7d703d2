"""Where the members of a JSON object stand, so that one can be cut out and every other byte stays.

The values are skipped by the parser of msgspec, however large they are: a loop over their parts
would stop the router for seconds on a body of the size that clients may send.
"""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from opentela.core.pieces import Text, replaced

FIELDS_MAX: Final = 200_000
"""Colons of a body of which the members are looked for: no more fields can be in it, and these are
found within some hundredths of a second. Bodies of people have some hundred."""
NAME_CHARS_MAX: Final = 1024
"""Of a member."""

_NAME: Final = re.compile(
    rb'[ \t\r\n]*("(?:[^"\\]|\\.){0,%d}")[ \t\r\n]*:[ \t\r\n]*' % NAME_CHARS_MAX, re.DOTALL
)
_NEXT: Final = re.compile(rb"[ \t\r\n]*([,}])")
_decode: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_name: Final = msgspec.json.Decoder(str).decode


class MembersError(Exception):
    """The members cannot be told apart, or not soon; the words are for whoever sent the body.

    Attributes:
        name: The member that is the reason; empty when none is.
    """

    def __init__(self, message: str, name: str = "") -> None:
        super().__init__(message)
        self.name = name


class Member(NamedTuple):
    """One member of an object.

    Attributes:
        name_at: Where its name begins.
        value_at: Where its value begins.
        value_end: The end of the value.
        next_at: The comma behind it, or the end of the object.
    """

    name: str
    name_at: int
    value_at: int
    value_end: int
    next_at: int


def members(body: bytes, *, most: int = FIELDS_MAX) -> list[Member]:
    """Return the members of *body*, a JSON object, in their order.

    Args:
        body: The whole object.
        most: With more of its own it is not read on.

    Raises:
        MembersError: A name stands there twice, which readers take differently, or is too long;
            there are too many; or *body* is no object.
    """
    if body.count(b":") > FIELDS_MAX:
        raise MembersError(f"The body has more than {FIELDS_MAX} fields.")
    try:
        values = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MembersError(f"The body is not a JSON object: {error}.") from error
    if len(values) > most:
        raise MembersError(f"The body has more than {most} fields of its own.")
    found: list[Member] = []
    at = body.index(b"{") + 1
    left = dict(values)
    while left:
        token = _NAME.match(body, at)
        if token is None:
            raise MembersError(f"A field's name is longer than {NAME_CHARS_MAX} characters.")
        name = _decode_name(token[1])
        value = left.pop(name, None)
        end = token.end() + len(value or b"")
        follows = _NEXT.match(body, end)
        # The parser keeps the last of several: another one is not as long, or not left.
        if value is None or follows is None or not body.startswith(bytes(value), token.end()):
            raise MembersError(f"The field {name[:128]!r} occurs more than once.", name)
        found.append(Member(name, token.start(1), token.end(), end, follows.start(1)))
        at = follows.end()
    if found and body[at - 1 : at] != b"}":
        again = _NAME.match(body, at)
        name = _decode_name(again[1]) if again else ""
        raise MembersError(f"The field {name[:128]!r} occurs more than once.", name)
    return found


class Edit(NamedTuple):
    """What takes the place of some bytes of a body."""

    start: int
    stop: int
    by: bytes = b""


def removal(found: Sequence[Member], name: str) -> list[Edit]:
    """Return what takes the member *name* out, if it is there; every other byte stays."""
    for index, member in enumerate(found):
        if member.name != name:
            continue
        if index + 1 < len(found):
            return [Edit(member.name_at, found[index + 1].name_at)]
        start = found[index - 1].next_at if index else member.name_at
        return [Edit(start, member.next_at)]
    return []


def change(found: Sequence[Member], name: str, value: bytes) -> list[Edit]:
    """Return what gives the member *name* another value, if it is there."""
    return [Edit(one.value_at, one.value_end, value) for one in found if one.name == name]


def edited(body: Text, edits: Sequence[Edit]) -> Text:
    """Return *body* with *edits* made, none of which overlap."""
    for edit in sorted(edits, reverse=True):
        body = replaced(body, *edit)
    return body
