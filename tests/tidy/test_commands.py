"""What documents and messages tell people to type exists."""

import importlib.metadata
import re
from collections.abc import Iterator
from pathlib import Path

import click
from tests.tidy import tree

from opentela import cli

TOLD = re.compile(r"\botela ((?:--?)?[a-z][^`\n#;|\"']*)")
OPTION = re.compile(r"(--[a-z-]+|-[a-z])\b")
PROSE = re.compile(r"[a-z-]+[,:.)]|[A-Z]|\S*[<…{]")


def test_every_command_that_is_told_exists() -> None:
    """A remedy that does not work is worse than none."""
    entries = importlib.metadata.entry_points(group=cli.GROUP)
    commands: dict[str, click.Command] = {entry.name: entry.load() for entry in entries}
    wrong = [
        f"{where}: otela {words}: {fault}"
        for where, words in _told()
        if (fault := _fault(commands, words.split()))
    ]
    assert wrong == []


def _told() -> Iterator[tuple[str, str]]:
    for path in (*(path for path in tree.files() if path.suffix == ".md"), *tree.sources()):
        for number, line in enumerate(tree.text(path).splitlines(), start=1):
            if not _is_output(path, line):
                for match in TOLD.finditer(line):
                    yield f"{tree.shown(path)}:{number}", match[1].strip()


def _is_output(path: Path, line: str) -> bool:
    """Return whether a line shows what is printed rather than what to type."""
    return path.suffix == ".md" and line.lstrip().startswith("otela:")


def _fault(commands: dict[str, click.Command], words: list[str]) -> str:
    """Return what is wrong with a command line that may go over into prose; empty if nothing is."""
    command: click.Command = cli.otela
    for position, word in enumerate(words):
        if word == "--" or PROSE.match(word):
            return ""
        if OPTION.fullmatch(word):
            if not _has_option(command, word):
                return f"no option {word}"
        elif isinstance(command, click.Group):
            known = commands if command is cli.otela else command.commands
            if word not in known:
                # "an otela process" and "otela command" are no command lines.
                return "" if position == 0 and command is cli.otela else f"no command {word}"
            command = known[word]
    return ""


def _has_option(command: click.Command, word: str) -> bool:
    context = click.Context(command, help_option_names=["-h", "--help"])
    return any(
        word in (*parameter.opts, *parameter.secondary_opts)
        for parameter in command.get_params(context)
    )
