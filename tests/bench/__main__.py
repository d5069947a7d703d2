"""Measures one area or all: `python -m tests.bench [AREA] [--options of the area]`.

Prints a table last and writes `build/bench/<area>.json`. Run it on an otherwise idle machine; only
ratios and differences within one run are comparable.
"""

import argparse
import importlib
import shlex
import signal
import sys
from types import ModuleType
from typing import Final

from tests.bench import report

AREAS: Final = ("router", "capacity", "streams", "bodies", "soak", "registry", "placer", "policies")
"""Modules of this package with `add_options(parser)` and `run(options) -> list[Figure]`."""


def main() -> None:
    """Run the areas that are asked for; told to end, leave nothing behind."""
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    areas = parser.add_subparsers(dest="area")
    modules: dict[str, ModuleType] = {}
    for area in AREAS:
        modules[area] = importlib.import_module(f"tests.bench.{area}")
        modules[area].add_options(areas.add_parser(area, help=modules[area].__doc__))
    wanted = [sys.argv[1:]] if len(sys.argv) > 1 else [[area] for area in AREAS]
    tables = []
    for arguments in wanted:
        options = parser.parse_args(arguments)
        figures = modules[options.area].run(options)
        file = report.write(options.area, figures, shlex.join([*_COMMAND, *arguments]))
        tables.append((f"{options.area} ({file})", figures))
    for title, figures in tables:
        report.show(title, figures)


_COMMAND: Final = ("python", "-m", "tests.bench")

if __name__ == "__main__":
    main()
