"""Where tables are printed: as wide as the terminal, or as wide as they are."""

import shutil
import sys
from typing import Final

from rich.console import Console

_LEAST: Final = 80
"""Characters that figures need, and names beside them; a narrower terminal breaks the lines."""
_WIDE: Final = 1000
"""Of a line that goes to a file or another program, which need not be cut for anyone."""


def screen() -> Console:
    """Return the console of a command's figures."""
    width = max(_LEAST, shutil.get_terminal_size().columns) if sys.stdout.isatty() else _WIDE
    return Console(highlight=False, width=width)
