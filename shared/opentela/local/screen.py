"""What somebody sees who watches a demonstration: steps, how long each took, what came out."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.text import Text

_INDENT = 2


class Step:
    """Something under way.

    Attributes:
        done: What to say at the end.
    """

    def __init__(self, doing: str) -> None:
        self.done = doing


class Screen:
    """Prints steps one after the other; a spinner turns while one is under way."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._began = time.perf_counter()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the beginning."""
        return time.perf_counter() - self._began

    def title(self, text: str) -> None:
        """Begin a part of the demonstration."""
        self.console.print()
        self.console.print(Rule(Text(text, style="bold"), align="left", style="dim"))

    @contextmanager
    def step(self, doing: str) -> Iterator["Step"]:
        """Show that *doing* is under way, then what was done and how long it took."""
        step = Step(doing)
        began = time.perf_counter()
        with self.console.status(Text(doing)):
            yield step
        took = time.perf_counter() - began
        self.console.print(
            Text.assemble("  ", ("✓", "green"), f" {step.done}  ", (f"{took:.1f} s", "dim"))
        )

    def show(self, *parts: RenderableType) -> None:
        """Print *parts*, indented like the steps."""
        for part in parts:
            self.console.print(Padding(part, (0, 0, 0, _INDENT)))

    def say(self, text: str, *, style: str = "") -> None:
        """Print a line of prose."""
        self.show(Text(text, style=style))

    def command(self, text: str) -> None:
        """Print what can be copied, on one line whatever the width."""
        line = Text(f"{' ' * _INDENT}  {text}", style="bold")
        self.console.print(line, soft_wrap=True)

    def quote(self, who: str, text: str = "") -> None:
        """Begin what somebody says."""
        self.console.print(Text.assemble("  ", (f"{who:>8}  ", "cyan"), text), end="")

    def more(self, text: str) -> None:
        """Go on with what somebody says, as it comes."""
        self.console.print(text, end="", markup=False, highlight=False, soft_wrap=True)

    def end_quote(self, note: str = "") -> None:
        """End what somebody says."""
        self.console.print(Text(f"  {note}" if note else "", style="dim"))
