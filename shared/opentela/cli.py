"""The command `otela`: finds its subcommands by entry point and imports only the one that runs."""

import difflib
import importlib.metadata
import sys
from collections.abc import Sequence
from typing import Any, Final

import click

from opentela.explain import explain

GROUP: Final = "opentela.commands"
_DISTRIBUTION: Final = "opentela"
_INTERRUPTED: Final = 130
"""What shells report for Ctrl-C."""

SECTIONS: Final[dict[str, dict[str, str]]] = {
    "Try it": {
        "demo": "Show everything on this machine: two sites, two engines, one dies.",
        "up": "Run hub, registry and router on this machine.",
    },
    "Provide": {
        "start": "Run an engine and offer its models to the mesh.",
        "agent": "Offer an allocation's GPUs, and run what a placer assigns to them.",
        "submit": "Run an engine in Slurm jobs and offer its models to the mesh.",
        "jobs": "List the jobs of your services.",
        "cancel": "End a service: finish its running requests, then end its jobs.",
        "keep": "Submit the successor of this Slurm job; job scripts run this.",
        "advise": "Tell the mesh that the jobs of SESSIONS have ended, or still run.",
    },
    "Look": {
        "status": "Show whether the mesh works and what it serves.",
        "sessions": "List the sessions of the mesh.",
        "placements": "Show what a placer has decided, why, and what is in progress.",
        "events": "Print past lifecycle events and, with -f, new ones.",
    },
    "Place": {
        "plan": "Decide which models run where.",
        "simulate": "Show what one replica of MODEL can do under load.",
        "replay": "Replay traces under several placements, and write a report.",
        "catalogue": "List the GPUs, models and engines that the simulator knows.",
        "calibrate": "Fit the simulator to measurements again.",
    },
    "Operate": {
        "mesh": "Set up a mesh, admit providers, connect sites.",
        "registry": "Run a registry, which keeps track of all sessions.",
        "router": "Run a router, the endpoint for OpenAI clients.",
        "placer": "Run a placer, which moves models between agents with demand.",
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
        try:
            command: click.Command = entry.load()
        except ModuleNotFoundError as error:
            raise _lacking(cmd_name, error) from error
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that was asked for; one that is nearly right is suggested."""
        if args and args[0] not in (known := self.list_commands(ctx)):
            close = difflib.get_close_matches(args[0], known, n=1)
            hint = f". Did you mean {close[0]!r}?" if close else ""
            ctx.fail(f"No such command {args[0]!r}{hint}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the chosen command; a failure that is no bug ends as one line and an exit code."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            code = explain(error, f"{ctx.command_path} {ctx.invoked_subcommand}")
            if code is None:
                raise
            raise click.exceptions.Exit(code) from error

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the installed commands by what people come for."""
        rest = dict.fromkeys(_entry_points(), "")
        for title, commands in SECTIONS.items():
            rows = [(name, text) for name, text in commands.items() if name in rest]
            for name, _ in rows:
                del rest[name]
            _section(formatter, title, rows)
        _section(formatter, "More", sorted(rest.items()))


def _lacking(command: str, error: ModuleNotFoundError) -> Exception:
    """Return what a missing module means: an extra that is not installed, or a bug."""
    if error.name is None or error.name.partition(".")[0] == _DISTRIBUTION:
        return error
    return click.ClickException(
        f"{command} needs {error.name}, which is not installed; run: pip install 'opentela[all]'"
    )


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
    """One OpenAI-compatible endpoint for LLM engines that come and go."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; exit 0 when it did, 1 when it failed, 2 when asked wrongly."""
    try:
        code = otela.main(arguments, prog_name="otela", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        code = error.exit_code
    except click.UsageError as error:
        name = error.ctx.command_path if error.ctx else "otela"
        said = _one_line(error.format_message())
        further = " See" if said.endswith("?") else "; see"
        sys.stderr.write(f"{name}: {said}{further} {name} --help\n")
        code = error.exit_code
    except click.ClickException as error:
        sys.stderr.write(f"otela: {_one_line(error.format_message())}\n")
        code = error.exit_code
    except click.Abort:
        code = _INTERRUPTED
    sys.exit(code if isinstance(code, int) else 0)


def _one_line(message: str) -> str:
    return " ".join(message.split()).removesuffix(".")


if __name__ == "__main__":
    main()
