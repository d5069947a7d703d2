"""A service that outlasts its job, minute by minute, as a picture.

`python -m tests.slurm.handover OUT.svg` runs a service in jobs of three minutes on a Slurm of its
own, keeps clients asking until the first job has ended, checks what they saw, and draws it. Needs
root, as the tests of Slurm do, and some four minutes.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import matplotlib as mpl
import msgspec
from matplotlib.figure import Figure
from tests.e2e.history import Exchange
from tests.e2e.product import Product
from tests.e2e.scenes import Load, fake_engine, verify
from tests.slurm.cluster import Cluster
from tests.slurm.scenes import SERVICE, Site

from opentela.supervisor.slurm.folder import Folder
from opentela.supervisor.slurm.ledger import Run

MINUTES: Final = 3
AFTER_S: Final = 20.0
"""How long clients go on asking after the first job has ended."""
LONGEST_S: Final = 15.0
_BIN_S: Final = 2.0
_COLORS: Final = ("#2563eb", "#d97706", "#059669", "#7c3aed")


class Scene(NamedTuple):
    """What happened: instants are Unix seconds."""

    runs: Sequence[Run]
    exchanges: Sequence[Exchange]
    wall_offset_s: float


def play() -> Scene:
    """Run the service and its clients until its first job has been followed."""
    with Cluster() as cluster, tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        with Product(Path(folder)) as product:
            site = Site(product, cluster)
            # Answers of some seconds, so that there are always some under way.
            engine = fake_engine("alpha", ttft_ms=200, tpot_ms=200)
            first = site.submit("--lasting", engine=engine, time=f"{MINUTES}m")
            site.wait_for_sessions(1)
            load = Load(product, site.router, concurrency=8)
            site.wait_for_successor(first, within_s=60.0 * MINUTES)
            site.cluster.wait_for_state(first, "COMPLETED", within_s=60.0 * MINUTES)
            until = time.monotonic() + AFTER_S
            load.wait_for(
                lambda known: bool(known) and known[-1].ended_at > until, "the rest", within_s=60
            )
            exchanges = load.finish()
            runs = Folder(site.services / SERVICE).runs()
            site.otela("cancel", SERVICE, "--now")
            return Scene(runs, exchanges, time.time() - time.monotonic())


def summary(scene: Scene) -> dict[str, Any]:
    """Return the figures that count."""
    whole = [one for one in scene.exchanges if not one.stream]
    streams = [one for one in scene.exchanges if one.stream]
    first, second = scene.runs[:2]
    overlap_s = max(0.0, first.ended_at - (second.started_at or first.ended_at))
    return {
        "whole_answers": len(whole),
        "whole_answers_failed": sum(not one.claims_success for one in whole),
        "streams": len(streams),
        "streams_with_error_event": sum(bool(one.error) for one in streams),
        "streams_cut_without_a_word": sum(bool(one.cut) for one in streams),
        "served_by": len({one.session for one in scene.exchanges if one.session}),
        "longest_s": round(max(one.took_s for one in scene.exchanges), 2),
        "overlap_s": round(overlap_s, 1),
        "overlap_gpu_h": round(overlap_s / 3600, 4),
    }


def draw(scene: Scene, path: Path) -> None:
    """Draw jobs above, and below them who answered how much and what failed."""
    zero = scene.runs[0].started_at
    figure = Figure(figsize=(9, 5), layout="constrained")
    jobs, answers = figure.subplots(2, 1, sharex=True, height_ratios=(1, 2))
    _draw_jobs(jobs, scene.runs, zero)
    _draw_answers(answers, scene, zero)
    with mpl.rc_context({"svg.hashsalt": "opentela", "svg.fonttype": "none"}):
        figure.savefig(path, metadata={"Date": None})


def _draw_jobs(axes: Any, runs: Sequence[Run], zero: float) -> None:
    end = max(run.ended_at or run.ready_at for run in runs) + AFTER_S
    for row, run in enumerate(runs[:2]):
        ended = run.ended_at or end
        ready = run.ready_at or ended
        parts = (
            (run.submitted_at, run.started_at or end, "#d1d5db", "queued"),
            (run.started_at or end, ready, "#93c5fd", "loading"),
            (ready, ended, _COLORS[row], "ready"),
        )
        for start, stop, color, label in parts:
            axes.barh(
                row, stop - start, left=start - zero, color=color, label=label if not row else None
            )
    axes.set_yticks(range(len(runs[:2])), [f"job {run.job}" for run in runs[:2]])
    axes.invert_yaxis()
    axes.legend(ncols=3, fontsize="small", loc="lower left")
    axes.set_title(f"A service in jobs of {MINUTES} minutes: the successor is ready before its"
                   " predecessor drains", fontsize="medium")  # fmt: skip


def _draw_answers(axes: Any, scene: Scene, zero: float) -> None:
    sessions = list(dict.fromkeys(one.session for one in scene.exchanges if one.session))
    ends = {one.number: one.ended_at + scene.wall_offset_s - zero for one in scene.exchanges}
    last = max(ends.values())
    bins = [_BIN_S * index for index in range(int(last / _BIN_S) + 2)]
    good = [
        [
            ends[one.number]
            for one in scene.exchanges
            if one.session == session and one.claims_success
        ]
        for session in sessions
    ]
    axes.hist(
        good, bins=bins, stacked=True, color=_COLORS[: len(sessions)],
        label=[f"answered by …{session[-4:]}" for session in sessions],
    )  # fmt: skip
    bad = [ends[one.number] for one in scene.exchanges if not one.claims_success]
    axes.plot(bad, [0.5] * len(bad), "x", color="#dc2626", label=f"failed: {len(bad)}")
    axes.set_xlabel("seconds since the first job started")
    axes.set_ylabel(f"answers in {_BIN_S:.0f} s")
    axes.legend(fontsize="small", loc="lower right")


def main() -> None:
    """Play, check, draw, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    scene = play()
    verify(scene.exchanges, longest_s=LONGEST_S)
    draw(scene, options.out)
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(summary(scene))).decode() + "\n")


if __name__ == "__main__":
    main()
