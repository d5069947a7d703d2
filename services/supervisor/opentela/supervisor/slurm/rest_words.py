"""The words of slurmrestd: what it is sent and what it answers, in releases old and new.

Up to v0.0.39 numbers are numbers and a state is a word; later a number says whether it is set, and
a state is a list of words. `B:` signals, or any beside a job's steps, cannot be asked for in the
old form.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from opentela.core.errors import WireError
from opentela.supervisor.slurm.job import WARNING, Job, JobSpec, one_state

VERSION: Final = re.compile(r"/slurm/v0\.0\.(\d+)/job/submit")
NEW_FORM: Final = 40
OLDEST: Final = 38
NEWEST: Final = 99
_NEVER: Final = 1 << 32
"""Slurm writes no time as one of its greatest numbers, or as 0."""
_DECODER: Final = msgspec.json.Decoder()


def version(openapi: bytes) -> int:
    """Return the newest form of the API that *openapi*, the server's own description, lists.

    Raises:
        WireError: None that we speak.
    """
    listed = [int(found) for found in VERSION.findall(openapi.decode(errors="replace"))]
    # The description may escape its slashes.
    listed += [int(found) for found in re.findall(r"v0\.0\.(\d+)\\/job\\/submit", openapi.decode())]
    known = [one for one in listed if OLDEST <= one <= NEWEST]
    if not known:
        raise WireError(f"slurmrestd offers no API from v0.0.{OLDEST} on")
    return max(known)


def submission(spec: JobSpec, number: int) -> bytes:
    """Return the body that submits *spec* in the form of v0.0.*number*."""
    is_new = number >= NEW_FORM
    job: dict[str, Any] = {
        "name": spec.name,
        "current_working_directory": spec.directory,
        "standard_output": spec.output,
        "time_limit": _count(spec.time_limit_min, is_new=is_new),
        "tasks": spec.nodes * spec.tasks_per_node,
        "requeue": spec.requeue,
        "partition": spec.partition,
        "account": spec.account,
        "qos": spec.qos,
        "reservation": spec.reservation,
        "constraints": spec.constraint,
        "comment": spec.comment,
    }
    job = {name: value for name, value in job.items() if value != ""}
    if spec.cpus_per_task:
        job["cpus_per_task"] = spec.cpus_per_task
    if spec.memory_mb:
        job["memory_per_node"] = _count(spec.memory_mb, is_new=is_new)
    job.update(_new(spec) if is_new else _old(spec))
    if is_new:
        job["script"] = spec.script
        return msgspec.json.encode({"job": job})
    return msgspec.json.encode({"script": spec.script, "job": job})


def _old(spec: JobSpec) -> dict[str, Any]:
    job: dict[str, Any] = {
        "nodes": [spec.nodes, spec.nodes],
        "tasks_per_node": spec.tasks_per_node,
        "environment": spec.environment,
        "open_mode": "a",
    }
    if spec.gres:
        job["gres"] = spec.gres
    if spec.warn_s:
        job["signal"] = f"{WARNING}@{spec.warn_s}"
    return job


def _new(spec: JobSpec) -> dict[str, Any]:
    job: dict[str, Any] = {
        "minimum_nodes": spec.nodes,
        "maximum_nodes": spec.nodes,
        "tasks_per_node": spec.tasks_per_node,
        "environment": [f"{name}={value}" for name, value in spec.environment.items()],
        "open_mode": ["APPEND"],
    }
    if spec.gres:
        job["tres_per_node"] = ",".join(f"gres/{one}" for one in spec.gres.split(","))
    if spec.warn_s:
        job["kill_warning_signal"] = WARNING
        job["kill_warning_delay"] = _count(spec.warn_s, is_new=True)
    return job


def _count(number: int, *, is_new: bool) -> object:
    return {"set": True, "infinite": False, "number": number} if is_new else number


def read_number(body: bytes) -> int:
    """Return the number of the submitted job.

    Raises:
        WireError: There is none.
    """
    number = _object(body).get("job_id")
    if not isinstance(number, int) or number <= 0:
        raise WireError("slurmrestd named no job")
    return number


def read_jobs(body: bytes, *, user: str = "") -> list[Job]:
    """Return the jobs of an answer, the oldest first; with *user*, only theirs.

    Raises:
        WireError: It holds something else.
    """
    try:
        jobs = [
            _read_job(one)
            for one in _object(body).get("jobs", ())
            if not user or one.get("user_name") == user
        ]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise WireError(f"slurmrestd told no jobs: {error!r}") from error
    return sorted(jobs, key=lambda job: job.id)


def errors(body: bytes) -> list[tuple[int, str]]:
    """Return number and words of each error that an answer tells."""
    try:
        told: Iterable[Mapping[str, Any]] = _object(body).get("errors") or ()
        return [
            (
                int(one.get("error_number") or one.get("error_code") or 0),
                ": ".join(str(one[key]) for key in ("error", "description") if one.get(key))[:300],
            )
            for one in told
        ]
    except (WireError, AttributeError, TypeError, ValueError):
        return []


def _object(body: bytes) -> dict[str, Any]:
    try:
        decoded = _DECODER.decode(body)
    except msgspec.DecodeError as error:
        raise WireError(f"slurmrestd answered no JSON: {error}") from error
    if not isinstance(decoded, dict):
        raise WireError("slurmrestd answered no object")
    return decoded


def _read_job(told: Mapping[str, Any]) -> Job:
    state = told["job_state"]
    reason = str(told.get("state_reason") or "")
    return Job(
        id=int(told["job_id"]),
        name=str(told.get("name") or ""),
        state=one_state(state) if isinstance(state, list) else str(state),
        reason="" if reason == "None" else reason,
        partition=str(told.get("partition") or ""),
        nodes=str(told.get("nodes") or ""),
        submitted_at=_instant(told.get("submit_time")),
        starts_at=_instant(told.get("start_time")),
        ends_at=_instant(told.get("end_time")),
    )


def _instant(told: object) -> float:
    if isinstance(told, dict):
        told = told.get("number", 0) if told.get("set") and not told.get("infinite") else 0
    return float(told) if isinstance(told, int | float) and 0 < told < _NEVER else 0.0
