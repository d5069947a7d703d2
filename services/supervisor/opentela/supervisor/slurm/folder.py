"""The folder of a service: what it is, what its jobs have left, whether it is to end.

::

    service.json           what is submitted, again and again
    run-12.0.json          what became of the first start of job 12
    job-12.0/ready-0       replica 0 of it takes requests, and since when
    job-12.0/status        all its replicas have ended
    cancelled              no job is followed by another any more

Nodes and login nodes see the same folder, mostly by NFS: every file has one writer and is replaced
whole.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from opentela.core.errors import ConfigError
from opentela.mesh import files
from opentela.supervisor.slurm.ledger import Run, Service

T = TypeVar("T")

_RUN: Final = re.compile(r"run-(\d+)\.(\d+)\.json")
_JOB: Final = re.compile(r"job-(\d+)\.(\d+)")
RUNS_READ_MAX: Final = 64
"""The latest ones; a service of a year has hundreds."""


class Folder:
    """Reads and writes the files of one service."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._cancelled = path / "cancelled"

    @property
    def exists(self) -> bool:
        """Whether a service was ever submitted here."""
        return (self.path / "service.json").is_file()

    @property
    def is_cancelled(self) -> bool:
        """Whether somebody ended the service."""
        return self._cancelled.exists()

    def found(self, service: Service) -> None:
        """Begin a service, or begin it anew."""
        files.make_private_dir(self.path)
        files.write(self.path / "service.json", _pretty(service))
        self._cancelled.unlink(missing_ok=True)

    def service(self) -> Service:
        """Return what the service is.

        Raises:
            ConfigError: There is none, or its file is damaged.
        """
        path = self.path / "service.json"
        try:
            return msgspec.json.decode(path.read_bytes(), type=Service)
        except OSError as error:
            raise ConfigError(
                f"{path}: {error.strerror}", remedy="otela submit makes it"
            ) from error
        except msgspec.DecodeError as error:
            raise ConfigError(f"{path}: {error}", remedy="submit the service again") from error

    def cancel(self) -> None:
        """Let no job be followed by another."""
        self._cancelled.touch()

    def note(self, run: Run) -> None:
        """Write what became of a run."""
        files.write(self.path / f"run-{run.job}.{run.restart}.json", _pretty(run))

    def note_submitted(self, job: int, wall: float) -> None:
        """Write when a job was submitted, unless it has written more itself."""
        if not (self.path / f"run-{job}.0.json").exists():
            self.note(Run(job=job, submitted_at=wall))

    def run(self, job: int, restart: int) -> Run:
        """Return what is known of a run."""
        path = self.path / f"run-{job}.{restart}.json"
        return _read(path, Run) or Run(job=job, restart=restart)

    def runs(self) -> list[Run]:
        """Return the latest runs, the oldest first."""
        numbered = sorted(
            (int(match[1]), int(match[2]), path)
            for path in self.path.iterdir()
            if (match := _RUN.fullmatch(path.name))
        )
        read = (_read(path, Run) for _, _, path in numbered[-RUNS_READ_MAX:])
        return [run for run in read if run is not None]

    def ready(self, job: int, restart: int | None = None) -> list[float]:
        """Return since when each replica takes requests, of those that do.

        Args:
            job: Its number.
            restart: Which start of it; None for the latest.
        """
        if restart is None:
            restart = max(
                (
                    int(match[2])
                    for path in self.path.iterdir()
                    if (match := _JOB.fullmatch(path.name)) and int(match[1]) == job
                ),
                default=0,
            )
        since = []
        for path in (self.path / f"job-{job}.{restart}").glob("ready-*"):
            try:
                since.append(float(path.read_text()))
            except (OSError, ValueError):
                continue  # it has just gone
        return sorted(since)

    def have_ended(self, job: int, restart: int) -> bool:
        """Return whether the job's script says that all replicas have ended."""
        return (self.path / f"job-{job}.{restart}" / "status").exists()


def root(environ: Mapping[str, str]) -> Path:
    """Return where the folders of services lie."""
    if chosen := environ.get("OTELA_JOBS"):
        return Path(chosen).expanduser().absolute()
    data = environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "opentela" / "jobs"


def folders(top: Path) -> list[Folder]:
    """Return every service's folder, by name."""
    found = (Folder(path) for path in sorted(top.iterdir())) if top.is_dir() else ()
    return [folder for folder in found if folder.exists]


def _pretty(value: msgspec.Struct) -> str:
    return msgspec.json.format(msgspec.json.encode(value)).decode() + "\n"


def _read(path: Path, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError):
        return None
