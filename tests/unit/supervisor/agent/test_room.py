"""Replicas get neighbours, and large gaps stay large."""

import pytest

from opentela.core.errors import UsageError
from opentela.supervisor.agent import room

EIGHT = tuple(map(str, range(8)))


@pytest.mark.parametrize(
    ("held", "count", "expected"),
    [
        ("", 1, "0"),
        ("", 8, "01234567"),
        ("0", 2, "23"),  # begins at a multiple of two
        ("0", 1, "1"),
        ("0123", 4, "4567"),
        ("2", 1, "0"),  # the smaller gap: five stay together
        ("0267", 3, "345"),
        ("13", 4, "4567"),
    ],
)
def test_neighbours_are_found(held: str, count: int, expected: str) -> None:
    """In the smallest gap that has room."""
    assert room.place(EIGHT, set(held), count) == tuple(expected)


@pytest.mark.parametrize(
    ("held", "count", "missing"),
    [
        ("", 9, "9 GPUs are asked for, and the allocation has 8"),
        ("01234", 4, "4 GPUs are asked for, and 3 of 8 are free"),
        ("1357", 2, "2 GPUs next to each other are asked for, and free are 0, 2, 4, 6"),
    ],
)
def test_what_is_missing_is_named(held: str, count: int, missing: str) -> None:
    """A placer, and whoever reads its log, learns why."""
    with pytest.raises(UsageError, match=missing):
        room.place(EIGHT, set(held), count)
