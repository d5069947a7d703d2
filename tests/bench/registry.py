"""The registry on real servers: propagation, traffic, scale, death, partition.

Each stage is measured by itself: `--stage propagation-sites-8`; without it all are, which takes
twenty minutes. Figures of a stage are kept in `build/bench/registry-<stage>.json`.
"""

import argparse
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.bench import (
    registry_death,
    registry_fanout,
    registry_partition,
    registry_plot,
    registry_scale,
    registry_simulated,
    registry_traffic,
    report,
)
from tests.bench.report import Figure


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this area."""
    parser.add_argument("--stage", choices=tuple(STAGES), action="append", help="only this one")
    parser.add_argument("--quick", action="store_true", help="fewer of everything")
    parser.add_argument("--plots", type=Path, default=report.OUTPUT, help="folder of the plots")


def run(options: argparse.Namespace) -> list[Figure]:
    """Measure the stages that are asked for."""
    figures: list[Figure] = []
    for name in options.stage or STAGES:
        measured = STAGES[name](options)
        report.write(f"registry-{name}", measured, f"python -m tests.bench registry --stage {name}")
        figures += measured
    return figures


def _fanout(options: argparse.Namespace, *, topology: str) -> list[Figure]:
    figures, spreads = registry_fanout.run(
        registry_fanout.TOPOLOGIES[topology], quick=options.quick
    )
    registry_plot.keep(topology, spreads)
    registry_plot.propagation(options.plots)
    return figures


def _traffic(options: argparse.Namespace, *, group: str) -> list[Figure]:
    return registry_traffic.run(group, quick=options.quick)


def _death(options: argparse.Namespace, *, kind: str) -> list[Figure]:
    return registry_death.run(kind, quick=options.quick)


def _scale(options: argparse.Namespace) -> list[Figure]:
    return registry_scale.run(quick=options.quick)


def _simulated(options: argparse.Namespace) -> list[Figure]:
    return registry_simulated.run(quick=options.quick)


def _partition(options: argparse.Namespace) -> list[Figure]:
    return registry_partition.run(quick=options.quick)


STAGES: Final[dict[str, Callable[[argparse.Namespace], list[Figure]]]] = {
    **{
        f"propagation-{name}": functools.partial(_fanout, topology=name)
        for name in registry_fanout.TOPOLOGIES
    },
    **{
        f"traffic-{group}": functools.partial(_traffic, group=group)
        for group in registry_traffic.GROUPS
    },
    **{f"death-{kind}": functools.partial(_death, kind=kind) for kind in registry_death.KINDS},
    "traffic-simulated": _simulated,
    "scale": _scale,
    "partition": _partition,
}
