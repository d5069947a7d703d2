"""Errors say what is wrong and what to do."""

from opentela.core.errors import ConfigError, OtelaError, UnavailableError


def test_an_error_and_its_remedy_are_one_line() -> None:
    """What the command line prints."""
    assert ConfigError("port = 'x'", remedy="use a number").line() == "port = 'x'; use a number"


def test_without_a_remedy_the_fault_stands_alone() -> None:
    """No trailing semicolon."""
    assert OtelaError("nobody listens").line() == "nobody listens"


def test_a_usage_error_exits_with_two_and_others_with_one() -> None:
    """Scripts tell a wrong call from a failed one."""
    assert (ConfigError("x").exit_code, UnavailableError("x").exit_code) == (2, 1)
