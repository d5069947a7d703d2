"""What somebody wants to run in jobs, and the job that it becomes."""

import re
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from opentela.core.errors import ConfigError
from opentela.supervisor.slurm.job import Count, JobSpec

PREFIX: Final = "otela-"
"""Of the names of our jobs, by which they are found again."""
_SERVICE_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,47}")
_AT_RUN_TIME: Final = {
    "{head}": '"$head"',
    "{rank}": '"$SLURM_PROCID"',
    "{rendezvous}": '"$rendezvous"',
}
"""Words that only the job knows; everything else is fixed when it is submitted."""
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLACE: Final = re.compile(r"@([A-Z]+)@")


_DEAF: Final = ("sh", "-c", "trap '' HUP USR1 USR2; exec \"$@\"", "deaf")
"""Apptainer starts what it contains with signals as usual; ours keep warnings from engines."""


class EngineRecipe(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a kind of engine is started: the words of its command, and what is added when."""

    serve: tuple[str, ...]
    gpus: tuple[str, ...] = ()
    head: tuple[str, ...] = ()
    worker: tuple[str, ...] = ()


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A service to run.

    Attributes:
        name: Of the service.
        otela: How our own command is run on a node.
        folder: Where the service's jobs leave notes for each other; nodes must reach it.
        start: Options of `otela start`, or of `otela agent`.
        command: The engine's; empty for an agent, which is told what to run.
        worker: Of the other nodes of a replica that spans several; empty when none does.
        time_limit_s: Of each job.
        replicas: Engines in one job.
        replicas_per_node: How many of them share a node.
        nodes_per_replica: How many nodes one of them spans.
        gpus: Of one replica on one node.
        gpu_type: As the cluster calls it, such as `h200`; empty for any.
        prologue: Lines of the job script before anything else: modules, `export`s, `source`.
        srun: Further options of each replica's `srun`.
        lasts: Whether a job is followed by another when it ends.
        job: What else the job asks for; its script, nodes and GPUs are ours to say.
    """

    name: str
    otela: tuple[str, ...]
    folder: str
    start: tuple[str, ...]
    command: tuple[str, ...]
    job: JobSpec
    worker: tuple[str, ...] = ()
    replicas: Count = 1
    replicas_per_node: Count = 1
    nodes_per_replica: Count = 1
    gpus: int = 0
    gpu_type: str = ""
    prologue: tuple[str, ...] = ()
    srun: tuple[str, ...] = ()
    lasts: bool = False

    @property
    def nodes(self) -> int:
        """Of one job."""
        return -(-self.replicas // self.replicas_per_node) * self.nodes_per_replica

    @property
    def all_gpus(self) -> int:
        """That one job holds."""
        return self.nodes * self.gpus * self.replicas_per_node


def service_name(given: str, model: str) -> str:
    """Return the service's name, made from the model's where none was *given*.

    Raises:
        ConfigError: It is none.
    """
    last = model.rstrip("/").rpartition("/")[2].lower()
    name = given or re.sub(r"[^a-z0-9._-]+", "-", last).strip("-._")[:48]
    if not _SERVICE_NAME.fullmatch(name):
        raise ConfigError(
            f"--name {name!r} is not a valid service name",
            remedy="use lower-case letters, digits, dots, dashes and underscores",
        )
    return name


def recipes(text: str) -> dict[str, EngineRecipe]:
    """Return the recipes that *text*, a TOML file, holds by name."""
    return msgspec.convert(tomllib.loads(text), dict[str, EngineRecipe])


def engine_words(
    recipe: EngineRecipe, model: str, *, gpus: int, nodes: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the command of a replica's first node, and that of its others if there are any.

    Raises:
        ConfigError: This engine cannot span nodes.
    """
    words = recipe.serve + (recipe.gpus if gpus > 1 or nodes > 1 else ())
    if nodes > 1 and not recipe.worker:
        raise ConfigError(
            "--nodes-per-replica: this engine has no recipe for several nodes",
            remedy="omit it, or give the command and --worker yourself",
        )
    known = {"{model}": model}
    head = words + (recipe.head if nodes > 1 else ())
    worker = words + recipe.worker if nodes > 1 else ()
    return _filled(head, known), _filled(worker, known)


def contained(
    command: Sequence[str], image: str, *, options: Sequence[str], gpus: int
) -> tuple[str, ...]:
    """Return *command* so that it runs within an Apptainer image."""
    if not command:
        return ()
    devices = ("--nv",) if gpus and not set(options) & {"--nv", "--nvccli", "--rocm"} else ()
    return ("apptainer", "exec", *devices, *options, image, *_DEAF, *command)


def job_spec(request: Request, template: str) -> JobSpec:
    """Return the job that *request* becomes.

    Raises:
        ConfigError: Its parts do not fit together.
    """
    _check(request)
    gres = ":".join(
        filter(None, ("gpu", request.gpu_type, str(request.gpus * request.replicas_per_node)))
    )
    return msgspec.structs.replace(
        request.job,
        name=PREFIX + request.name,
        script=script(request, template),
        nodes=request.nodes,
        tasks_per_node=request.replicas_per_node,
        gres=gres if request.gpus else request.job.gres,
    )


def script(request: Request, template: str) -> str:
    """Return the job script: *template* with its places filled.

    Raises:
        ConfigError: The template has a place that nothing is known for.
    """
    places = {
        "NAME": request.name,
        "OTELA": shlex.join(request.otela),
        "FOLDER": shlex.quote(request.folder),
        "PROLOGUE": "\n".join(request.prologue),
        "TASK": _task(request),
        "REPLICAS": str(request.replicas),
        "SRUN": shlex.join(_srun(request)),
        "KEEPER": _KEEPER if request.lasts else "",
    }

    def fill(place: re.Match[str]) -> str:
        if place[1] not in places:
            raise ConfigError(
                f"the template's {place[0]} is not a known placeholder",
                remedy=f"it may contain {', '.join(f'@{name}@' for name in places)}",
            )
        return places[place[1]]

    return _PLACE.sub(fill, template)


def exports(pairs: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of `--env`: `NAME=VALUE`, or `NAME` for the value that it has now.

    Raises:
        ConfigError: A word is neither, or the variable is not set.
    """
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not _VARIABLE.fullmatch(name):
            raise ConfigError(f"--env {pair!r} is not a variable", remedy="write it as NAME=VALUE")
        if not equals and name not in environ:
            raise ConfigError(f"--env {name}: it is not set", remedy=f"write --env {name}=VALUE")
        found[name] = value if equals else environ[name]
    return found


_KEEPER: Final = """
# Follows the replicas, submits a successor in time, and retires us for it.
keep() {
  local pid=
  trap 'kill -TERM "$pid" 2>/dev/null; wait "$pid"; exit' TERM
  until { "${otela[@]}" keep "$service" & pid=$!; wait "$pid"; }; do
    sleep 10 &
    pid=$!
    wait "$pid"
  done
}
keep &
keeper=$!
"""


def _check(request: Request) -> None:
    if request.replicas_per_node > 1 and request.nodes_per_replica > 1:
        raise ConfigError(
            "--replicas-per-node and --nodes-per-replica exclude each other",
            remedy="a replica spans nodes, or shares one",
        )
    if bool(request.worker) != (request.nodes_per_replica > 1):
        raise ConfigError(
            "--worker and --nodes-per-replica go together",
            remedy="say with --worker what the other nodes of a replica run",
        )
    if request.replicas % request.replicas_per_node:
        raise ConfigError(
            f"--replicas {request.replicas} do not fill nodes of {request.replicas_per_node}",
            remedy="make it a multiple of --replicas-per-node",
        )


def _srun(request: Request) -> list[str]:
    nodes = request.nodes_per_replica
    gpus = ":".join(filter(None, ("gpu", request.gpu_type, str(request.gpus))))
    cpus = request.job.cpus_per_task
    return [
        # Its own share of the allocation, except memory, which replicas of a node share.
        *("--exact", f"--nodes={nodes}", f"--ntasks={nodes}", "--mem=0"),
        *((f"--gres={gpus}",) if request.gpus else ()),
        *((f"--cpus-per-task={cpus}",) if cpus else ()),
        # Of a replica that spans nodes, none goes on when one has ended.
        *(("--kill-on-bad-exit=1", "--wait=30") if nodes > 1 else ()),
        *request.srun,
    ]


def _task(request: Request) -> str:
    known = {
        "{gpus}": str(max(1, request.gpus)),
        "{all_gpus}": str(max(1, request.gpus) * request.nodes_per_replica),
        "{nodes}": str(request.nodes_per_replica),
    }
    if not request.command:
        agent = shlex.join((*request.otela, "agent", *request.start))
        return f'exec {agent} --set supervisor.ready_file="$OTELA_READY"'
    begin = (*request.otela, "start", *request.start)
    serve = (
        f'exec {shlex.join(begin)} --set ready_file="$OTELA_READY" --'
        f" {_quoted(_filled(request.command, known), spans_nodes=bool(request.worker))}"
    )
    if not request.worker:
        return serve
    return "\n".join((
        'head=$(scontrol show hostnames "$SLURM_STEP_NODELIST" | head -n 1)',
        "rendezvous=$((20000 + (SLURM_JOB_ID * 16 + OTELA_REPLICA) % 10000))",
        f"if ((SLURM_PROCID == 0)); then {serve}; fi",
        "# What warns every process of a step is for the first one to hear.",
        "trap '' USR1 USR2 HUP",
        # Nobody asks a worker anything: any port will do, where it opens one at all.
        f"exec {_quoted(_filled(request.worker, {**known, '{port}': '0'}), spans_nodes=True)}",
    ))  # fmt: skip


def _filled(words: Sequence[str], known: Mapping[str, str]) -> tuple[str, ...]:
    filled = []
    for word in words:
        for place, value in known.items():
            word = word.replace(place, value)  # noqa: PLW2901 - one after the other
        filled.append(word)
    return tuple(filled)


def _quoted(words: Sequence[str], *, spans_nodes: bool) -> str:
    """Return *words* for a shell; several nodes need words that only the job knows."""
    text = shlex.join(words)
    for place, value in _AT_RUN_TIME.items() if spans_nodes else ():
        # A word with braces stands in single quotes, which are left for the value alone.
        text = text.replace(f"'{place}'", value).replace(place, f"'{value}'")
    return text
