"""Slurm by its commands, which every release has: sbatch, squeue, scancel."""

import asyncio
import contextlib
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Final, NamedTuple, TypeVar

from opentela.core.errors import WireError
from opentela.supervisor.slurm import sbatch
from opentela.supervisor.slurm.job import (
    WARNING,
    Job,
    JobSpec,
    SlurmRefusedError,
    SlurmUnavailableError,
)

ReadT = TypeVar("ReadT")

COMMAND_WITHIN_S: Final = 60.0
"""A busy controller answers late; commands themselves give up after MessageTimeout, 10 s."""
_OUTPUT_CHARACTERS_MAX: Final = 16_000_000
_UNREACHABLE: Final = (
    "unable to contact slurm controller",
    "slurm backup controller in standby",
    "socket timed out",
    "connection refused",
    "zero bytes were transmitted",
    "unable to establish controller machine",
    "slurmctld is not responding",
    "temporarily unable to accept job",
)
"""What commands say when Slurm is away for a while, in small letters."""
_UNCONFIGURED: Final = (
    "failed to fetch config",
    "could not establish a configuration source",
    "unable to process configuration file",
)
"""What they say where there is no slurm.conf and none is handed out; a controller that hands them
out may be away for a while, too."""
_GONE: Final = (sbatch.UNKNOWN_JOB, sbatch.ALREADY_ENDED)
"""What commands say of a job that need not be ended any more."""
_OURS: Final = ("SLURM_CONF", "SLURM_TIME_FORMAT")
_PREFIXES: Final = ("SLURM_", "SLURMD_", "SBATCH_", "SQUEUE_", "SCANCEL_", "SRUN_", "SALLOC_")


class Said(NamedTuple):
    """How a command ended, and what it said."""

    status: int
    output: str
    errors: str


class CommandLine:
    """The port to Slurm through its commands."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = {
            **{name: value for name, value in environ.items() if not is_slurms(name)},
            **sbatch.ENVIRONMENT,
        }

    async def submit(self, spec: JobSpec) -> int:
        """Return the number of the new job."""
        said = await self._ask("sbatch", "--parsable", *sbatch.options(spec), spec=spec)
        return _read(sbatch.read_number, said.output)

    async def jobs(self, *, ids: Sequence[int] = (), name: str = "") -> list[Job]:
        """Return our jobs, the oldest first."""
        chosen = [f"--jobs={','.join(map(str, ids))}"] if ids else [f"--user={os.getuid()}"]
        named = [f"--name={name}"] if name else []
        said = await self._ask(
            *("squeue", "--noheader", "--all", "--states=all", f"--format={sbatch.FORMAT}"),
            *(*chosen, *named),
            forgives=(sbatch.UNKNOWN_JOB,),
        )
        return _read(sbatch.read_jobs, said.output)

    async def warn(self, job: int) -> None:
        """Ask what runs in the steps of a job to leave."""
        await self._ask("scancel", f"--signal={WARNING}", str(job), forgives=_GONE)

    async def cancel(self, job: int) -> None:
        """End a job."""
        await self._ask("scancel", str(job), forgives=_GONE)

    async def start_estimate(self, spec: JobSpec) -> float:
        """Return when a job like this would start."""
        said = await self._ask("sbatch", "--test-only", *sbatch.options(spec), spec=spec)
        return sbatch.read_estimate(said.errors)

    async def close(self) -> None:
        """Nothing is kept open."""

    async def _ask(
        self, *command: str, spec: JobSpec | None = None, forgives: Sequence[str] = ()
    ) -> Said:
        """Return what a command said that did well, or complained of nothing but *forgives*."""
        said = await self._run(command, spec)
        if said.status == 0 or any(words in said.errors for words in forgives):
            return said
        complaint = sbatch.complaint(said.errors)
        if any(words in said.errors.lower() for words in _UNCONFIGURED):
            raise SlurmUnavailableError(
                f"{command[0]} finds no Slurm configuration",
                remedy="run this on a login node, set SLURM_CONF, or give --via rest"
                " with --slurm-url; where it worked before, try again later",
            )
        if any(words in said.errors.lower() for words in _UNREACHABLE):
            raise SlurmUnavailableError(f"{command[0]}: {complaint}", remedy="try again later")
        raise SlurmRefusedError(f"{command[0]}: {complaint}")

    async def _run(self, command: Sequence[str], spec: JobSpec | None) -> Said:
        environ = self._environ
        if spec is not None:
            # What sbatch is given is what the job gets.
            kept: dict[str, str] = {name: environ[name] for name in _OURS if name in environ}
            environ = {"PATH": environ.get("PATH", os.defpath), **kept, **spec.environment}
        with tempfile.TemporaryFile() as script:
            # A file, not a pipe: a command that fails early would leave us writing to nobody.
            script.write(spec.script.encode() if spec is not None else b"")
            script.seek(0)
            process = await _started(command, environ, script)
        try:
            async with asyncio.timeout(COMMAND_WITHIN_S):
                output, errors = await process.communicate()
        except TimeoutError as error:
            raise SlurmUnavailableError(
                f"{command[0]} did not answer within {COMMAND_WITHIN_S:.0f} s",
                remedy="try again later",
            ) from error
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        assert process.returncode is not None
        text = output[:_OUTPUT_CHARACTERS_MAX].decode(errors="replace")
        return Said(process.returncode, text, errors.decode(errors="replace"))


async def _started(
    command: Sequence[str], environ: Mapping[str, str], script: IO[bytes]
) -> asyncio.subprocess.Process:
    try:
        return await asyncio.create_subprocess_exec(
            *command,
            env=environ,
            stdin=script,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except FileNotFoundError as error:
        raise SlurmUnavailableError(
            f"{command[0]}: command not found",
            remedy="run this where Slurm's commands are, such as a login node",
        ) from error


def is_slurms(variable: str) -> bool:
    """Return whether *variable* tells Slurm's commands, or is told by the job that we are in."""
    return variable.startswith(_PREFIXES) and variable not in _OURS


def _read(read: Callable[[str], ReadT], printed: str) -> ReadT:
    try:
        return read(printed)
    except WireError as error:
        raise SlurmUnavailableError(str(error)) from error
