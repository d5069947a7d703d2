"""Commands for a mesh on this machine, and for looking into any mesh."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Console

from opentela import service
from opentela.core.account import account_of
from opentela.core.errors import UnavailableError
from opentela.core.record import SessionRecord, claim_of
from opentela.events import Wanted
from opentela.local import history, look, rows, tables
from opentela.local import placements as placing
from opentela.local.demo import demo as run_demo
from opentela.local.home import Home, default_home
from opentela.local.screen import Screen
from opentela.local.up import up as run_up
from opentela.service import Lifecycle, SystemClock
from opentela.wire.events import KINDS, LifecycleEvent

_home_option = click.option(
    "--home",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the mesh. [default: $OTELA_HOME or ~/.local/share/opentela/default]",
)
_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def _access_options(command: Callable[..., Any]) -> Callable[..., Any]:
    option = click.option(
        "--access",
        type=click.Path(path_type=Path, dir_okay=False),
        envvar="OTELA_ACCESS",
        help="Access file of a tool, for another mesh. [default: the one in --home]",
    )
    return option(_home_option(command))


@click.command()
@_home_option
@click.option(
    "--api",
    default="127.0.0.1:8080",
    show_default=True,
    metavar="HOST:PORT",
    help="Address for OpenAI clients.",
)
@click.option(
    "--placer",
    type=click.Path(path_type=Path, dir_okay=False, exists=True, resolve_path=True),
    help="Also run a placer; FILE lists the models that it may start.",
)
@_json_option
def up(*, home: Path | None, api: str, placer: Path | None, as_json: bool) -> None:
    """Run hub, registry and router on this machine.

    All state is in one folder, created at the first run. Ctrl-C stops everything.
    """

    async def main(life: Lifecycle) -> None:
        await run_up(
            life,
            _home(home),
            api=api,
            clock=SystemClock(),
            as_json=as_json,
            placer=placer,
        )

    service.run_for_people(main, name="up")


@click.command()
@_access_options
@_json_option
def status(*, home: Path | None, access: Path | None, as_json: bool) -> None:
    """Show whether the mesh works and what it serves.

    Exits with 1 if something does not work.
    """
    path = _access(_home(home), access)
    # What runs on this machine says nothing of a mesh elsewhere.
    here = _home(home) if access is None else None

    is_well = True

    async def main(life: Lifecycle) -> None:
        async def work() -> None:
            nonlocal is_well
            one = await look.status(here, path, SystemClock())
            is_well = one.ok
            if as_json:
                _print_json(one)
            else:
                look.print_status(Console(), one, here)

        await look.until_stopped(life, work())

    service.run_for_people(main, name="status")
    if not is_well:
        sys.exit(1)


@click.command()
@_access_options
@click.option("--model", default="", help="Only sessions that offer this model.")
@click.option("--all", "with_ended", is_flag=True, help="Include those that are DOWN or LEFT.")
@click.option(
    "--explain",
    "asked",
    metavar="ID",
    help="Explain the state of one session; the end of its id is enough.",
)
@_json_option
def sessions(
    *,
    home: Path | None,
    access: Path | None,
    model: str,
    with_ended: bool,
    asked: str | None,
    as_json: bool,
) -> None:
    """List the sessions of the mesh."""
    here = _home(home)
    path = _access(here, access)
    provider_access = "FILE" if access else str(here.access("provider"))

    async def main(life: Lifecycle) -> None:
        async def work() -> None:
            clock = SystemClock()
            async with look.into(path, clock, name="otela sessions") as mesh:
                records = mesh.records(with_ended=with_ended or asked is not None)
                if asked is not None:
                    _explain(rows.named(records, asked), as_json=as_json)
                    return
                listed = rows.listed(records, mesh.now_ms, model=model, with_ended=with_ended)
            if as_json:
                _print_json(listed)
            else:
                console = Console()
                table = tables.sessions(
                    listed, console.options, provider_access=provider_access, model=model
                )
                tables.show(console, table)

        await look.until_stopped(life, work())

    service.run_for_people(main, name="sessions")


def _explain(record: SessionRecord, *, as_json: bool) -> None:
    lines = account_of(record)
    if as_json:
        _print_json({"session": claim_of(record).session, "account": lines})
    else:
        click.echo("\n".join((claim_of(record).session, *lines)))


@click.command()
@_access_options
@click.option("-f", "--follow", is_flag=True, help="Then print new events as they happen.")
@click.option(
    "--type",
    "kinds",
    multiple=True,
    type=click.Choice(KINDS, case_sensitive=False),
    help="Only events of this type; repeatable.",
)
@click.option("--model", "models", multiple=True, help="Only sessions that offer this model.")
@click.option("--site", "sites", multiple=True, help="Only sessions at this site.")
@click.option("--since", default="1h", show_default=True, help="How far back: 90s, 10m, 2h, 1d.")
@_json_option
def events(
    *,
    home: Path | None,
    access: Path | None,
    follow: bool,
    since: str,
    as_json: bool,
    **wanted: tuple[str, ...],
) -> None:
    """Print past lifecycle events and, with -f, new ones.

    The hub keeps them for 30 days, if it was set up with JetStream.
    """
    path = _access(_home(home), access)
    length = history.length(since)
    console = Console(soft_wrap=True)

    told = 0

    def tell(event: LifecycleEvent) -> None:
        nonlocal told
        told += 1
        if as_json:
            _print_json(event)
        else:
            console.print(tables.event(event))

    async def main(life: Lifecycle) -> None:
        async def work() -> None:
            await look.events(path, Wanted(**wanted), length, tell, follow=follow)
            if not told and not as_json:
                console.print(f"No event of the last {since}; -f waits for the next.", style="dim")

        await look.until_stopped(life, work())

    service.run_for_people(main, name="events")


@click.command()
@_home_option
@click.option("--url", default="", help="Health page of another placer.")
@click.option(
    "--token-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File with the token for that page.",
)
@click.option("--explain", is_flag=True, help="Give the reasons, model by model.")
@_json_option
def placements(
    *, home: Path | None, url: str, token_file: Path | None, explain: bool, as_json: bool
) -> None:
    """Show what a placer has decided, why, and what is in progress."""

    async def main(life: Lifecycle) -> None:
        async def work() -> None:
            told = await placing.placements(_home(home), url=url, token_file=token_file)
            if as_json:
                _print_json(told)
            else:
                placing.show(Console(), told, explain=explain)

        await look.until_stopped(life, work())

    service.run_for_people(main, name="placements")


@click.command()
@click.option("--keep", is_flag=True, help="Keep everything running at the end, until Ctrl-C.")
def demo(*, keep: bool) -> None:
    """Show everything on this machine: two sites, two engines, one dies."""

    async def main(life: Lifecycle) -> None:
        screen = Screen(Console(highlight=False))
        await run_demo(life, screen, SystemClock(), keep=keep)

    service.run_for_people(main, name="demo")


def _home(chosen: Path | None) -> Home:
    return Home((chosen or default_home(os.environ)).expanduser())


def _access(home: Home, chosen: Path | None) -> Path:
    if chosen is None and home.state() is None:
        known = home.tool_access.exists()
        raise UnavailableError(
            f"the mesh in {home.path} is not up" if known else f"there is no mesh in {home.path}",
            remedy=f"start {'it' if known else 'one'} with otela up,"
            " or name another with --access FILE",
        )
    return chosen or home.tool_access


def _print_json(value: object) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(value) + b"\n")
    sys.stdout.flush()
