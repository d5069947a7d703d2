"""How rows look on a terminal, a narrow one too. Nothing foreign is trusted: it is plain text."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.table import Table
from rich.text import Text

from opentela.local.home import Home, State
from opentela.local.rows import ModelRow, SessionRow, duration
from opentela.wire.audit import Asked, Placed
from opentela.wire.command import ENGINE
from opentela.wire.events import LifecycleEvent

_NOTHING: Final = "-"
_STATE_STYLE: Final = {
    "JOINING": "cyan",
    "SERVING": "green",
    "DRAINING": "yellow",
    "SUSPECTED": "bold yellow",
    "TRUSTED": "green",
    "CHANGED": "cyan",
    "DOWN": "red",
    "LEFT": "dim",
}
_SESSION_SHOWN: Final = 8
_MODELS_WIDTH: Final = 21
"""Of an event: most names fit, and a terminal of 80 columns still shows the line whole."""
_CLOCK: Final = slice(11, 19)
"""Of an RFC 3339 time in UTC: hours, minutes, seconds."""


def plain(text: str, *, style: str = "") -> Text:
    """Return *text* without what a terminal, or the markup of tables, would obey."""
    visible = "".join(character if character.isprintable() else "·" for character in text)
    return Text(visible or _NOTHING, style=style)


def short(session: str, *, style: str = "") -> Text:
    """Return the tail of a session id, which tells sessions of one moment apart."""
    return plain(f"…{session[-_SESSION_SHOWN:]}", style=style)


def sessions(
    rows: Sequence[SessionRow],
    options: ConsoleOptions,
    *,
    provider_access: str = "FILE",
    model: str = "",
) -> RenderableType:
    """Return the sessions as a table, or what to do when there is none, or none of *model*."""
    if model and not rows:
        return _commands(f"No session offers {model}. What is offered:", "otela sessions")
    if not rows:
        return no_session(provider_access)
    shown = [column for column in _COLUMNS if options.max_width >= column.from_width]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="dim")
    for column in shown:
        table.add_column(column.heading, overflow="fold", no_wrap=column.is_short)
    for one in rows:
        table.add_row(*(column.cell(one) for column in shown))
    return table


def no_session(access: str = "FILE") -> RenderableType:
    """Return what to do when nothing is offered; *access* is a provider's access file."""
    return _commands(
        "No model is offered yet. To offer one, on a machine with an engine:",
        f"otela start --access {access} -- vllm serve Qwen/Qwen3-8B --port {{port}}",
    )


def problem(text: str) -> Text:
    """Return what is wrong, so that it is not overlooked."""
    return Text.assemble(("problem  ", "bold red"), plain(text))


def models(rows: Sequence[ModelRow]) -> RenderableType:
    """Return the models as a table."""
    table = _table("MODEL", "ROUTABLE", "SITES")
    for one in rows:
        style = "green" if one.routable else "red"
        count = plain(f"{one.routable} of {one.sessions}", style=style)
        table.add_row(plain(one.name), count, plain(", ".join(one.sites)))
    return table


def services(state: State, readiness: Iterable[str]) -> RenderableType:
    """Return what runs where on this machine; *readiness* holds one word or reason for each."""
    table = _table("SERVICE", "STATE", "WHERE", "PID")
    for service, ready in zip(state.services, readiness, strict=True):
        style = "green" if ready == "ready" else "red"
        table.add_row(
            service.name,
            plain(ready, style=style),
            plain(service.url),
            str(service.pid),
        )
    return table


def logs(home: Home) -> RenderableType:
    """Return where the logs of this machine's services are; a path is copied, as a command is."""
    return _commands("Logs:", str(home.log("*")))


def invitation(state: State) -> RenderableType:
    """Return the lines by which somebody tries the mesh."""
    return _commands("Ask the router what is served:", f"curl {state.api}/models")


def farewell() -> RenderableType:
    """Return how everything is stopped again."""
    return Text("Ctrl-C stops everything.", style="dim")


def event(one: LifecycleEvent) -> Text:
    """Return an event as one line."""
    parts = [
        plain(f"{one.at[_CLOCK]}Z", style="dim"),
        plain(f"{one.kind:<9}", style=_STATE_STYLE.get(one.kind, "")),
        plain(f"{', '.join(one.models) or _NOTHING:<{_MODELS_WIDTH}}"),
        plain(f"{one.site}/{one.node}", style="dim"),
        short(one.session, style="dim"),
    ]
    if one.reason:
        parts.append(plain(one.reason, style="italic"))
    return Text("  ").join(parts)


def placer(name: str, leader: str, reason: str, *, leads: bool, dry: bool) -> Text:
    """Return who leads and what was decided last."""
    role = "leads" if leads else f"follows {leader or 'nobody'}"
    words = f"{role}, and moves nothing (dry run)" if dry else role
    return Text.assemble(plain(name, style="bold"), f" {words}: ", plain(reason, style="italic"))


def asked(rows: Iterable[Asked]) -> RenderableType:
    """Return what is asked of each model, in requests a second."""
    table = _table("MODEL", "DEMAND/s", "REFUSED/s", "PLANNED/s", "CAPACITY/s")
    for one in rows:
        amounts = (one.rate_rps, one.refused_rps, one.wanted_rps, one.capacity_rps)
        table.add_row(plain(one.model), *(f"{amount:.3g}" for amount in amounts))
    return table


def placed(rows: Iterable[Placed]) -> RenderableType:
    """Return what runs and what shall."""
    table = _table("MODEL", "POOL", "SHAPE", "RUNNING", "PLANNED")
    for one in rows:
        style = "" if one.running == one.planned else "yellow"
        shape = f"TP{one.tp}" + (f"·PP{one.pp}" if one.pp > 1 else "")
        counts = (plain(str(count), style=style) for count in (one.running, one.planned))
        table.add_row(plain(one.model), plain(one.pool), shape, *counts)
    return table


def moving(rows: Iterable[tuple[str, str, str, str, str, float]]) -> RenderableType:
    """Return replicas that are on their way: model, pool, agent, state, reason, age."""
    table = _table("MOVING", "POOL", "AGENT", "STATE", "FOR", "REASON")
    for model, pool, agent, state, reason, age_s in rows:
        table.add_row(
            *(plain(model), plain(pool), short(agent), plain(state)),
            *(duration(age_s), plain(reason)),
        )
    return table


def show(console: Console, *parts: RenderableType) -> None:
    """Print *parts*; what is wider than the terminal is left to the terminal."""
    for part in parts:
        console.print(part, crop=False)


def _table(*headings: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="dim")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


def _commands(says: str, *commands: str) -> RenderableType:
    # A command is copied: it must not be broken into lines by us.
    lines = [
        Text(f"  {command}", style="bold", no_wrap=True, overflow="ignore") for command in commands
    ]
    return Group(Text(says, style="dim"), *lines)


class _Column(NamedTuple):
    """One fact of a session, and from what width of terminal on there is room for it."""

    heading: str
    cell: Callable[[SessionRow], Text]
    from_width: int = 0
    is_short: bool = True


_COLUMNS: Final = (
    _Column("MODEL", lambda one: plain(_offered(one)), is_short=False),
    _Column("STATE", lambda one: plain(one.state, style=_STATE_STYLE.get(one.state, ""))),
    _Column("SITE", lambda one: plain(one.site), is_short=False),
    _Column("AGE", lambda one: plain(duration(_since(one))), from_width=60),
    _Column("SESSION", lambda one: short(one.session), from_width=60),
    _Column("WALLTIME", lambda one: plain(_left(one)), from_width=80),
    _Column("PROVIDER", lambda one: plain(one.provider), from_width=100, is_short=False),
    _Column("NODE", lambda one: plain(one.node), from_width=100, is_short=False),
    _Column(
        "ENGINE",
        lambda one: plain(f"{one.engine} {one.engine_version}".strip()),
        from_width=120,
        is_short=False,
    ),
    _Column("CONTEXT", lambda one: plain(_tokens(one)), from_width=120),
)


def _offered(one: SessionRow) -> str:
    """Return the models; of an agent, which has none, what it can run them on."""
    if one.models or one.engine != ENGINE:
        return ", ".join(one.models)
    return f"agent: {one.gpus} {one.hardware}" if one.gpus else f"agent: {one.hardware}"


def _since(one: SessionRow) -> float:
    return one.age_s if one.ended_s is None else one.ended_s


def _left(one: SessionRow) -> str:
    return "" if one.left_s is None else duration(one.left_s)


def _tokens(one: SessionRow) -> str:
    return f"{one.context_max:,}" if one.context_max else ""
