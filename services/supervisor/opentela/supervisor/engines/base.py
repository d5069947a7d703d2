"""What a supervisor must know of a kind of engine; pure, so that every answer can be replayed."""

import re
from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import PurePath
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from opentela.core.errors import EngineError
from opentela.core.record import ModelOffer, Parallelism

HEALTH_PATH: Final = "/health"
MODELS_PATH: Final = "/v1/models"
METRICS_PATH: Final = "/metrics"
NAME_BYTES_MAX: Final = 512
"""A model name or version longer than this is no name."""
COUNT_MAX: Final = 2**53
"""A number above this is no count; every reader of JSON knows those below exactly."""

_OUR_READS: Final = tuple(path.encode() for path in (HEALTH_PATH, MODELS_PATH, METRICS_PATH))
_PERCENT: Final = re.compile(r"(?<![\d.])(\d{1,3})(?:\.\d+)?\s?%")


class ModelSource(NamedTuple):
    """What the answers of one model come from, as its engine tells.

    Attributes:
        weights: File, folder or repository; empty when the engine does not say.
        adapter: Folder or repository of an adapter on top of them.
        told: What else the engine says of how it answers, such as its chat template.
    """

    weights: str = ""
    adapter: str = ""
    told: tuple[str, ...] = ()


class EngineOffer(NamedTuple):
    """What an engine says of itself.

    Attributes:
        sources: One for each of the models, in their order; none when the engine says nothing.
        kv_tokens: What its KV memory holds, of all requests together; 0 when it does not say.
        parallelism: How it uses its GPUs.
    """

    engine: str
    models: tuple[ModelOffer, ...]
    version: str = ""
    sources: tuple[ModelSource, ...] = ()
    kv_tokens: int = 0
    parallelism: Parallelism = Parallelism()


class EngineLoad(NamedTuple):
    """What an engine's metrics say; None where they say nothing.

    Attributes:
        running: Requests being computed.
        waiting: Requests queued.
        kv_used: Share of KV memory in use, 0 to 1; negative when unknown.
        tokens: Work done since its start, in any unit that grows with every step.
    """

    running: int | None = None
    waiting: int = 0
    kv_used: float = -1.0
    tokens: float | None = None


class MetricNames(NamedTuple):
    """Names of Prometheus samples; several of one kind are added up."""

    running: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    kv_used: tuple[str, ...] = ()
    tokens: tuple[str, ...] = ()


class LoadProgress(NamedTuple):
    """How far an engine has loaded.

    Attributes:
        stage: Its own words.
        share: 0 to 1; negative when it does not say.
    """

    stage: str
    share: float = -1.0


class EngineAdapter(Protocol):
    """One kind of engine.

    Attributes:
        name: As it stands in offers.
        port: Where it listens when its command does not say; 0 when no port is usual.
        port_variables: Environment variables that set its port when its command does not.
        key_variable: Environment variable by which it takes an API key; empty when it takes none.
        offer_paths: What to read for the offer besides `MODELS_PATH`; a failure there is no harm.
            `METRICS_PATH` among them is read as text, all others as JSON.
    """

    name: str
    port: int
    port_variables: tuple[str, ...]
    key_variable: str
    offer_paths: tuple[str, ...]

    @property
    def has_metrics(self) -> bool:
        """Whether `METRICS_PATH` is worth reading."""

    def is_started_by(self, argv: Sequence[str]) -> bool:
        """Return whether *argv* starts such an engine."""

    def expected_models(self, argv: Sequence[str]) -> tuple[str, ...]:
        """Return the model names that *argv* promises; none when it does not say."""

    def arguments(self, argv: Sequence[str]) -> tuple[str, ...]:
        """Return the words of *argv* behind the engine's own name; all when that is not there."""

    def read_offer(self, documents: Mapping[str, Any], argv: Sequence[str] = ()) -> EngineOffer:
        """Return the offer in the documents that were read, by path.

        Args:
            documents: JSON, or text of metrics.
            argv: The engine's command, for what it does not tell.

        Raises:
            EngineError: The list of models is none.
        """

    def read_load(self, metrics: str) -> EngineLoad:
        """Return what Prometheus text says."""

    def read_progress(self, line: str) -> LoadProgress | None:
        """Return what a line of output says of loading, if anything."""


class ModelEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of `/v1/models`, as far as engines agree and somewhat beyond."""

    id: str
    aliases: tuple[str, ...] = ()
    owned_by: str = ""
    root: str | None = None
    parent: str | None = None
    max_model_len: int | None = None
    meta: dict[str, Any] | None = None


class _ModelList(msgspec.Struct, frozen=True, kw_only=True):
    data: tuple[ModelEntry, ...]


def read_models(documents: Mapping[str, Any]) -> tuple[ModelEntry, ...]:
    """Return the entries of the list of models.

    Raises:
        EngineError: It is no such list.
    """
    try:
        listed = msgspec.convert(documents.get(MODELS_PATH), _ModelList).data
    except msgspec.ValidationError as error:
        raise EngineError(f"{MODELS_PATH} is no list of models: {error}") from error
    return tuple(entry for entry in listed if 0 < len(entry.id.encode()) <= NAME_BYTES_MAX)


def read_text(document: Any, key: str) -> str:
    """Return the text under *key* of a JSON object; empty when there is none."""
    value = document.get(key) if isinstance(document, dict) else None
    return value[:NAME_BYTES_MAX] if isinstance(value, str) else ""


def read_count(document: Any, key: str) -> int:
    """Return the whole number under *key* of a JSON object; 0 when there is none."""
    value = document.get(key) if isinstance(document, dict) else None
    return value if type(value) is int and 0 < value <= COUNT_MAX else 0


def count(text: str, default: int = 0) -> int:
    """Return the whole number that an option was given; *default* without, 0 for nonsense."""
    if not text:
        return default
    return int(text) if text.isdecimal() and int(text) <= COUNT_MAX else 0


def option(argv: Sequence[str], *names: str) -> str:
    """Return the value of an option, `--name value` or `--name=value`; empty when not given.

    The last one counts, as it does for the engines.
    """
    found = ""
    for index, word in enumerate(argv):
        name, equals, value = word.partition("=")
        if name in names:
            found = value if equals else "".join(argv[index + 1 : index + 2])
    return found


def options(argv: Sequence[str], *names: str) -> tuple[str, ...]:
    """Return all values of an option that takes several words, as its last use gives them."""
    found: tuple[str, ...] = ()
    for index, word in enumerate(argv):
        name, equals, value = word.partition("=")
        if name in names:
            rest = takewhile(lambda one: not one.startswith("-"), argv[index + 1 :])
            found = (value,) if equals else tuple(rest)
    return found


def program_names(argv: Sequence[str]) -> tuple[str, ...]:
    """Return the words of *argv* as programs are called: without folders."""
    return tuple(PurePath(word).name for word in argv)


def behind(argv: Sequence[str], *programs: str, modules: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the words behind the first one that names a program or starts like a module."""
    for index, (word, name) in enumerate(zip(argv, program_names(argv), strict=True)):
        if name in programs or (modules and word.startswith(modules)):
            return tuple(argv[index + 1 :])
    return tuple(argv)


def is_echo(line: bytes) -> bool:
    """Return whether a line of output merely reports one of our own reads."""
    return any(path in line for path in _OUR_READS)


def read_percent(line: str) -> float:
    """Return the share that a line gives as a percentage; negative when it gives none."""
    found = _PERCENT.search(line)
    return min(1.0, int(found[1]) / 100) if found else -1.0


def read_metrics(text: str, names: MetricNames) -> EngineLoad:
    """Return the load in Prometheus text, reading only the samples of *names*."""
    sums: dict[str, float] = {}
    wanted = {
        name: part for part, of_part in zip(names._fields, names, strict=True) for name in of_part
    }
    prefixes = tuple(wanted)
    for line in text.splitlines() if wanted else ():
        if not line.startswith(prefixes):
            continue
        name = line.partition("{")[0].partition(" ")[0]
        part = wanted.get(name)
        value = _sample(line)
        if part == "kv_used" and value is not None:
            # Of several ranks the fullest one decides.
            sums[part] = max(sums.get(part, 0.0), value)
        elif part is not None and value is not None:
            sums[part] = sums.get(part, 0.0) + value
    return EngineLoad(
        running=int(sums["running"]) if "running" in sums else None,
        waiting=int(sums.get("waiting", 0.0)),
        kv_used=sums.get("kv_used", -1.0),
        tokens=sums.get("tokens"),
    )


def _sample(line: str) -> float | None:
    # name{labels} value [timestamp]; labels may hold blanks, so look behind the brace.
    words = line.rpartition("}")[2].split() if "{" in line else line.split()[1:]
    try:
        value = float(words[0])
    except (IndexError, ValueError):
        return None
    return value if value == value and abs(value) != float("inf") else None  # noqa: PLR0124 - NaN
