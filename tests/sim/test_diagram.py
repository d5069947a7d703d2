"""A failure is drawn: the last messages that touched the session that it is about."""

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from opentela.testing.sim import diagram
from opentela.testing.sim.checkers import Violation
from opentela.testing.sim.cluster import Cluster
from opentela.testing.sim.run import Run, Scenario, SimFailedError
from opentela.testing.sim.scenarios import mesh
from opentela.testing.world_trace import Entry

SESSION = "01MCC5P9TVR8QJ43QR3P5TDGS9"
OTHER = "01MCC5P9TVR8QJ43QR3P5TDGS8"
BEAT = f"otela.v1.beat.p.s.{SESSION}"


def test_both_ends_of_a_message_are_one_arrow() -> None:
    """Each receiver has its own; what is lost and what nobody hears is told apart."""
    entries = [
        Entry(1.0, "gpu", ">", BEAT, b"1"),
        Entry(1.1, "r1", "<", BEAT, b"1"),
        Entry(1.2, "r2", "<", BEAT, b"1"),
        Entry(2.0, "gpu", ">", BEAT, b"2"),
        Entry(2.0, "gpu", "x", f"{BEAT} to r1", b""),
        Entry(2.5, "gpu", ">", f"otela.v1.beat.p.s.{OTHER}", b"2"),
        Entry(3.0, "gpu", ">", BEAT, b"3"),
        Entry(4.0, "gpu", "!", "process killed", b""),
    ]
    drawn = diagram.arrows(entries, SESSION)
    assert [(a.sent_at, a.at, a.source, a.target, a.is_lost, a.is_fault) for a in drawn] == [
        (1.0, 1.1, "gpu", "r1", False, False),
        (1.0, 1.2, "gpu", "r2", False, False),
        (2.0, 2.0, "gpu", "r1", True, False),
        (3.0, 3.0, "gpu", "", False, False),
        (4.0, 4.0, "gpu", "", False, True),
    ]
    assert diagram.arrows(entries, SESSION, last=2) == drawn[-2:]
    assert len(diagram.arrows(entries, "")) == 6


def test_a_session_is_found_in_the_words_of_a_failure() -> None:
    """Or none, and then everything is drawn."""
    assert diagram.session_in(f"lattice: {SESSION} went back at r1") == SESSION
    assert diagram.session_in("ends: requests do not end") == ""


def test_a_failed_run_draws_what_it_is_about(tmp_path: Path) -> None:
    """Well-formed, with a column for each process and the fault that did it."""

    def complain(run: Run) -> None:
        session = next(iter(run.cluster.owners))
        raise Violation(f"expected: {session} & the moon")

    broken = Scenario(name="broken", form=lambda _rng: mesh(), faults=_crash, expect=complain)
    with pytest.raises(SimFailedError) as failure:
        Run(broken, 4).result()
    path = failure.value.draw(tmp_path)
    assert path.name == "broken-4.svg"
    texts = [text.text or "" for text in ET.parse(path).iter("{http://www.w3.org/2000/svg}text")]
    assert re.match(r"broken, seed 4: Violation: expected: \w{26} & the moon", texts[0])
    assert {"gpu-1", "registry-0"} <= {*texts}
    assert "! process killed" in texts
    assert sum("verdict" in text for text in texts) > 5


def _crash(cluster: Cluster, _rng: object) -> float:
    cluster.crash("gpu-1")
    return 2.0
