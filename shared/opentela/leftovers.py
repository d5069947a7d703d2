"""Processes of one run, found by a variable that each of them inherited."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")


class Found(NamedTuple):
    """A process that runs."""

    pid: int
    parent: int
    command: str


def marked(name: str, value: str) -> list[Found]:
    """Return the processes of ours whose environment began with `name=value` in it."""
    needle = f"{name}={value}".encode()
    return [one for one, environ in _processes() if needle in environ.split(b"\0")]


def below(found: list[Found], ancestor: int) -> list[Found]:
    """Return those that *ancestor* started, or whose parents it started; nearest first."""
    nearest = [one for one in found if one.parent == ancestor]
    return nearest + [deeper for one in nearest for deeper in below(found, one.pid)]


def _processes() -> Iterator[tuple[Found, bytes]]:
    for folder in _PROC.iterdir():
        if not folder.name.isdigit():
            continue
        try:
            environ = (folder / "environ").read_bytes()
            command = (
                (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            )
            # Whatever a command is called, it stands in parentheses; the parent follows the state.
            after_name = (folder / "stat").read_text(errors="replace").rpartition(")")[2]
        except OSError:
            continue  # it ended meanwhile, or is another user's
        state, parent = after_name.split()[:2]
        if state != "Z":
            yield Found(int(folder.name), int(parent), command.strip()), environ
