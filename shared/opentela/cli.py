"""The command `otela`: finds its subcommands by entry point and imports only the one that runs."""

import importlib.metadata
import sys
from collections.abc import Sequence
from typing import Final

import click

from opentela.core.errors import OtelaError

GROUP: Final = "opentela.commands"
_DISTRIBUTION: Final = "opentela"

SECTIONS: Final[dict[str, dict[str, str]]] = {
    "Try it": {
        "demo": "Show it all on this machine: two sites, two engines, one dies.",
        "up": "Run hub, registry and router on this machine.",
    },
    "Provide": {
        "start": "Run an engine and offer its models to the mesh.",
    },
    "Look": {
        "status": "Say whether the mesh works and what it serves.",
        "sessions": "List the sessions of the mesh.",
        "events": "Print lifecycle events as they happen.",
    },
    "Operate": {
        "mesh": "Set a mesh up, admit providers, connect sites.",
        "registry": "Run a registry.",
        "router": "Run a router.",
    },
}
"""What help prints, so that printing it imports no service; a test compares it with the commands'
own first lines. Commands of other distributions appear under "More"."""


class LazyGroup(click.Group):
    """A group whose commands are entry points, imported when used."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """Return every installed command."""
        return sorted(_entry_points())

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command, imported now."""
        entry = _entry_points().get(cmd_name)
        if entry is None:
            return None
        command: click.Command = entry.load()
        return command

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the installed commands by what people come for."""
        rest = dict.fromkeys(_entry_points(), "")
        for title, commands in SECTIONS.items():
            rows = [(name, text) for name, text in commands.items() if name in rest]
            for name, _ in rows:
                del rest[name]
            _section(formatter, title, rows)
        _section(formatter, "More", sorted(rest.items()))


def _section(formatter: click.HelpFormatter, title: str, rows: Sequence[tuple[str, str]]) -> None:
    if rows:
        with formatter.section(title):
            formatter.write_dl(rows, col_spacing=3)


def _entry_points() -> dict[str, importlib.metadata.EntryPoint]:
    return {entry.name: entry for entry in importlib.metadata.entry_points(group=GROUP)}


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name=_DISTRIBUTION, message="otela %(version)s")
def otela() -> None:
    """One OpenAI-compatible service out of LLM engines that come and go."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; exit 0 when it did, 1 when it failed, 2 when asked wrongly."""
    name = "otela"
    try:
        code = otela.main(arguments, prog_name="otela", standalone_mode=False)
    except click.exceptions.Exit as stop:
        code = stop.exit_code
    except click.Abort:
        code = 130
    except click.ClickException as error:
        name = error.ctx.command_path if getattr(error, "ctx", None) else name
        sys.stderr.write(f"{name}: {error.format_message()}; see {name} --help\n")
        code = error.exit_code
    except OtelaError as error:
        sys.stderr.write(f"{name}: {error.line()}\n")
        code = error.exit_code
    sys.exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()
