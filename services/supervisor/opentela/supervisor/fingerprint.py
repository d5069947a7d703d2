"""Whether two engines are interchangeable: one digest of all that decides their answers.

It is measured, not claimed: from the files that the engine reads and from what it says of itself.
What is not known to be without influence counts, so that equal fingerprints mean equal answers
(as far as numerics go), while different ones may only mean that somebody wrote it differently.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

DIGEST_BYTES: Final = 16
"""128 bits: nobody attacks it, since a provider may claim what it likes anyway."""

NEUTRAL: Final = frozenset({
    # where it listens, and for whom
    "host", "port", "api-key", "served-model-name", "alias", "a", "uds", "root-path",
    "allowed-origins", "allow-credentials", "enable-metrics", "metrics", "slots", "props",
    # how it logs
    "uvicorn-log-level", "log-level", "log-level-http", "log-requests", "log-file", "verbose", "v",
    "disable-log-requests", "enable-log-requests", "disable-log-stats", "max-log-len",
    # where the same files lie; the files themselves are measured
    "model", "model-path", "m", "model-tag", "revision", "download-dir", "lora-modules",
    "lora-paths", "enable-lora", "max-loras", "max-loras-per-batch", "max-lora-rank",
    # how the work is spread and how much of it is done at once: numerics at most
    "tensor-parallel-size", "tp", "tp-size", "pipeline-parallel-size", "pp", "pp-size",
    "data-parallel-size", "dp", "dp-size", "gpu-memory-utilization", "mem-fraction-static",
    "kv-cache-memory-bytes", "max-num-seqs", "max-running-requests", "max-num-batched-tokens",
    "swap-space", "cpu-offload-gb", "threads", "t", "threads-batch", "tb", "parallel", "np",
    "n-gpu-layers", "gpu-layers", "ngl", "nnodes", "node-rank", "dist-init-addr",
    # said by the engine itself, and counted as it says it
    "max-model-len", "context-length", "ctx-size", "c",
})  # fmt: skip
"""Options that do not decide what is answered."""

_NUMBER: Final = re.compile(r"-\d+(\.\d+)?")


class Parts(NamedTuple):
    """What decides the answers of one model.

    Attributes:
        engine: Its kind and version.
        context_max: As the engine reports it.
        quantisation: The same.
        weights: Digest of weights, tokenizer, template and configuration.
        adapter: The same of an adapter on top; empty for none.
        told: What else the engine says of itself.
        arguments: Of its command, as `arguments` returns them.
    """

    engine: tuple[str, str]
    context_max: int
    quantisation: str
    weights: str
    adapter: str
    told: tuple[str, ...]
    arguments: tuple[tuple[str, ...], ...]


def of(parts: Parts) -> str:
    """Return the fingerprint; empty when the weights could not be measured."""
    if not parts.weights:
        return ""
    encoded = msgspec.json.encode(list(parts))
    return hashlib.blake2b(encoded, digest_size=DIGEST_BYTES).hexdigest()


def arguments(words: Sequence[str], measured: Mapping[str, str]) -> tuple[tuple[str, ...], ...]:
    """Return option and values of each argument that may decide answers, in an order of its own.

    Args:
        words: The engine's arguments; `--name value`, `--name=value` and `--name_x` are one.
        measured: Digest of each file that a value names: the same file may lie elsewhere.
    """
    found: list[list[str]] = []
    for word in words:
        is_option = word.startswith("-") and not _NUMBER.fullmatch(word)
        name, equals, value = word.partition("=") if is_option else ("", "", word)
        if is_option:
            found.append([name.lstrip("-").replace("_", "-")])
        if not is_option or equals:
            if not found:
                found.append([""])
            found[-1].append(measured.get(value, value))
    # The order of options is of no account, but of one that is given twice the last one counts.
    return tuple(sorted((tuple(one) for one in found if one[0] not in NEUTRAL), key=lambda a: a[0]))
