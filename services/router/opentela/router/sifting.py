"""Reads a large JSON object while it comes, in slices, as if it had been read at once.

Reading fifty megabytes at once takes a tenth of a second, in which nobody else is served. So a
boundary is laid behind a comma, or within a long text, and what lies between two of them is read by
the same parser as everything else: what is open at its beginning is put before it, and what is open
at its end is closed behind it. The parser goes from left to right and remembers only what is open;
hence it accepts all slices just when it accepts the whole, and stumbles over the same byte.

Whatever would not be told apart surely (a key that is repeated, a megabyte that is a key or a value
that decides, nesting that is refused anyway) is left to who reads the whole.
"""

import re
from typing import Final, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from opentela.router.members import Member, MembersError, members

SLICE_BYTES: Final = 64 * 1024
"""From so many bytes on a slice is read; as long as what came at once, at most some 300 KB."""
UNCUT_BYTES_MAX: Final = 1024 * 1024
"""Bytes in a row that cannot be cut, such as blanks: nobody sends that."""
FIELDS_MAX: Final = 1024
"""Of the object itself; requests have some thirty."""
NESTING_MAX: Final = 128
"""Levels of objects and arrays. Engines parse recursively; schemas of people stay below 30."""

_DECISIVE: Final = frozenset({"model", "stream", "otela"})
_NOT_STRUCTURE: Final = bytes(set(range(256)) - set(b'"{}[]'))
_OPENING: Final = frozenset(b"{[")
_CLOSERS: Final = bytes.maketrans(b"{[", b"}]")
_BEFORE_VALUE: Final = {ord("{"): b'{"<":', ord("["): b"["}
"""Opens what holds a value that is open itself."""
_BEFORE_NEXT: Final = {ord("{"): b'{"<":0,', ord("["): b"[0,"}
"""Opens what was cut behind a comma; another value must follow, as it must there."""
_AFTER_COMMA: Final = {ord("{"): b'">":0', ord("["): b"0"}
_ROUNDS: Final = 4
"""In which pairs of brackets are taken out, of at most two levels each: items of lists are alike,
and one by one they cost more than everything else."""
_HOPS_MAX: Final = 64
"""Texts that are passed over in search of a comma outside of them; two are in the way, or three."""
_BLANKS: Final = b" \t\r\n"
_BLANKS_MAX: Final = 64
"""Before a text, as far as anybody looks."""
_ESCAPE_BYTES: Final = 6
"""Of `\\u0041`; characters beyond 16 bits are two of them in a row."""
_HIGH: Final = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}")
_NEAR_END: Final = 16
"""Bytes by which a parser looks ahead, and more: what it says so near to a boundary is not told."""
_PLACE: Final = re.compile(r"(.*\(byte )(\d+)\)", re.DOTALL)


class Body(msgspec.Struct):
    """What is read of a body."""

    model: str | UnsetType = UNSET
    stream: msgspec.Raw = msgspec.Raw(b"")
    otela: msgspec.Raw = msgspec.Raw(b"")


decode: Final = msgspec.json.Decoder(Body).decode
"""Reads a body at once."""


class _Boundary(NamedTuple):
    """What the parser remembers there.

    Attributes:
        stack: The opening brackets of what is open.
        in_text: It lies within a string, which is a value.
    """

    stack: bytes = b""
    in_text: bool = False

    def before(self) -> bytes:
        """Return what brings a parser there."""
        if not self.stack:
            return b""
        outer = b"".join([_BEFORE_VALUE[one] for one in self.stack[:-1]])
        if self.in_text:
            return outer + _BEFORE_VALUE[self.stack[-1]] + b'"'
        return outer + _BEFORE_NEXT[self.stack[-1]]

    def after(self) -> bytes:
        """Return what ends well there."""
        if not self.stack:
            return b""
        closers = self.stack[::-1].translate(_CLOSERS)
        return (b'"' if self.in_text else _AFTER_COMMA[self.stack[-1]]) + closers


class Sifter:
    """Reads one object.

    Attributes:
        has_given_up: It cannot tell; the whole must be read.
        error: What is wrong with the body, as the parser tells of the whole.
        model: As far as it came.
        stream: The value, as JSON; empty for none.
        otela: The same.
        members: Where the fields are.
    """

    __slots__ = (
        "_at",
        "_boundary",
        "_names",
        "_rest",
        "_slice_bytes",
        "error",
        "has_given_up",
        "members",
        "model",
        "otela",
        "stream",
    )

    def __init__(self, slice_bytes: int = SLICE_BYTES) -> None:
        self.has_given_up = False
        self.error: msgspec.DecodeError | None = None
        self.model: str | UnsetType = UNSET
        self.stream = b""
        self.otela = b""
        self.members: list[Member] = []
        self._names: dict[str, None] = {}
        self._slice_bytes = slice_bytes
        self._boundary = _Boundary()
        self._at = 0  # where the boundary is
        self._rest = b""  # what came since

    def feed(self, piece: bytes) -> None:
        """Read on; a piece should not be much larger than a slice."""
        if not self._goes_on:
            return
        self._rest = self._rest + piece if self._rest else piece
        while len(self._rest) >= self._slice_bytes and self._read_on():
            pass
        if len(self._rest) > UNCUT_BYTES_MAX:
            self._give_up()

    def end(self) -> None:
        """Read the rest: that was all."""
        if self._goes_on:
            if self._reached(_masked(self._rest)) is None:
                self._give_up()
            else:
                self._read(len(self._rest), None, touches=True)
        self._rest = b""

    def _give_up(self) -> None:
        self.has_given_up = True
        self._rest = b""

    # Boundaries --------------------------------------------------------------

    def _read_on(self) -> bool:
        """Read up to a boundary as late as can be found; return whether more can be read."""
        rest = self._rest
        if self._boundary.in_text and _is_all_text(rest):
            # As in nearly all of a large body.
            end = _escapes_end(rest)
            return end > 0 and self._read(end, self._boundary, touches=False) and self._goes_on
        masked = _masked(rest)
        # A value that decides is not cut: an earlier boundary will do, or more of the body.
        for limit in (len(rest), len(rest) // 2, len(rest) // 4):
            cut = self._behind_comma(masked, limit)
            in_text = not cut
            if in_text:
                cut = self._within_text(masked) if limit == len(rest) else 0
            if not cut:
                return False
            reached = self._reached(masked[:cut])
            if reached is None:
                self._give_up()
                return False
            stack, touches = reached
            if self._read(cut, _Boundary(stack, in_text), touches=touches):
                return self._goes_on
        return False

    @property
    def _goes_on(self) -> bool:
        return self.error is None and not self.has_given_up

    def _behind_comma(self, masked: bytes, limit: int) -> int:
        """Return the place behind the last comma before *limit* that is in no text; or 0."""
        quotes = self._boundary.in_text + masked.count(b'"', 0, limit)
        for _ in range(_HOPS_MAX):
            comma = masked.rfind(b",", 0, limit)
            if comma < 0:
                break
            quotes -= masked.count(b'"', comma, limit)
            if quotes % 2 == 0:
                return comma + 1
            limit = masked.rfind(b'"', 0, comma)
            if limit < 0:
                break
            quotes -= 1
        return 0

    def _within_text(self, masked: bytes) -> int:
        """Return the end of what came, if a value is cut there that is a text; or 0."""
        if (self._boundary.in_text + masked.count(b'"')) % 2 == 0:
            return 0
        opening = masked.rfind(b'"')
        if opening >= 0 and not self._is_value(masked, opening):
            return 0
        end = _escapes_end(self._rest)
        return end if end > opening + 1 else 0

    def _is_value(self, masked: bytes, opening: int) -> bool:
        before = masked[max(0, opening - _BLANKS_MAX) : opening].rstrip(_BLANKS)
        if before.endswith(b":"):
            return True
        if before[-1:] not in {b"[", b","} and (before or opening > _BLANKS_MAX):
            return False
        reached = self._reached(masked[:opening])
        return reached is not None and reached[0].endswith(b"[")

    def _reached(self, masked: bytes) -> tuple[bytes, bool] | None:
        """Return what is open behind *masked*, and whether fields of the object begin or end in it.

        It is None where nesting goes too deep, or ends more often than it began.
        """
        before, in_text = self._boundary
        touches = len(before) <= 1 and not (in_text and b'"' not in masked)
        # Texts without brackets are empty now; where one ends and the next begins is no matter.
        structure = masked.translate(None, _NOT_STRUCTURE).replace(b'""', b"")
        stack, outside = bytearray(before), b"".join(structure.split(b'"')[in_text::2])
        outside, levels = _without_pairs(outside)
        for bracket in outside:
            if bracket in _OPENING:
                stack.append(bracket)
                if len(stack) > NESTING_MAX - levels:
                    return None
            elif stack:
                stack.pop()
                touches = touches or len(stack) <= 1
            else:
                return None
        return bytes(stack), touches

    # Reading -----------------------------------------------------------------

    def _read(self, size: int, after: _Boundary | None, *, touches: bool) -> bool:
        """Read *size* bytes; return False when that would cut a value that decides.

        *after* is what the parser must remember then; None at the end.
        """
        before = self._boundary.before()
        document = b"".join((before, self._rest[:size], after.after() if after else b""))
        try:
            read = decode(document)
        except msgspec.ValidationError as error:
            self.error = error
            return True
        except msgspec.DecodeError as error:
            self._misread(str(error), len(before), size, is_last=after is None)
            return True
        except (UnicodeDecodeError, RecursionError):
            self._give_up()
            return True
        if touches and not self._note_fields(document, len(before), len(before) + size):
            return self.has_given_up
        if read.model is not UNSET:
            self.model = read.model
        self.stream = bytes(read.stream) or self.stream
        self.otela = bytes(read.otela) or self.otela
        self._at += size
        self._rest = self._rest[size:]
        self._boundary = after or self._boundary
        return True

    def _misread(self, complaint: str, start: int, size: int, *, is_last: bool) -> None:
        place = _PLACE.fullmatch(complaint)
        if place is None and is_last:
            self.error = msgspec.DecodeError(complaint)
            return
        at = int(place[2]) - start if place else -1
        if place is None or at < 0 or not (is_last or at < size - _NEAR_END):
            self._give_up()
            return
        self.error = msgspec.DecodeError(f"{place[1]}{self._at + at})")

    def _note_fields(self, document: bytes, start: int, end: int) -> bool:
        """Note the fields that begin or end there; return False if that cannot be.

        Ours is the first one unless nothing was before, and the one behind *end*.
        """
        try:
            found = members(document, most=FIELDS_MAX)
        except MembersError:
            self._give_up()
            return False
        before, shift = self._boundary, self._at - start
        ours = found.pop(0) if before.stack else None
        found = [_shifted(one, shift) for one in found if one.name_at < end]
        if found and found[-1].value_end > end + shift and found[-1].name in _DECISIVE:
            return False
        for one in found:
            if one.name in self._names or len(self._names) == FIELDS_MAX:
                self._give_up()
                return False
            self._names[one.name] = None
        if ours is not None and (before.in_text or len(before.stack) > 1):
            ended = _shifted(ours, shift)
            self.members[-1] = self.members[-1]._replace(
                value_end=ended.value_end, next_at=ended.next_at
            )
        self.members += found
        return True


def _is_all_text(data: bytes) -> bool:
    """Return whether a text surely goes on behind *data*: every quote in it is escaped."""
    if b'"' not in data:
        return True
    return b'\\\\"' not in data and data.count(b'"') == data.count(b'\\"')


def _masked(data: bytes) -> bytes:
    """Return *data* with no quotes but those that begin or end a text."""
    if b"\\" not in data:
        return data
    return data.replace(b"\\\\", b"__").replace(b'\\"', b"__")


def _without_pairs(brackets: bytes) -> tuple[bytes, int]:
    """Return *brackets* without most of what opens and closes again, and how deep that may be."""
    levels = 0
    for _ in range(_ROUNDS):
        left = brackets.replace(b"{}", b"").replace(b"[]", b"")
        if left == brackets:
            break
        brackets = left
        levels += 2
    return brackets, levels


def _escapes_end(text: bytes) -> int:
    """Return the last place in *text* at which no escape is cut, nor a character of two."""
    at = text.rfind(b"\\", max(0, len(text) - _ESCAPE_BYTES))
    if at < 0 or not _is_escape(text, at):
        return len(text)
    escape = text[at:]
    if len(escape) > 1 and escape[1:2] != b"u":
        return len(text)
    if len(escape) == _ESCAPE_BYTES and not _HIGH.match(escape):
        return len(text)
    before = at - _ESCAPE_BYTES
    if before >= 0 and _HIGH.match(text, before) and _is_escape(text, before):
        return before
    return at


def _is_escape(text: bytes, at: int) -> bool:
    """Return whether an escape begins with the backslash at *at*: every second one of a row."""
    upto = text[: at + 1]
    return (len(upto) - len(upto.rstrip(b"\\"))) % 2 == 1


def _shifted(one: Member, by: int) -> Member:
    return Member(
        one.name, one.name_at + by, one.value_at + by, one.value_end + by, one.next_at + by
    )
