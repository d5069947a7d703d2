"""Where nobody looks at bars, a line now and then says how far it is."""

import sys

import pytest

from opentela.placer import progress
from opentela.placer.progress import EVERY_S, Lines


def test_a_line_comes_now_and_then() -> None:
    """Not for each step, and not for what is done at once."""
    said: list[str] = []
    instants = iter((0.0, 1.0, EVERY_S, EVERY_S, EVERY_S + 1, 2 * EVERY_S, 2 * EVERY_S, 60.0, 60.0))
    with Lines(said.append, lambda: next(instants)) as lines:
        first, second = (lines.add_task(name, total=1.0) for name in ("static", "dynamic"))
        for task, share in ((first, 0.5), (first, 0.75), (first, 1.0), (second, 0.1)):
            lines.update(task, completed=share)
        lines.begin("plots")
    assert said == ["static: 75%", "dynamic: 10%", "plots …"]


def test_what_is_no_terminal_gets_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On stderr: stdout is for figures."""
    monkeypatch.setattr(progress, "EVERY_S", 0.0)
    lines = progress.shown()
    assert isinstance(lines, Lines)
    lines.update(lines.add_task("static", total=1.0), completed=0.25)
    assert capsys.readouterr() == ("", "static: 25%\n")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert not isinstance(progress.shown(), Lines)
