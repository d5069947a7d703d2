"""Each fault of a line is told with its number, its field and what to do."""

import pytest

from opentela.core.errors import UsageError
from opentela.placer.replay.rows import TOKENS_MAX, Row, objects, table

NEEDED = ("a", "b")


def test_lines_are_counted_as_editors_count_them() -> None:
    """The head is the first; empty ones are left out and count."""
    rows = list(table("a,b,c\n1,2,3\n\n4,5\n", NEEDED))
    assert [(row.number, row.text("a"), row.text("c")) for row in rows] == [
        (2, "1", "3"),
        (4, "4", ""),
    ]
    assert [row.number for row in objects('{"a": 1}\n\n{"a": 2}\n')] == [1, 3]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "line 1: there is no column a, b"),
        ("a,c\n1,2\n", "line 1: there is no column b"),
        ("a,b\n1,2\n1,2,3\n", "line 3: there are more than 2 values"),
        (f"a,b\n1,{'x' * 200_000}\n", "line 2: field larger than field limit"),
    ],
)
def test_a_table_that_cannot_be_read_is_told(text: str, fault: str) -> None:
    """One line."""
    with pytest.raises(UsageError, match=fault):
        list(table(text, NEEDED))


@pytest.mark.parametrize("text", ["{", "[1, 2]", "7", "[" * 100_000])
def test_what_is_no_object_is_told(text: str) -> None:
    """However it is wrong."""
    with pytest.raises(UsageError, match="line 1"):
        list(objects(text))


@pytest.mark.parametrize(
    "value", ["x", "nan", "-1", "1e99", "inf", True, [1], {}, 1e99, 10**400, "9" * 5000]
)
def test_what_is_no_amount_is_told(value: object) -> None:
    """By its field; what is long is cut."""
    with pytest.raises(UsageError, match="line 7: a = ") as raised:
        Row(7, {"a": value}).number_in("a", most=10.0)
    assert len(raised.value.line()) < 120


def test_what_is_missing_is_told_unless_something_stands_in_for_it() -> None:
    """An empty field is a missing one."""
    row = Row(7, {"a": "", "b": None})
    assert [row.number_in(field, most=1.0, default=0.5) for field in ("a", "b", "c")] == [0.5] * 3
    with pytest.raises(UsageError, match="line 7: a is missing"):
        row.number_in("a", most=1.0)


def test_tokens_are_whole_and_not_too_many() -> None:
    """As CSV has them and as JSON does."""
    assert [Row(1, {"a": value}).tokens("a") for value in ("12", 12, "12.0")] == [12] * 3
    for value in ("1.5", TOKENS_MAX + 1):
        with pytest.raises(UsageError, match="line 1: a = "):
            Row(1, {"a": value}).tokens("a")
