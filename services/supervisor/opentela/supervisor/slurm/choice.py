"""Which way Slurm is reached from here."""

import shutil
from collections.abc import Mapping
from typing import Final, Literal, get_args

from opentela.supervisor.slurm.command_line import CommandLine
from opentela.supervisor.slurm.job import SlurmUnavailableError
from opentela.supervisor.slurm.library import Library, is_configured
from opentela.supervisor.slurm.port import Scheduler
from opentela.supervisor.slurm.rest import Rest

Via = Literal["auto", "cli", "rest", "pyslurm"]
VIAS: Final = get_args(Via)
URL_VARIABLE: Final = "OTELA_SLURM_URL"


def scheduler(via: str, url: str, environ: Mapping[str, str]) -> Scheduler:
    """Return the port; `auto` takes commands, then slurmrestd, then pyslurm, as they are there.

    Raises:
        SlurmUnavailableError: None of them is.
        ConfigError: An address is none.
    """
    url = url or environ.get(URL_VARIABLE, "")
    if via == "cli" or (via == "auto" and shutil.which("sbatch", path=environ.get("PATH"))):
        return CommandLine(environ)
    if via == "rest" or (via == "auto" and url):
        if not url:
            raise SlurmUnavailableError(
                "--via rest: no address of slurmrestd",
                remedy=f"give --slurm-url or set {URL_VARIABLE}",
            )
        return Rest(url, environ)
    if via == "pyslurm" or is_configured(environ):
        return Library(environ)
    raise SlurmUnavailableError(
        "there is no Slurm here: neither sbatch nor slurm.conf was found",
        remedy=f"run this on a login node, or set {URL_VARIABLE}",
    )
