"""From the words of `otela submit` to the service that is meant."""

import shlex
import sys
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Final

from opentela import settings as all_settings
from opentela.core.errors import ConfigError, UsageError
from opentela.supervisor import walltime
from opentela.supervisor.config import WalltimeConfig
from opentela.supervisor.slurm import request as requests
from opentela.supervisor.slurm import sbatch
from opentela.supervisor.slurm.job import JobSpec
from opentela.supervisor.slurm.ledger import Service
from opentela.supervisor.slurm.request import Request
from opentela.supervisor.slurm.succession import Rules

OTELA: Final = (sys.executable, "-m", "opentela.cli")
"""How a node runs our command: by this very Python, which it must see where we do."""
_PASSED: Final = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "SLURM_CONF"),
    *("XDG_DATA_HOME", "LD_LIBRARY_PATH", "MODULEPATH", "MODULESHOME"),
)
"""What a job needs of our environment to find programs and modules; all else is named."""
_WARN_S: Final = 60
"""Slurm's warning before the end of a job, up to a minute earlier; its supervisors have left by
themselves then. What it is for is a preemption, which it announces, too."""
_WARNED_FROM_S: Final = 300.0
"""A shorter job is not warned: it would be while it starts, before anything can heed it."""


def recipes() -> dict[str, requests.EngineRecipe]:
    """Return the engines that `--engine` may name."""
    return requests.recipes(_template("engines.toml"))


def script_template(path: Path | None) -> str:
    """Return the template of the job script: ours, or the one at *path*.

    Raises:
        ConfigError: It cannot be read.
    """
    if path is None:
        return _template("job.sh")
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "no text"
        raise ConfigError(
            f"--template {path}: {why}", remedy="name a script that can be read"
        ) from error


def service(
    given: Mapping[str, Any],
    limits: WalltimeConfig,
    *,
    top: Path,
    environ: Mapping[str, str],
) -> Service:
    """Return the service that the options *given* ask for.

    Args:
        given: By the names of the options.
        limits: Of its supervisors, before their jobs end.
        top: Where the folders of services lie.
        environ: Ours.

    Raises:
        ConfigError: An option does not fit.
        UsageError: There is neither a model nor a command.
    """
    command, worker = _commands(given)
    name = requests.service_name(given["name"], given["model"] or (command or ("agent",))[0])
    asked = Request(
        name=name,
        otela=OTELA,
        folder=str(top / name),
        start=_start_words(given),
        command=command,
        worker=worker,
        job=_job(given, name, environ),
        replicas=given["replicas"],
        replicas_per_node=given["replicas_per_node"],
        nodes_per_replica=given["nodes_per_replica"],
        gpus=given["gpus"],
        gpu_type=given["gpu_type"],
        prologue=_prologue(given),
        srun=given["srun"],
        lasts=given["lasting"],
    )
    rules = all_settings.load(Rules, service="keep", environ=environ).value
    spec = requests.job_spec(asked, script_template(given["template"]))
    sbatch.options(spec)  # what is no option is refused before anything is asked of Slurm
    return Service(
        name=name,
        spec=spec,
        replicas=asked.replicas,
        gpus=asked.all_gpus,
        lasts=asked.lasts,
        drain_before_s=_drain_before_s(asked.job.time_limit_s, limits.margin_s, limits.reserve_s,
                                       limits.margin_share_max),
        via=given["via"],
        url=given["slurm_url"],
        rules=rules,
    )  # fmt: skip


def _drain_before_s(time_limit_s: float, margin_s: float, reserve_s: float, share: float) -> float:
    """Return how long before its end a supervisor that starts with the job will drain."""
    left_s = time_limit_s - reserve_s
    if left_s <= 0:
        raise ConfigError(
            f"--time: a job of {time_limit_s:.0f} s is no longer than"
            f" walltime.reserve_s = {reserve_s:.0f} s",
            remedy="ask for more time, or set walltime.reserve_s lower",
        )
    return reserve_s + min(margin_s, share * left_s)


def _commands(given: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what a replica runs on its first node and on its others; nothing of an agent."""
    if given["is_agent"]:
        unfit = ("model", "argv", "aliases", "worker", "image")
        if wrong := next((one for one in unfit if given[one]), ""):
            shown = {"argv": "a command", "aliases": "--model-alias"}.get(wrong, f"--{wrong}")
            raise UsageError(
                f"--agent and {shown} exclude each other",
                remedy="an agent runs what its templates say: put it there, see --config",
            )
        return (), ()
    nodes, gpus = given["nodes_per_replica"], given["gpus"]
    worker = tuple(shlex.split(given["worker"]))
    if given["argv"]:
        if given["model"]:
            raise UsageError(
                "both a model and a command were given",
                remedy="give --model, or the engine's command after --",
            )
        command = tuple(given["argv"])
    elif given["model"]:
        command, made = requests.engine_words(
            recipes()[given["engine"]], given["model"], gpus=gpus, nodes=nodes
        )
        worker = worker or made
    else:
        raise UsageError(
            "nothing to run", remedy="give --model MODEL, or the engine's command after --"
        )
    if not given["image"]:
        return command, worker
    words = tuple(word for option in given["apptainer"] for word in shlex.split(option))
    return (
        requests.contained(command, given["image"], options=words, gpus=gpus),
        requests.contained(worker, given["image"], options=words, gpus=gpus),
    )


def _start_words(given: Mapping[str, Any]) -> tuple[str, ...]:
    words = ["--access", str(Path(given["access"]).expanduser().absolute())]
    if given["site"]:
        words += ["--site", given["site"]]
    for alias in given["aliases"]:
        words += ["--model-alias", alias]
    for label in given["labels"]:
        words += ["--label", label]
    if given["config_file"]:
        words += ["--config", str(Path(given["config_file"]).absolute())]
    for override in given["overrides"]:
        words += ["--set", override]
    return tuple(words)


def _prologue(given: Mapping[str, Any]) -> tuple[str, ...]:
    modules = [f"module load {shlex.quote(one)}" for one in given["modules"]]
    return (*modules, *given["prologue"])


def _job(given: Mapping[str, Any], name: str, environ: Mapping[str, str]) -> JobSpec:
    passed = {one: environ[one] for one in _PASSED if one in environ}
    passed.update(requests.exports(given["env"], environ))
    directory = Path(given["directory"]).absolute()
    time_limit_s = walltime.duration_s(given["time"], field="--time")
    return JobSpec(
        name=name,
        script="",
        time_limit_s=time_limit_s,
        directory=str(directory),
        output=given["output"] or f"{requests.PREFIX}{name}-%j.out",
        environment=passed,
        cpus_per_task=given["cpus"],
        memory_mb=given["memory"],
        partition=given["partition"],
        account=given["account"],
        qos=given["qos"],
        reservation=given["reservation"],
        constraint=given["constraint"],
        warn_s=_WARN_S if time_limit_s >= _WARNED_FROM_S else 0,
        requeue=given["requeue"],
        extra=given["sbatch"],
    )


def _template(name: str) -> str:
    return (resources.files(__package__) / "templates" / name).read_text(encoding="utf-8")
