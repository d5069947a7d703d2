"""The commands `otela submit`, `otela jobs`, `otela cancel` and `otela keep`."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from opentela import service as processes
from opentela import settings as all_settings
from opentela.core.errors import ConfigError
from opentela.service import Lifecycle, SystemClock
from opentela.supervisor.agent.config import AgentConfig
from opentela.supervisor.cli import admission, pairs
from opentela.supervisor.config import SupervisorConfig
from opentela.supervisor.slurm import asked, choice, desk, sbatch
from opentela.supervisor.slurm.folder import Folder, root
from opentela.supervisor.slurm.keeper import Keeper

_COUNT: Final = click.IntRange(min=1)
_NONE_OR_MORE: Final = click.IntRange(min=0)

Option = Callable[[Callable[..., Any]], Callable[..., Any]]


def _option(*words: str, **rules: Any) -> Option:
    return click.option(*words, **rules)


def _many(word: str, name: str, metavar: str, text: str) -> Option:
    return click.option(word, name, metavar=metavar, multiple=True, help=f"{text}; repeatable.")


_json = _option("--json", "as_json", is_flag=True, help="Print JSON.")
_via: Final = (
    _option("--via", type=click.Choice(choice.VIAS), default="auto", help="How to reach Slurm."),
    _option(
        "--slurm-url",
        default="",
        metavar="URL",
        help="Address of slurmrestd: http://host:port or unix:/path. [default: $OTELA_SLURM_URL]",
    ),
)
_WHAT: Final = (
    _option("--model", default="", help="Model to serve, as the engine names it."),
    _option(
        "--engine",
        type=click.Choice(sorted(asked.recipes())),
        default="vllm",
        show_default=True,
        help="Engine that serves it.",
    ),
    _option("--agent", "is_agent", is_flag=True, help="Run otela agent: a placer chooses models."),
    _option("--name", default="", help="Name of the service. [default: from the model]"),
    _option("--access", metavar="FILE", help="Access file of a provider."),
    _option("--site", default="", help="Name of the site, as for otela start."),
    _many("--model-alias", "aliases", "ALIAS[=MODEL]", "Another name for the model"),
    _many("--label", "labels", "KEY=VALUE", "Label that clients can select by"),
    _option(
        "--config", "config_file", metavar="FILE", type=click.Path(path_type=Path),
        help="Configuration of the supervisors.",
    ),
    _many("--set", "overrides", "FIELD=VALUE", "Set one field of that configuration"),
)  # fmt: skip
_SIZE: Final = (
    _option(
        "--time", required=True, help="Time limit of each job: 2h, 90m or hours:minutes:seconds."
    ),
    _option(
        "--gpus",
        type=_NONE_OR_MORE,
        default=1,
        show_default=True,
        help="GPUs per replica, on each of its nodes.",
    ),
    _option("--gpu-type", default="", help="Type of GPU, as the cluster names it."),
    _option("--replicas", type=_COUNT, default=1, show_default=True, help="Engines per job."),
    _option("--replicas-per-node", type=_COUNT, default=1, help="Engines that share a node."),
    _option("--nodes-per-replica", type=_COUNT, default=1, help="Nodes that one engine spans."),
    _option(
        "--worker",
        default="",
        metavar="COMMAND",
        help="What to run on a replica's other nodes.",
    ),
    _option("--cpus", type=_NONE_OR_MORE, default=0, help="CPUs per replica, on each node."),
    _option("--memory", type=_NONE_OR_MORE, default=0, metavar="MB", help="Memory per node."),
    _option("--partition", default="", help="Partition to submit to."),
    _option("--account", default="", help="Account to charge."),
    _option("--qos", default="", help="Quality of service."),
    _option("--reservation", default="", help="Reservation to use."),
    _option("--constraint", default="", help="Features that nodes must have."),
    _option("--requeue/--no-requeue", default=True, help="Requeue the job after a preemption."),
    _many("--sbatch", "sbatch", "OPTION", "Another option for sbatch, such as --exclusive"),
    _many("--srun", "srun", "OPTION", "Another option for each replica's srun"),
)
_SURROUNDINGS: Final = (
    _many("--module", "modules", "NAME", "Environment module to load"),
    _many("--env", "env", "NAME[=VALUE]", "Environment variable of the job"),
    _many("--line", "prologue", "LINE", "Shell line to run before the engine"),
    _option("--image", default="", metavar="SIF", help="Apptainer image that contains the engine."),
    _many("--apptainer", "apptainer", "OPTIONS", "More options for apptainer exec"),
    _option("--directory", default="", help="Working directory of the jobs. [default: this one]"),
    _option("--output", default="", metavar="FILE", help="Output of each job; %j is the job id."),
    _option(
        "--template",
        type=click.Path(path_type=Path),
        help="Template of the job script, instead of the built-in one.",
    ),
    _option("--lasting", is_flag=True, help="Have a successor ready before each job ends."),
)
_HOW: Final = (
    *_via,
    _option("--dry-run", is_flag=True, help="Print the job script and submit nothing."),
    _option("--follow", is_flag=True, help="Wait until the job serves or has ended."),
    _json,
)


def _with(*groups: tuple[Option, ...]) -> Option:
    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed([option for group in groups for option in group]):
            command = option(command)
        return command

    return decorate


@click.command(
    context_settings={"allow_interspersed_args": False},
    epilog="Example: otela submit --access me.toml --model Qwen/Qwen3-8B --gpus 1 --time 8h",
)
@_with(_WHAT, _SIZE, _SURROUNDINGS, _HOW)
@click.argument("argv", metavar="[-- COMMAND...]", nargs=-1, type=click.UNPROCESSED)
def submit(*, dry_run: bool, follow: bool, as_json: bool, **given: Any) -> None:
    """Run an engine in Slurm jobs and offer its models to the mesh.

    Each replica is a step of a job. With --lasting, a successor is submitted before each job ends.
    Choose the engine by --model and --engine, or give its command after --.
    """
    supervisor = _supervisor(given)
    given["access"] = given["access"] or supervisor.access
    admission(msgspec.structs.replace(supervisor, access=given["access"]))
    pairs(given["labels"], "--label", needs_value=True)
    pairs(given["aliases"], "--model-alias", needs_value=False)
    service = asked.service(given, supervisor.walltime, top=root(os.environ), environ=os.environ)
    if dry_run:
        click.echo(sbatch.whole_script(service.spec), nl=False)
        return

    async def main(life: Lifecycle) -> None:
        folder = Folder(root(os.environ) / service.name)
        slurm = choice.scheduler(service.via, service.url, os.environ)
        await desk.submit(
            life, slurm, folder, service, SystemClock(), say=_say(as_json=as_json), follow=follow
        )

    processes.run_for_people(main, name="submit")


@click.command()
@_with(_via, (_json,))
def jobs(*, via: str, slurm_url: str, as_json: bool) -> None:
    """List the jobs of your services."""

    async def main(_life: Lifecycle) -> None:
        slurm = choice.scheduler(via, slurm_url, os.environ)
        rows = await desk.listed(slurm, root(os.environ), SystemClock())
        if as_json:
            sys.stdout.buffer.write(msgspec.json.encode(rows) + b"\n")
        else:
            desk.show(rows)

    processes.run_for_people(main, name="jobs")


@click.command()
@click.argument("name")
@_option("--now", is_flag=True, help="Do not wait for running requests.")
@_with(_via)
def cancel(*, name: str, now: bool, via: str, slurm_url: str) -> None:
    """End a service: finish its running requests, then end its jobs."""
    folder = Folder(root(os.environ) / name)
    if not folder.exists:
        raise ConfigError(f"there is no service {name!r}", remedy="otela jobs lists them")

    async def main(life: Lifecycle) -> None:
        slurm = choice.scheduler(via, slurm_url, os.environ)
        await desk.cancel(life, slurm, folder, say=_say(as_json=False), now=now)

    processes.run_for_people(main, name="cancel")


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
def keep(*, folder: Path) -> None:
    """Submit the successor of this Slurm job; job scripts run this.

    The scripts that `otela submit --lasting` writes start it; FOLDER is the service's.
    """
    # What warns the steps of a job may reach its script's children, too.
    for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)

    async def main(life: Lifecycle) -> None:
        await Keeper(Folder(folder), os.environ, SystemClock()).run(life)

    processes.run(main, name="keep")


def _supervisor(given: dict[str, Any]) -> SupervisorConfig:
    """Return how the supervisors of a job are configured, or those of its agents.

    Raises:
        ConfigError: A field is none, or an agent would have nothing to run engines on.
    """
    file, overrides = given["config_file"], given["overrides"]
    if not given["is_agent"]:
        return all_settings.load(
            SupervisorConfig, service="supervisor", file=file, overrides=overrides
        ).value
    config = all_settings.load(AgentConfig, service="agent", file=file, overrides=overrides).value
    if not given["gpus"] and not config.slots:
        raise ConfigError(
            "--gpus 0: an agent needs GPUs", remedy="ask for some, or give --set slots=N"
        )
    return config.supervisor


def _say(*, as_json: bool) -> desk.Say:
    def say(words: str, **facts: object) -> None:
        if as_json:
            sys.stdout.buffer.write(msgspec.json.encode({"said": words, **facts}) + b"\n")
            sys.stdout.flush()
        else:
            click.echo(words)

    return say
