"""Slurm by pyslurm, where it is installed for the cluster's very release of Slurm.

pyslurm links Slurm's own library and is GPL; nothing of it is imported before it is asked for. It
ends the whole process when it finds no slurm.conf, so that is looked for first.
"""

import asyncio
import importlib
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from opentela.core.errors import ConfigError
from opentela.supervisor.slurm import numbers
from opentela.supervisor.slurm.job import (
    WARNING,
    Job,
    JobSpec,
    SlurmRefusedError,
    SlurmUnavailableError,
    one_state,
)

AnswerT = TypeVar("AnswerT")

_CONFIGURATIONS: Final = (
    "/etc/slurm/slurm.conf",
    "/etc/slurm-llnl/slurm.conf",
    "/run/slurm/conf/slurm.conf",
    "/usr/local/etc/slurm.conf",
)


class Library:
    """The port to Slurm through pyslurm."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._slurm = load(environ)

    async def submit(self, spec: JobSpec) -> int:
        """Return the number of the new job."""
        if spec.extra:
            raise ConfigError(
                f"pyslurm takes no options of sbatch: {' '.join(spec.extra)}",
                remedy="omit --sbatch, or use --via cli",
            )
        described = description(spec)
        return await self._ask(lambda: int(self._slurm.JobSubmitDescription(**described).submit()))

    async def jobs(self, *, ids: Sequence[int] = (), name: str = "") -> list[Job]:
        """Return our jobs, the oldest first."""
        loaded = await self._ask(self._slurm.Jobs.load)
        uid = os.getuid()
        found = [
            _job(one)
            for number, one in loaded.items()
            if (number in ids if ids else one.user_id == uid)
        ]
        chosen = [job for job in found if not name or job.name == name]
        return sorted(chosen, key=lambda job: job.id)

    async def warn(self, job: int) -> None:
        """Ask what runs in the steps of a job to leave."""
        # By default it reaches the steps alone, as scancel's does.
        await self._ask(
            lambda: self._slurm.Job(job).send_signal(f"SIG{WARNING}"), forgives=numbers.GONE
        )

    async def cancel(self, job: int) -> None:
        """End a job."""
        await self._ask(self._slurm.Job(job).cancel, forgives=numbers.GONE)

    async def start_estimate(self, spec: JobSpec) -> float:  # noqa: ARG002 - the port's form
        """Nobody knows: pyslurm has no such question."""
        return 0.0

    async def close(self) -> None:
        """Nothing is kept open."""

    async def _ask(
        self, question: Callable[[], AnswerT], *, forgives: Sequence[int] = ()
    ) -> AnswerT | Any:
        """Return the answer to what waits for the controller, asked beside the loop."""
        try:
            return await asyncio.to_thread(question)
        except self._slurm.RPCError as error:
            number = int(getattr(error, "errno", 0) or 0)
            if number in forgives:
                return None
            if number in numbers.UNREACHABLE:
                raise SlurmUnavailableError(
                    f"pyslurm: {error}", remedy="try again later"
                ) from error
            raise SlurmRefusedError(f"pyslurm: {error}") from error


def load(environ: Mapping[str, str]) -> Any:
    """Return the module pyslurm, imported now.

    Raises:
        SlurmUnavailableError: It is not installed, does not fit this Slurm, or finds no
            configuration.
    """
    if not is_configured(environ):
        raise SlurmUnavailableError(
            "pyslurm finds no slurm.conf",
            remedy="set SLURM_CONF, or run this on a node of the cluster",
        )
    try:
        return importlib.import_module("pyslurm")
    except ImportError as error:
        raise SlurmUnavailableError(
            f"pyslurm cannot be imported: {error}",
            remedy="install the release of pyslurm that fits this Slurm, or use --via cli",
        ) from error


def is_configured(environ: Mapping[str, str]) -> bool:
    """Return whether Slurm's library would find its configuration."""
    named = environ.get("SLURM_CONF", "")
    return any(Path(one).is_file() for one in ((named,) if named else _CONFIGURATIONS))


def description(spec: JobSpec) -> dict[str, Any]:
    """Return *spec* as arguments of `JobSubmitDescription`."""
    wanted: dict[str, Any] = {
        "name": spec.name,
        "script": spec.script,
        "time_limit": spec.time_limit_min,
        "working_directory": spec.directory,
        "standard_output": spec.output,
        "environment": dict(spec.environment),
        "nodes": spec.nodes,
        "ntasks": spec.nodes * spec.tasks_per_node,
        "ntasks_per_node": spec.tasks_per_node,
        "cpus_per_task": spec.cpus_per_task,
        "memory_per_node": f"{spec.memory_mb}M" if spec.memory_mb else "",
        "gres_per_node": spec.gres,
        "partitions": spec.partition,
        "account": spec.account,
        "qos": spec.qos,
        "reservations": spec.reservation,
        "required_features": spec.constraint,
        "comment": spec.comment,
        "log_files_open_mode": "append",
        "is_requeueable": spec.requeue,
    }
    if spec.warn_s:
        wanted["signal"] = {"signal": signal.Signals[f"SIG{WARNING}"].value, "time": spec.warn_s}
    return {name: value for name, value in wanted.items() if value not in ("", 0)}


def _job(told: Any) -> Job:
    state = str(told.state or "")
    return Job(
        id=int(told.id),
        name=str(told.name or ""),
        state=one_state(state.replace("+", ",").split(",")),
        reason="" if str(told.state_reason) == "None" else str(told.state_reason or ""),
        partition=str(told.partition or ""),
        nodes=str(told.allocated_nodes or ""),
        submitted_at=float(told.submit_time or 0),
        starts_at=float(told.start_time or 0),
        ends_at=float(told.end_time or 0),
    )
