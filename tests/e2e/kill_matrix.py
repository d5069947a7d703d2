"""Each part of a site dies or freezes under load: what happened, how long it took, what remained.

Two sites with an engine each; everything befalls the first. One after the other, since each cell
ends with both sessions back.
"""

import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple
from urllib.error import URLError

from tests.e2e.history import Exchange
from tests.e2e.processes import descendants, is_running, signal_all, wait_until
from tests.e2e.product import Leaf, Product, Service
from tests.e2e.scenes import MODEL, Engine, Load, fake_engine

from opentela.supervisor import proctree

VICTIMS: Final = ("supervisor", "engine's child", "engine", "leaf", "hub")
SIGNALS: Final = (signal.SIGTERM, signal.SIGSTOP, signal.SIGKILL)
"""A child that was killed is not there for another cell, until its engine is started again."""
BACK_WITHIN_S: Final = 80.0
_OUT_WITHIN_S: Final = 50.0
_GONE_WITHIN_S: Final = 40.0
_FLOWING: Final = 12
"""Requests that must have ended before a cell begins, and after a fault that changes nothing."""
_SETTINGS: Final = ("restart.delay_s=0.5", "watch.blind_stall_s=60")
_TOLD: Final = {
    "session_drained": "drains",
    "session_went_down": "down",
    "session_left": "left",
    "suspicion_raised": "suspected",
    "suspicion_refuted": "refuted",
    "session_joined": "a new session joins",
    "session_served": "serves",
}


class Cell(NamedTuple):
    """What one fault did.

    Attributes:
        told: What the registry said of the site's sessions, in order, each once.
        out_s: Until no new request went there; None when it stayed in routing.
        back_s: From the fault, or from its end where somebody else ends it, until both serve.
        revived: What ended the fault: itself, or whoever runs it.
        asked: Requests that ended during the cell.
        failed: Of them those in one piece that failed.
        broken: Streams that ended with an error event, as they should if they cannot go on.
        lied: Streams that claimed success without being whole: never.
        remained: Processes of the victim that outlived the fault.
        gone_s: Until nothing remained that should not; None when nothing had to go.
    """

    victim: str
    number: signal.Signals
    told: tuple[str, ...]
    out_s: float | None
    back_s: float
    revived: str
    asked: int
    failed: int
    broken: int
    lied: int
    remained: tuple[str, ...]
    gone_s: float | None


class Stage:
    """A mesh of two sites under which cells are run."""

    def __init__(self, product: Product) -> None:
        self.product = product
        self._seen: list[proctree.Process] = []
        self.hub = product.start_hub()
        self.registry = product.start_registry("registry", "peers.learn_s=0.3")
        self.router = product.start_router()
        self.leaf = product.start_leaf("site-a")
        self.engine = Engine(self._supervisor("alpha", self.leaf))
        self._supervisor("beta", product.start_leaf("site-b"))
        self.wait_for_both()

    def _supervisor(self, name: str, leaf: Leaf) -> Service:
        engine = [*fake_engine(name, ttft_ms=20, tpot_ms=10), "--spawn", "child"]
        return self.product.start_engine(name, leaf, engine, *_SETTINGS)

    def sessions(self) -> int:
        """Return how many sessions the router routes to; -1 while it answers nothing of use."""
        try:
            models = self.router.place.fetch(f"{self.router.url}/v1/models")["data"]
        except (URLError, OSError):
            return -1
        return sum(one["otela"]["sessions"] for one in models if one["id"] == MODEL)

    def wait_for_both(self) -> float:
        """Return the seconds until both sessions are routed to."""
        return wait_until(
            lambda: self.sessions() == 2,
            "both sessions",
            within_s=BACK_WITHIN_S,
            detail=self.product.tails,
        )

    def run(self, victim: str, number: signal.Signals) -> Cell:
        """Let *victim* meet *number* under load, and see everything come back."""
        load = Load(self.product, self.router, concurrency=4)
        _wait_for_success(load, since=load.started_at)
        family = self._family()
        session = self.engine.session
        aim, revive = self._aim(victim, number)
        logged = sum(1 for _ in self.registry.events())
        began = time.monotonic()
        signal_all(aim, number)
        out_s = self._out(load, victim)
        gone_s, remained = self._remains(victim, number, family)
        revived_at = revive() if revive else began
        self.wait_for_both()
        if victim == "hub":
            # The router knows both sessions all the time, and reaches neither.
            _wait_for_success(load, since=revived_at)
        back_s = time.monotonic() - revived_at
        exchanges = [one for one in load.finish() if one.ended_at >= began]
        return Cell(
            victim=victim,
            number=number,
            told=self._told(logged, session),
            out_s=out_s,
            back_s=back_s,
            revived="whoever runs it" if revive else "itself",
            asked=len(exchanges),
            failed=sum(not one.stream and not one.claims_success for one in exchanges),
            broken=sum(one.had_begun and not one.claims_success for one in exchanges),
            lied=sum(_is_lie(one) for one in exchanges),
            remained=remained,
            gone_s=gone_s,
        )

    def _family(self) -> dict[int, str]:
        """Return the first site's processes by what they are."""
        names = ("supervisor", "guardian", "engine", "engine's child")
        self._seen += filter(None, map(proctree.read, descendants(self.engine.service.process.pid)))
        return dict(zip(descendants(self.engine.service.process.pid), names, strict=True))

    def _aim(
        self, victim: str, number: signal.Signals
    ) -> tuple[Sequence[int], Callable[[], float] | None]:
        """Return whom to signal, and what must be done for them to come back, if anything."""
        family = {name: pid for pid, name in self._family().items()}
        pid = {"leaf": self.leaf.process.pid, "hub": self.hub.process.pid, **family}[victim]
        if victim in ("engine", "engine's child"):
            return [pid], None
        if number is signal.SIGSTOP:
            return [pid], lambda: self._resume(pid)
        return [pid], {
            "supervisor": self._restart_supervisor,
            "leaf": self._restart_leaf,
            "hub": self._restart_hub,
        }[victim]

    def _resume(self, pid: int) -> float:
        signal_all([pid], signal.SIGCONT)
        return time.monotonic()

    def _restart_supervisor(self) -> float:
        self.engine.service.process.wait(_GONE_WITHIN_S)
        at = time.monotonic()
        self.engine = Engine(self.product.launch_again(self.engine.service))
        return at

    def _restart_leaf(self) -> float:
        self.leaf.process.wait(_GONE_WITHIN_S)
        at = time.monotonic()
        self.product.restart_leaf(self.leaf)
        return at

    def _restart_hub(self) -> float:
        self.hub.process.wait(_GONE_WITHIN_S)
        at = time.monotonic()
        self.hub = self.product.launch_again(self.hub)
        return at

    def _out(self, load: Load, victim: str) -> float | None:
        """Return the seconds until the site, or without its hub the mesh, is routed to no more."""
        if victim == "engine's child":
            known = len(load.history())
            load.wait_for_count(known + _FLOWING)
            return None
        if victim == "hub":
            began = time.monotonic()
            load.wait_for(
                lambda known: any(one.ended_at > began and one.status != 200 for one in known),
                "a request that failed",
                within_s=_OUT_WITHIN_S,
            )
            return time.monotonic() - began
        return wait_until(lambda: self.sessions() < 2, "it to be left out", within_s=_OUT_WITHIN_S)

    def _remains(
        self, victim: str, number: signal.Signals, family: dict[int, str]
    ) -> tuple[float | None, tuple[str, ...]]:
        """Return how long it took until what must go was gone, and what is still there."""
        must_go: tuple[str, ...] = ()
        if victim == "supervisor" and number is not signal.SIGSTOP:
            must_go = ("supervisor", "guardian", "engine", "engine's child")
        elif victim == "engine":
            must_go = ("guardian", "engine", "engine's child")
        elif victim == "engine's child" and number is signal.SIGKILL:
            must_go = ("engine's child",)
        gone_s = None
        if must_go:
            gone_s = wait_until(
                lambda: not any(is_running(pid) for pid, name in family.items() if name in must_go),
                f"the end of {must_go}",
                within_s=_GONE_WITHIN_S,
                detail=self.product.tails,
            )
        return gone_s, tuple(name for pid, name in family.items() if is_running(pid))

    def end(self) -> None:
        """End what a fault has orphaned, should the product have left anything."""
        for one in self._seen:
            proctree.send(one, signal.SIGKILL)

    def _told(self, logged: int, session: str) -> tuple[str, ...]:
        """Return what the registry said of *session* and of those that came after it."""
        lines = list(self.registry.events())[logged:]
        joined = {line["session"] for line in lines if line["event"] == "session_joined"}
        told = (
            # Whoever finds an engine down wants to know why it is.
            f"{_TOLD[line['event']]} ({line['reason']})"
            if line["event"] == "session_went_down"
            else _TOLD[line["event"]]
            for line in lines
            if line["event"] in _TOLD and line["session"] in {session, *joined}
        )
        return tuple(dict.fromkeys(told))


def _wait_for_success(load: Load, *, since: float) -> None:
    """Return once some requests that began after *since* had their answer."""
    load.wait_for(
        lambda known: (
            sum(one.started_at >= since and one.claims_success for one in known) >= _FLOWING
        ),
        "requests that succeed",
        within_s=BACK_WITHIN_S,
    )


def _is_lie(one: Exchange) -> bool:
    return one.claims_success and not one.text


def table(cells: Sequence[Cell]) -> str:
    """Return the cells as a table of Markdown."""
    heads = (
        *("victim", "signal", "what the registry told", "out of routing after"),
        *("requests", "failed", "broken streams", "gone after", "remained"),
        *("ended by", "both serve again after"),
    )
    rows = [heads, ("---",) * len(heads), *map(_row, cells)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


def _row(cell: Cell) -> tuple[str, ...]:
    return (
        cell.victim,
        cell.number.name.removeprefix("SIG"),
        ", ".join(cell.told) or "nothing",
        _seconds(cell.out_s, "never"),
        *(str(count) for count in (cell.asked, cell.failed, cell.broken)),
        _seconds(cell.gone_s, ""),
        ", ".join(cell.remained) or "nothing",
        cell.revived,
        _seconds(cell.back_s, ""),
    )


def _seconds(value: float | None, otherwise: str) -> str:
    return otherwise if value is None else f"{value:.1f} s"


HEADING: Final = """\
# The kill matrix

Each part of a site is stopped, killed or frozen while clients send requests, half of them for
streams.
`make kill-matrix` writes this page from one run on one machine: two sites with one engine each, one
hub, one registry, one router. The numbers depend on the machine; what happens, what fails and what
remains is checked by `tests/e2e/test_kill_matrix.py`.

- *Out of routing*: the time until the router no longer lists the site's session; without a hub, the
  time of the first failed request. A request that hits the fault earlier is retried at the other
  site, so that none fails.
- *Gone*: the time until the victim's processes have ended, including the engine's children.
  *Remained*: which of the site's supervisor, guardian, engine and engine's child still live then;
  the next launch of an engine is not counted.
- *Ended by*: whether the product recovers by itself, or somebody starts the part again or resumes
  it (a service manager; here, the test).
- There is one hub in this setup. Without it, the router and the sites cannot reach each other, and
  requests in that time fail. A router at a site's own leaf keeps serving from that site.

"""


def write(path: Path, cells: Sequence[Cell]) -> None:
    """Write the document."""
    path.write_text(HEADING + table(cells))
