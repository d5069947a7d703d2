"""The words of Slurm's commands: options of sbatch, and what squeue prints."""

import re
from collections.abc import Sequence
from typing import Final

from opentela.core.errors import ConfigError, WireError
from opentela.supervisor.slurm.job import WARNING, Job, JobSpec

SEPARATOR: Final = "\x1f"
"""Between fields of squeue: names and reasons may hold any printable character."""
_FIELDS: Final = ("%A", "%j", "%T", "%r", "%P", "%N", "%V", "%S", "%e")
FORMAT: Final = SEPARATOR.join(_FIELDS)
ENVIRONMENT: Final = {"SLURM_TIME_FORMAT": "%s"}
"""Makes every command print Unix seconds instead of this node's local time."""
UNKNOWN_JOB: Final = "Invalid job id"
ALREADY_ENDED: Final = "already completing or completed"
_ESTIMATE: Final = re.compile(r"to start at (\S+)")
_NO_REASONS: Final = ("None", "(null)", "N/A")


def options(spec: JobSpec) -> list[str]:
    """Return *spec* as options of sbatch, without its script.

    Raises:
        ConfigError: One of them is none.
    """
    wanted: list[tuple[str, object]] = [
        ("job-name", spec.name),
        ("time", _minutes(spec.time_limit_min)),
        ("chdir", spec.directory),
        ("output", spec.output),
        ("nodes", spec.nodes),
        ("ntasks-per-node", spec.tasks_per_node),
        ("cpus-per-task", spec.cpus_per_task),
        ("mem", f"{spec.memory_mb}M" if spec.memory_mb else ""),
        ("gres", spec.gres),
        ("partition", spec.partition),
        ("account", spec.account),
        ("qos", spec.qos),
        ("reservation", spec.reservation),
        ("constraint", spec.constraint),
        ("signal", f"{WARNING}@{spec.warn_s}" if spec.warn_s else ""),
        ("comment", spec.comment),
    ]
    words = [f"--{name}={value}" for name, value in wanted if value]
    if wrong := next((word for word in words if not word.isprintable()), ""):
        # In a script, a line break would begin an option of its own.
        raise ConfigError(f"{wrong!r} is not an option of sbatch", remedy="write it on one line")
    words += ["--requeue" if spec.requeue else "--no-requeue", "--open-mode=append"]
    return words + [_option(one) for one in spec.extra]


def whole_script(spec: JobSpec) -> str:
    """Return *spec* as a job script that can be given to sbatch by hand."""
    first, _, rest = spec.script.partition("\n")
    lines = [f"#SBATCH {_as_written(word)}" for word in options(spec)]
    return "\n".join((first, *lines, rest))


def read_jobs(printed: str) -> list[Job]:
    """Return the jobs that squeue printed in our format, the oldest first.

    Raises:
        WireError: A line is no such.
    """
    jobs = [_read_job(line) for line in printed.splitlines() if line.strip()]
    return sorted(jobs, key=lambda job: job.id)


def read_number(printed: str) -> int:
    """Return the job that `sbatch --parsable` printed: `123`, or `123;cluster`.

    Raises:
        WireError: It printed something else.
    """
    last = (printed.strip().splitlines() or [""])[-1].partition(";")[0]
    if not last.isdecimal():
        raise WireError(f"sbatch printed no number of a job: {printed.strip()[:200]!r}")
    return int(last)


def read_estimate(printed: str) -> float:
    """Return the instant that `sbatch --test-only` told; 0 when it told none."""
    found = _ESTIMATE.search(printed)
    return _instant(found[1]) if found else 0.0


def complaint(said: str) -> str:
    """Return the line in which a command of Slurm's says what is wrong."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    worst = [line for line in lines if "error" in line.lower()] or lines or ["it said nothing"]
    return re.sub(r"^\w+: (error|fatal): ", "", worst[-1])[:300]


def _read_job(line: str) -> Job:
    fields = line.split(SEPARATOR)
    if len(fields) != len(_FIELDS) or not fields[0].isdecimal():
        raise WireError(f"squeue printed no job: {line[:200]!r}")
    number, name, state, reason, partition, nodes, submitted, starts, ends = fields
    return Job(
        id=int(number),
        name=name,
        state=state,
        reason="" if reason in _NO_REASONS else reason,
        partition=partition,
        nodes="" if nodes in _NO_REASONS else nodes,
        submitted_at=_instant(submitted),
        starts_at=_instant(starts),
        ends_at=_instant(ends),
    )


def _instant(text: str) -> float:
    """Return Unix seconds; 0 for the words that Slurm has for no time."""
    return float(text) if re.fullmatch(r"\d+(\.\d+)?", text) else 0.0


def _minutes(count: int) -> str:
    days, rest = divmod(count, 24 * 60)
    hours, minutes = divmod(rest, 60)
    return f"{days}-{hours:02}:{minutes:02}:00"


def _option(given: str) -> str:
    """Return a further option as one word.

    Raises:
        ConfigError: It does not look like one.
    """
    if not re.fullmatch(r"--[a-z][a-z0-9-]*(=.+)?", given) or "\n" in given:
        raise ConfigError(
            f"--sbatch {given!r} is not an option of sbatch",
            remedy="write it in its long form, as in --sbatch=--exclusive or --sbatch=--nice=100",
        )
    return given


def _as_written(word: str) -> str:
    """Return an option as sbatch reads it from a script: blanks need quotes."""
    name, equals, value = word.partition("=")
    if not equals or re.fullmatch(r"[\w%@.,:/+\[\]-]+", value):
        return word
    return f'{name}="{value}"'


def words_of(command: Sequence[str]) -> str:
    """Return a command for a message, cut to what is worth reading."""
    return " ".join(command)[:200]
