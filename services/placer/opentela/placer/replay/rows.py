"""Lines of traces, and what stands in them: each fault with its line, its field and a remedy."""

import csv
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from opentela.core.errors import UsageError

TOKENS_MAX: Final = 1 << 24
"""Of a prompt or an answer; longer than the longest context that any model has."""
INSTANT_MAX_S: Final = 1e11
"""Some thousand years; what is beyond was meant in milliseconds, or not at all."""

_MORE: Final = "\0more"


class Row(NamedTuple):
    """One line.

    Attributes:
        number: Of the line in its file; the first is 1.
    """

    number: int
    fields: Mapping[str, Any]

    def fault(self, what: str, remedy: str = "correct it") -> UsageError:
        """Return the error that something is wrong in this line."""
        return UsageError(f"line {self.number}: {what}", remedy=remedy)

    def text(self, field: str) -> str:
        """Return what stands in *field*; empty when nothing does."""
        value = self.fields.get(field)
        return "" if value is None else str(value)

    def number_in(
        self, field: str, *, least: float = 0.0, most: float, default: float | None = None
    ) -> float:
        """Return the number in *field*.

        Raises:
            UsageError: It is missing, none, or out of bounds.
        """
        value = self.fields.get(field)
        if value is None or value == "":
            if default is None:
                raise self.fault(f"{field} is missing")
            return default
        try:
            number = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not least <= number <= most:
            raise self.fault(f"{field} = {_short(value)} is no number from {least:g} to {most:g}")
        return number

    def tokens(self, field: str, *, default: float | None = None) -> int:
        """Return the count of tokens in *field*.

        Raises:
            UsageError: There is none, or none that can be.
        """
        number = self.number_in(field, most=TOKENS_MAX, default=default)
        if number != round(number):
            raise self.fault(f"{field} = {_short(self.fields[field])} is no whole number")
        return int(number)


def table(text: str, needed: Sequence[str]) -> Iterator[Row]:
    """Yield the lines of a CSV file after its head.

    Raises:
        UsageError: A column of *needed* is missing, or a line cannot be read.
    """
    reader = csv.DictReader(text.splitlines(), restkey=_MORE)
    try:
        names = reader.fieldnames or ()
        missing = [name for name in needed if name not in names]
        if missing:
            raise UsageError(
                f"line 1: there is no column {', '.join(missing)}",
                remedy=f"begin with {','.join(needed)}",
            )
        for fields in reader:
            row = Row(reader.line_num, fields)
            if _MORE in fields:
                raise row.fault(f"there are more than {len(names)} values")
            yield row
    except csv.Error as error:
        number = reader.reader.line_num
        raise UsageError(f"line {number}: {error}", remedy="correct it") from error


def objects(text: str) -> Iterator[Row]:
    """Yield the lines of a file of JSON objects; empty ones are left out.

    Raises:
        UsageError: A line is none.
    """
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"line {number}: {error}", remedy="correct it") from error
        if not isinstance(fields, dict):
            raise UsageError(f"line {number} is not a JSON object", remedy="correct it")
        yield Row(number, fields)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}…"  # noqa: PLR2004 - a line stays a line
