"""Rows of a campaign on disk: a file a setting, a line a seed, so that it can be resumed."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from opentela.core.errors import ConfigError
from opentela.testing.sim.campaign.rows import Row

_DECODER: Final = msgspec.json.Decoder(Row)
_ENCODER: Final = msgspec.json.Encoder()


def path_of(folder: Path, setting: str) -> Path:
    """Return where the rows of a setting are."""
    return folder / f"{setting.replace(' ', '-').lower()}.jsonl"


def read(folder: Path, setting: str) -> dict[int, Row]:
    """Return the rows of a setting by seed; none if nothing has run yet.

    Raises:
        ConfigError: A line is no row.
    """
    path = path_of(folder, setting)
    if not path.exists():
        return {}
    rows: dict[int, Row] = {}
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, 1):
        # The last line is empty, or was cut off when a run was stopped.
        if number == len(lines):
            break
        try:
            row = _DECODER.decode(line)
        except msgspec.DecodeError as error:
            raise ConfigError(
                f"{path}:{number} is no row of a campaign: {error}", remedy="remove that line"
            ) from error
        rows[row.seed] = row
    return rows


def read_all(folder: Path, settings: Iterable[str]) -> dict[str, list[Row]]:
    """Return the rows of every setting that has some."""
    rows = {name: list(read(folder, name).values()) for name in settings}
    return {name: some for name, some in rows.items() if some}


def append(folder: Path, setting: str, rows: Iterable[Row]) -> None:
    """Add rows, whole lines at a time."""
    folder.mkdir(parents=True, exist_ok=True)
    path = path_of(folder, setting)
    with path.open("ab") as file:
        if file.tell() and not path.read_bytes().endswith(b"\n"):
            # What was cut off is run again.
            file.truncate(path.read_bytes().rfind(b"\n") + 1)
        for row in rows:
            file.write(_ENCODER.encode(row) + b"\n")
