"""Errors say what is wrong and what to do."""

import pytest

from opentela.core.errors import ConfigError, OtelaError, UnavailableError, in_words


def test_an_error_and_its_remedy_are_one_line() -> None:
    """What the command line prints."""
    assert ConfigError("port = 'x'", remedy="use a number").line() == "port = 'x'; use a number"


def test_without_a_remedy_the_fault_stands_alone() -> None:
    """No trailing semicolon."""
    assert OtelaError("nobody listens").line() == "nobody listens"


def test_a_usage_error_exits_with_two_and_others_with_one() -> None:
    """Scripts tell a wrong call from a failed one."""
    assert (ConfigError("x").exit_code, UnavailableError("x").exit_code) == (2, 1)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (FileNotFoundError(2, "No such file or directory", "/x"), "No such file or directory"),
        (
            OSError("Multiple exceptions: [Errno 111] Refused, [Errno -2] Who"),
            "Multiple exceptions: Refused, Who",
        ),
        (TimeoutError(), "TimeoutError"),
        (ValueError("no number"), "no number"),
    ],
)
def test_no_number_of_the_system_is_shown_to_people(error: Exception, words: str) -> None:
    """Its words say as much."""
    assert in_words(error) == words
