"""The placer: how well its simulator meets measurements, how good its placements are, how quick."""

import argparse
from types import ModuleType
from typing import Final

from tests.bench import placer_accuracy, placer_replay, placer_solver, placer_speed
from tests.bench.report import Figure

PARTS: Final[dict[str, ModuleType]] = {
    "accuracy": placer_accuracy,
    "speed": placer_speed,
    "solver": placer_solver,
    "replay": placer_replay,
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of all parts, and which of them run."""
    parser.add_argument("--only", choices=PARTS, help="one part instead of all")
    for part in PARTS.values():
        part.add_options(parser)


def run(options: argparse.Namespace) -> list[Figure]:
    """Return the figures of the parts that are asked for."""
    wanted = [options.only] if options.only else list(PARTS)
    return [figure for name in wanted for figure in PARTS[name].run(options)]
