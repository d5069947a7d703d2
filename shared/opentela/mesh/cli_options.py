"""What several commands of `otela mesh` have in common."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click
import msgspec

FOLDER: Final = click.Path(path_type=Path, file_okay=False)
FOLDER_DEFAULT: Final = Path("mesh")

dir_option = click.option(
    "--dir",
    "folder",
    type=FOLDER,
    default=FOLDER_DEFAULT,
    envvar="OTELA_MESH_DIR",
    show_default=True,
    help="Folder of the mesh.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def print_json(value: Sequence[Any] | dict[str, Any]) -> None:
    """Print *value* for programs."""
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())
