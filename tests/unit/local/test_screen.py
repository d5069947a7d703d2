"""What a demonstration prints."""

import io
import re

import pytest
from rich.console import Console
from rich.text import Text

from opentela.local.screen import Screen


def screen() -> tuple[Screen, io.StringIO]:
    out = io.StringIO()
    return Screen(Console(file=out, width=60)), out


def test_a_step_says_what_is_done_and_how_long_it_took() -> None:
    """Somebody who watches sees progress, and where the time goes."""
    made, out = screen()
    made.title("Engines")
    with made.step("two engines load") as step:
        step.done = "two engines are loaded"
    assert "Engines ──" in out.getvalue()
    assert re.search(r"✓ two engines are loaded  \d+\.\d s", out.getvalue())


def test_a_step_that_fails_is_not_said_to_be_done() -> None:
    """The error follows by itself."""
    made, out = screen()
    with pytest.raises(KeyError), made.step("two engines load"):
        raise KeyError
    assert "✓" not in out.getvalue()


def test_an_answer_is_shown_as_it_comes() -> None:
    """Its parts make one line; markup in it is text."""
    made, out = screen()
    made.quote("model")
    made.more("It is [bold]")
    made.more("Paris.")
    made.end_quote("(from alps)")
    assert out.getvalue() == "     model  It is [bold]Paris.  (from alps)\n"


def test_what_is_to_be_copied_stays_on_one_line() -> None:
    """However narrow the terminal is."""
    made, out = screen()
    made.command("curl " + "x" * 80)
    made.show(Text("after"))
    assert out.getvalue().splitlines()[0] == "    curl " + "x" * 80
    assert made.elapsed_s >= 0
