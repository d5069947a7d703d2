"""Writes docs/performance.md from the benches: `python -m tests.bench.performance [--page-only]`.

Without `--page-only` it first runs every bench that the page tells of, some ten minutes.
"""

import argparse
import json
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from tests.bench import peers
from tests.bench.report import OUTPUT

PAGE: Final = Path("docs/performance.md")
RUNS: Final = {
    "router": (
        *("--links", "plain", "--rates", "16,64"),
        *("--peers", f"{peers.SGLANG_ROUTER},{peers.SILENT_SGLANG}"),
    ),
    "capacity": (),
    "streams": (),
    "bodies": (),
    "soak": (),
}
"""Areas in the order of the page, and their options."""
_BEGIN: Final = "<!-- begin {} -->"
_END: Final = "<!-- end {} -->"

Row = dict[str, Any]


def rows(area: str) -> list[Row]:
    """Return what the last run of *area* measured; nothing when there was none."""
    file = OUTPUT / f"{area}.json"
    if not file.exists():
        return []
    read: list[Row] = json.loads(file.read_text())
    return read


def table(found: Sequence[Row]) -> str:
    """Return the rows as Markdown."""
    lines = ["| figure | value | wanted | holds | beside |", "|---|---:|---|---|---|"]
    words = {True: "yes", False: "**no**", None: ""}
    for row in found:
        value = f"{row['value']:.{_digits(row['value'])}f} {row['unit']}".rstrip()
        holds = words[row["holds"]]
        lines.append(f"| {row['name']} | {value} | {row['target']} | {holds} | {row['baseline']} |")
    return "\n".join(lines)


def _digits(value: float) -> int:
    return 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2


def fill(page: str, areas: Sequence[str], read: Callable[[str], list[Row]] = rows) -> str:
    """Return *page* with the newest table of each area between its marks."""
    for area in areas:
        found = read(area)
        if found:
            begin, end = _BEGIN.format(area), _END.format(area)
            before, _, rest = page.partition(begin)
            _, _, after = rest.partition(end)
            page = f"{before}{begin}\n{table(found)}\n{end}{after}"
    return page


def commands() -> Iterator[list[str]]:
    """Return what is run."""
    for area, options in RUNS.items():
        yield [sys.executable, "-m", "tests.bench", area, *options]


def main() -> None:
    """Run the benches, unless told not to, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page-only", action="store_true", help="from what was measured last")
    options = parser.parse_args()
    if not options.page_only:
        for command in commands():
            subprocess.run(command, check=True)
    PAGE.write_text(fill(PAGE.read_text(), list(RUNS)))
    sys.stdout.write(f"wrote {PAGE}, Python {platform.python_version()}\n")


if __name__ == "__main__":
    main()
