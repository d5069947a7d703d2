"""How rows look: whole on a wide terminal, readable on a narrow one, harmless always."""

import io

import msgspec
import pytest
from rich.console import Console, RenderableType
from tests.unit.local.records import BORN_MS, record

from opentela.core.ids import NodeId, ProviderId, SessionId, SiteId
from opentela.core.record import Lifecycle
from opentela.local import rows, tables
from opentela.wire.audit import Asked, Placed
from opentela.wire.events import LifecycleEvent

MODEL = "meta-llama/Llama-3.1-70B-Instruct"
ROWS = [rows.row(record(Lifecycle.SERVING, MODEL, ends_at=BORN_MS / 1000 + 60), BORN_MS)]


def printed(width: int, *parts: RenderableType) -> str:
    out = io.StringIO()
    tables.show(Console(file=out, width=width), *parts)
    return out.getvalue()


def options(width: int) -> Console:
    return Console(file=io.StringIO(), width=width)


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_no_line_exceeds_the_terminal(width: int) -> None:
    """A wrapped table is unreadable; a folded cell is not."""
    text = printed(width, tables.sessions(ROWS, options(width).options))
    assert max(len(line) for line in text.splitlines()) <= width
    assert "SERVING" in text


def test_a_wide_terminal_shows_everything() -> None:
    """Width is used for what helps."""
    text = printed(200, tables.sessions(ROWS, options(200).options))
    for fact in (MODEL, ROWS[0].session[-8:], "vllm 0.11", "2,048", "acme", "1m"):
        assert fact in text


def test_an_agent_shows_what_it_can_run_models_on() -> None:
    """It has none itself."""
    one = msgspec.structs.replace(
        ROWS[0], models=(), engine="agent", gpus=4, hardware="NVIDIA H100"
    )
    assert "agent: 4 NVIDIA H100" in printed(160, tables.sessions([one], options(160).options))
    on_cpu = msgspec.structs.replace(one, gpus=0, hardware="cpu")
    assert "agent: cpu" in printed(160, tables.sessions([on_cpu], options(160).options))


def test_an_empty_mesh_says_what_to_do() -> None:
    """Nothing to show is the moment at which help is wanted."""
    assert "otela start --access" in printed(80, tables.sessions([], options(80).options))


def test_a_model_that_nobody_offers_is_named() -> None:
    """Others may be offered: it would be untrue that none is."""
    text = printed(80, tables.sessions([], options(80).options, model="huge"))
    assert text.splitlines() == ["No session offers huge. What is offered:", "  otela sessions"]


def test_foreign_text_cannot_steer_the_terminal() -> None:
    """A model name is a provider's; escapes and markup come out as they are."""
    evil = rows.row(record(Lifecycle.SERVING, "\x1b[31mred", "[bold]x[/bold]"), BORN_MS)
    text = printed(200, tables.sessions([evil], options(200).options))
    assert "\x1b" not in text
    assert "·[31mred" in text
    assert "[bold]x[/bold]" in text


def test_a_command_is_never_broken() -> None:
    """What is to be copied stays on one line."""
    command = tables.sessions([], options(30).options)
    assert "otela start --access FILE -- vllm serve" in printed(30, command)


def test_an_event_is_one_line() -> None:
    """When, what, of which model, where, and why."""
    event = LifecycleEvent(
        id="x.3.LEFT",
        kind="LEFT",
        at="2027-01-15T08:00:00.000Z",
        registry="registry1",
        provider=ProviderId("acme"),
        site=SiteId("alps"),
        session=SessionId("x"),
        node=NodeId("n1"),
        incarnation=3,
        models=("m",),
        reason="walltime\nis over",
    )
    line = tables.event(event).plain
    assert line.startswith("08:00:00Z  LEFT       m  ")
    place = line.index("  alps/n1")
    assert line.endswith("walltime·is over")
    unnamed = tables.event(msgspec.structs.replace(event, models=())).plain
    assert unnamed.startswith("08:00:00Z  LEFT       -  ")
    assert unnamed.index("  alps/n1") == place


def test_models_show_how_many_may_be_routed_to() -> None:
    """A model without a routable session stands out."""
    assert "1 of 1" in printed(80, tables.models(rows.models(ROWS)))


def test_a_plan_tells_what_is_asked_what_runs_and_what_moves() -> None:
    """With who leads, in one look."""
    text = printed(
        200,
        tables.placer("one", "two", "a waits", leads=False, dry=True),
        tables.asked([Asked(model=MODEL, rate_rps=1.5, capacity_rps=2.25)]),
        tables.placed([Placed(model=MODEL, pool="a/cpu/2", tp=4, pp=2, running=1, planned=3)]),
        tables.moving([(MODEL, "a/cpu/2", "01ABCDEFGH", "starting", "why", 61.0)]),
    )
    for fact in ("one follows two", "dry run", "a waits", "1.5", "2.25", "TP4·PP2", "1m 1s", "why"):
        assert fact in text
