"""No end of any part of a site is worse than it has to be; nothing that must go stays."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.kill_matrix import SIGNALS, VICTIMS, Cell, Stage, write
from tests.e2e.product import Product

pytestmark = [pytest.mark.nats, pytest.mark.slow, pytest.mark.timeout(600)]

DOCUMENT = Path(os.environ.get("OTELA_KILL_MATRIX", ""))
"""Where `make kill-matrix` wants the whole matrix; without, a part of it is run."""
PART = (
    ("supervisor", signal.SIGKILL),
    ("engine's child", signal.SIGKILL),
    ("engine", signal.SIGKILL),
    ("leaf", signal.SIGKILL),
)
WHOLE = tuple((victim, number) for victim in VICTIMS for number in SIGNALS)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """Two sites that serve."""
    with Product(tmp_path, tls=False) as product:
        made = Stage(product)
        yield made
    made.end()


def check(cell: Cell) -> None:
    """Check what must be true of any machine's run."""
    assert cell.lied == 0, cell
    if cell.victim != "hub":
        assert cell.failed == 0, cell
    match cell.victim, cell.number:
        case "supervisor", signal.SIGTERM:
            assert cell.broken == 0, cell
            assert cell.told[:2] == ("drains", "left"), cell
            assert cell.remained == (), cell
        case "supervisor", signal.SIGKILL:
            assert cell.remained == (), cell
            assert "suspected" in cell.told, cell
        case ("supervisor", signal.SIGSTOP) | ("leaf", _):
            # Nobody's engine is ended for a lost link or a frozen parent.
            assert cell.remained == ("supervisor", "guardian", "engine", "engine's child"), cell
            assert "left" not in cell.told, cell
            assert not any(one.startswith("down") for one in cell.told), cell
        case "engine", _:
            assert cell.remained == ("supervisor",), cell
            assert any(one.startswith("down") for one in cell.told), cell
            assert "a new session joins" in cell.told, cell
        case "engine's child", _:
            assert cell.out_s is None, cell
            assert cell.told == (), cell
        case _:
            assert "left" not in cell.told, cell
            assert "a new session joins" not in cell.told, cell


@pytest.mark.skipif(bool(DOCUMENT.name), reason="the whole matrix is run")
def test_the_usual_deaths_cost_no_request_and_leave_nothing(stage: Stage) -> None:
    """Four of fifteen; `make kill-matrix` runs them all."""
    for victim, number in PART:
        check(stage.run(victim, number))


@pytest.mark.skipif(not DOCUMENT.name, reason="takes minutes: make kill-matrix")
def test_every_part_may_end_in_every_way(stage: Stage) -> None:
    """The table is written first, so that a wrong cell can be seen beside the others."""
    cells = [stage.run(victim, number) for victim, number in WHOLE]
    write(DOCUMENT, cells)
    for cell in cells:
        check(cell)
