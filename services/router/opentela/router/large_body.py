"""A large body while it comes: kept in pieces, and read piece by piece.

Joining or reading fifty megabytes at once would stop the router for all others. No step here looks
at more than what came at once and a slice besides.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from opentela.core.pieces import Pieces
from opentela.router.body_scan import BRACKETS_MAX, BodyScan
from opentela.router.forms import Boundaries
from opentela.router.members import FIELDS_MAX, Member
from opentela.router.sifting import Body, Sifter

LARGE_FROM: Final = 256 * 1024
"""Bytes above which a body is kept so; less is joined and read in a moment."""
PIECE_BYTES: Final = 64 * 1024
"""From so many bytes on what came is a piece for itself; less is joined with what comes next."""

_BLANKS: Final = b" \t\r\n"
_BLANKS_MAX: Final = 64
"""Before a body, as far as anybody looks."""


class LargeBody:
    """One body; `feed` it, then `end` it, then ask.

    Attributes:
        boundaries: Of a form; None of others.
    """

    __slots__ = (
        "_colons", "_gathered", "_gathered_bytes", "_pieces", "_scan", "_sifter", "boundaries",
    )  # fmt: skip

    def __init__(self, content_type: bytes = b"") -> None:
        self.boundaries = Boundaries.of(content_type)
        self._pieces: list[bytes] = []
        self._gathered: list[bytes] = []
        self._gathered_bytes = 0
        self._colons = 0
        self._scan = BodyScan()
        self._sifter: Sifter | None = None  # of what may be JSON

    def feed(self, part: bytes) -> None:
        """Take the next part in."""
        self._gathered.append(part)
        self._gathered_bytes += len(part)
        if self._gathered_bytes >= PIECE_BYTES:
            self._take()

    def end(self) -> Pieces:
        """Return the body: that was all."""
        self._take()
        if self._sifter is not None:
            self._sifter.end()
        pieces, self._pieces = self._pieces, []
        return Pieces(pieces)

    def read(self) -> Body | None:
        """Return what was read of it; None when it must be read as a whole.

        Raises:
            msgspec.DecodeError: The whole could not be read, either.
        """
        sifter = self._sifter
        if sifter is None or sifter.has_given_up:
            return None
        if sifter.error is not None:
            raise sifter.error
        if self._scan.brackets > BRACKETS_MAX:
            return None
        # Who would have to look for repeated keys in the whole would refuse so many fields.
        if self._colons > FIELDS_MAX and (sifter.otela or self._scan.may_repeat):
            return None
        return Body(sifter.model, msgspec.Raw(sifter.stream), msgspec.Raw(sifter.otela))

    @property
    def members(self) -> Sequence[Member] | None:
        """Where the fields of a body are that was read; None when nobody knows."""
        sifter = self._sifter
        if sifter is None or sifter.has_given_up or sifter.error is not None:
            return None
        return sifter.members

    def _take(self) -> None:
        if not self._gathered:
            return
        gathered = self._gathered
        piece = gathered[0] if len(gathered) == 1 else b"".join(gathered)
        gathered.clear()
        self._gathered_bytes = 0
        if not self._pieces and piece[:_BLANKS_MAX].lstrip(_BLANKS).startswith(b"{"):
            self._sifter, self.boundaries = Sifter(), None
        self._pieces.append(piece)
        if self._sifter is not None:
            self._scan.feed(piece)
            self._colons += piece.count(b":")
            self._sifter.feed(piece)
        elif self.boundaries is not None:
            self.boundaries.feed(piece)
