"""The files that say what is asked and what there is: TOML, checked field by field."""

import difflib
import json
import re
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta

from opentela.core.errors import ConfigError, UsageError, in_words

Form = TypeVar("Form", bound=msgspec.Struct)
_UNKNOWN: Final = re.compile(r"unknown field `([^`]+)`")

NODES_MAX: Final = 100_000
"""Of one pool: as many as no site has."""
GPUS_MAX: Final = 1024
"""Of one node."""

Positive = Annotated[float, Meta(gt=0)]
Amount = Annotated[float, Meta(ge=0)]
Count = Annotated[int, Meta(ge=1)]
Name = Annotated[str, Meta(min_length=1)]


class DemandEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is asked of one model.

    Attributes:
        model: A model of the catalogue, or one of `[[capacity]]`.
        name: What to call it, where one model is demanded twice (as two fine-tunes).
        rate_rps: Mean requests a second.
        in_tokens: Mean prompt length; out_tokens: mean answer length.
        in_cv: Standard deviation of the prompt length over its mean; out_cv of the answer length.
        cv: Burstiness: coefficient of variation of the gaps between arrivals; 1 is Poisson.
        prefix_hit: Share of prompt tokens that are found in the prefix cache.
        ttft_s: Promised mean time to first token; tpot_s per token after it; e2e_s for all of it.
        w_dtype: How weights are stored; empty for what `config` says, or bf16. kv_dtype: how the
            KV cache is.
        engine: Engine of the catalogue.
        tp: Sizes of tensor parallelism that may be used; empty for every one that works.
        pp: Pipeline stages that may be used; empty for one, or more where it needs them.
        weight: What a served request is worth beside those of other models.
        replicas_min: Replicas to keep even if fewer would do.
        sites: Where it may run; empty for everywhere.
        config: A Hugging Face `config.json` that describes the model, relative to this file.
    """

    model: Name
    name: str = ""
    rate_rps: Amount
    in_tokens: Positive = 512.0
    out_tokens: Positive = 256.0
    in_cv: Amount = 1.0
    out_cv: Amount = 1.0
    cv: Amount = 1.0
    prefix_hit: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    ttft_s: Positive = float("inf")
    tpot_s: Positive = float("inf")
    e2e_s: Positive = float("inf")
    w_dtype: str = ""
    kv_dtype: str = "bf16"
    engine: str = "vllm"
    tp: tuple[Count, ...] = ()
    pp: tuple[Count, ...] = ()
    weight: Amount = 1.0
    replicas_min: Annotated[int, Meta(ge=0)] = 0
    sites: tuple[str, ...] = ()
    config: str = ""

    @property
    def label(self) -> str:
        """What it is called."""
        return self.name or self.model


class CapacityEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one replica shape can do, where that is known better than it can be estimated.

    Attributes:
        model: The name of a demand.
        capacity_rps: Requests a second that one replica serves as promised.
        latency_s: Mean time of a request, at any load.
        load_s: Until a new replica serves.
    """

    model: Name
    gpu: Name
    tp: Count = 1
    pp: Count = 1
    capacity_rps: Amount
    latency_s: Amount = 0.0
    load_s: Amount = 0.0


class DemandFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`demand.toml`.

    Attributes:
        absorb_s: A burst is to be worked off within this; a longer time needs less headroom.
    """

    demand: Annotated[tuple[DemandEntry, ...], Meta(min_length=1)]
    capacity: tuple[CapacityEntry, ...] = ()
    absorb_s: Positive = 30.0


class PoolEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Nodes of one shape at one site.

    Attributes:
        gpu: A GPU of the catalogue, or one of `[[capacity]]`.
        usd_h: Price of one GPU for an hour; None: the catalogue's.
    """

    name: Name
    gpu: Name
    nodes: Annotated[int, Meta(ge=0, le=NODES_MAX)]
    gpus_per_node: Annotated[int, Meta(ge=1, le=GPUS_MAX)]
    site: str = ""
    usd_h: Amount | None = None


class RunningEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Replicas that run now.

    Attributes:
        model: The name of a demand.
        locked: Of these, started too short a while ago to be stopped.
    """

    model: Name
    pool: Name
    tp: Count = 1
    pp: Count = 1
    count: Annotated[int, Meta(ge=0)]
    locked: Annotated[int, Meta(ge=0)] = 0


class InventoryFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`inventory.toml`.

    Attributes:
        usd_h_max: The most that everything that runs may cost an hour.
    """

    pool: Annotated[tuple[PoolEntry, ...], Meta(min_length=1)]
    running: tuple[RunningEntry, ...] = ()
    usd_h_max: Positive = float("inf")


class ServedEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the models of a trace are.

    Attributes:
        match: Pattern of names in the trace, such as `m-small#*`; the first that matches counts.
        model: A model of the catalogue.
        ttft_s: Promised time to first token of each request; tpot_s per token after it; e2e_s for
            all of it. They decide which requests count as served as promised.
    """

    match: Name = "*"
    model: Name
    ttft_s: Positive = 10.0
    tpot_s: Positive = 0.2
    e2e_s: Positive = float("inf")
    w_dtype: str = "bf16"
    kv_dtype: str = "bf16"
    engine: str = "vllm"
    tp: tuple[Count, ...] = ()


class ServedFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`models.toml` of a replay."""

    model: Annotated[tuple[ServedEntry, ...], Meta(min_length=1)]


def read(path: Path, form: type[Form]) -> Form:
    """Return what stands in *path*.

    Raises:
        ConfigError: It cannot be read, or a field is wrong; the message names it.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path} cannot be read: {in_words(error)}", remedy="give a TOML file"
        ) from error
    try:
        raw: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not TOML: {error}", remedy="correct it") from error
    try:
        return msgspec.convert(raw, form, strict=True)
    except msgspec.ValidationError as error:
        fault, _, where = str(error).partition(" - at ")
        field = where.strip("`").removeprefix("$").removeprefix(".") or "the file"
        remedy = _meant(fault, form) or _remedy(form)
        raise ConfigError(f"{path}: {field}: {fault}", remedy=remedy) from error


def writable(folder: Path) -> None:
    """Make *folder* if there is none, before work begins whose results go there.

    Raises:
        UsageError: That cannot be.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UsageError(
            f"nothing can be written to {folder}: {in_words(error)}", remedy="choose another --out"
        ) from error


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in the JSON file at *path*, such as a `config.json` of Hugging Face.

    Raises:
        ConfigError: It cannot be read, or holds something else.
    """
    try:
        read: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"{path} cannot be read: {in_words(error)}", remedy="give a config.json"
        ) from error
    if not isinstance(read, dict):
        raise ConfigError(f"{path} is not a JSON object", remedy="give a config.json")
    return read


def _meant(fault: str, form: type[msgspec.Struct]) -> str:
    """Return which field was meant by one that nobody knows; empty when none is near."""
    unknown = _UNKNOWN.search(fault)
    known = list(_names(msgspec.inspect.type_info(form))) if unknown else []
    close = difflib.get_close_matches(unknown[1], known, n=1) if unknown else ()
    return f"did you mean {close[0]}?" if close else ""


def _names(kind: msgspec.inspect.Type) -> Iterator[str]:
    """Yield the names of all fields in a form and in the tables within."""
    match kind:
        case msgspec.inspect.StructType(fields=fields):
            for field in fields:
                yield field.encode_name
                yield from _names(field.type)
        case (
            msgspec.inspect.VarTupleType(item_type=inner)
            | msgspec.inspect.DictType(value_type=inner)
        ):
            yield from _names(inner)
        case msgspec.inspect.UnionType(types=kinds):
            for one in kinds:
                yield from _names(one)
        case _:
            pass


def _remedy(form: type[msgspec.Struct]) -> str:
    table = msgspec.structs.fields(form)[0].name
    return f"see the fields of [[{table}]] in docs/placement.md"
