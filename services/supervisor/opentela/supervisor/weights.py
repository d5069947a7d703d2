"""Measures what an engine reads: weights, tokenizer, template, configuration, as one digest.

Weights are too large to be read whole. Of each file counts its size, its beginning (where formats
keep their index), its end, and blocks spread evenly over the rest: training or quantising changes
values everywhere, so that no block stays as it was. Small files are read whole.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

BLOCKS: Final = 64
"""Read of each weights file, of 4 KiB each: some milliseconds a file also on a file server."""
_BLOCK_BYTES: Final = 4096
_HEAD_BYTES: Final = 1 << 20
_WHOLE_BYTES_MAX: Final = 128 << 20
"""A tokenizer is smaller; what is larger is sampled as weights are."""
_DIGEST_BYTES: Final = 16

DESCRIBING: Final = (
    "config.json",
    "generation_config.json",
    "quantize_config.json",
    "hf_quant_config.json",
    "adapter_config.json",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "tekken.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "chat_template.jinja",
    "chat_template.json",
    "preprocessor_config.json",
    "processor_config.json",
    "params.json",
)
"""Files of a model's folder that decide its answers besides the weights."""
_INDEX: Final = "*.safetensors.index.json"
_WEIGHTS: Final = ("*.safetensors", "*.gguf", "*.bin", "*.pt", "*.pth")
"""In order of preference, as engines choose: where the first are, the others are copies."""


class Measured(NamedTuple):
    """What was found of a model.

    Attributes:
        digest: Of everything; empty when there are no weights.
        quantisation: As its configuration names it; empty when it does not.
    """

    digest: str = ""
    quantisation: str = ""


def measure(path: Path) -> Measured:
    """Return the measure of a file, or of a model's folder.

    Raises:
        OSError: Something cannot be read.
    """
    if path.is_file():
        return Measured(digest(path))
    weights = _weights(path)
    if not weights:
        return Measured()
    described = [path / name for name in DESCRIBING if (path / name).is_file()]
    whole = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for file in (*described, *weights):
        whole.update(f"{file.name}\0{digest(file)}\0".encode())
    return Measured(whole.hexdigest(), _quantisation(path / "config.json"))


def digest(file: Path) -> str:
    """Return the digest of one file: of all of it when it is small, else of its samples."""
    is_weights = any(file.match(pattern) for pattern in _WEIGHTS)
    with file.open("rb", buffering=0) as opened:
        size = os.fstat(opened.fileno()).st_size
        found = hashlib.blake2b(str(size).encode(), digest_size=_DIGEST_BYTES)
        if size <= _HEAD_BYTES or (size <= _WHOLE_BYTES_MAX and not is_weights):
            found.update(opened.read())
            return found.hexdigest()
        found.update(opened.read(_HEAD_BYTES))
        for number in range(1, BLOCKS + 1):
            opened.seek(_HEAD_BYTES + (size - _HEAD_BYTES - _BLOCK_BYTES) * number // BLOCKS)
            found.update(opened.read(_BLOCK_BYTES))
    return found.hexdigest()


def locate(name: str, environ: Mapping[str, str], *, revision: str, folder: str) -> Path | None:
    """Return where *name* lies: a path, or a repository in the cache of Hugging Face's hub.

    Args:
        name: As the engine calls its model.
        environ: Says where the cache is.
        revision: Of the repository; empty for its main one.
        folder: A cache of the engine's own choice; empty for the usual one.
    """
    if not name:
        return None
    path = Path(name)
    if path.exists():
        return path.absolute()
    if name.count("/") > 1 or name.startswith(("/", ".")):
        return None
    for cache in _caches(environ, folder):
        repository = cache / f"models--{name.replace('/', '--')}"
        for commit in _commits(repository, revision or "main"):
            if (repository / "snapshots" / commit).is_dir():
                return repository / "snapshots" / commit
    return None


def _caches(environ: Mapping[str, str], folder: str) -> Iterator[Path]:
    if folder:
        yield Path(folder)
    if cache := environ.get("HF_HUB_CACHE") or environ.get("HUGGINGFACE_HUB_CACHE"):
        yield Path(cache)
    elif home := environ.get("HF_HOME"):
        yield Path(home) / "hub"
    else:
        caches = environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME", "/")) / ".cache"
        yield Path(caches) / "huggingface" / "hub"


def _commits(repository: Path, revision: str) -> Iterator[str]:
    """Yield the snapshots that *revision* may mean: what it refers to, or itself."""
    reference = repository / "refs" / revision
    if reference.is_file():
        yield reference.read_text().strip()
    yield revision


def _weights(folder: Path) -> list[Path]:
    """Return the files of the index; without one, those of the preferred format."""
    indexes = sorted(folder.glob(_INDEX))
    for index in indexes:
        document = _json(index)
        mapped = document.get("weight_map") if isinstance(document, dict) else None
        if isinstance(mapped, dict):
            names = sorted({str(name) for name in mapped.values()})
            return [index, *(folder / name for name in names)]
    for pattern in _WEIGHTS:
        if found := sorted(folder.glob(pattern)):
            return found
    return []


def _quantisation(file: Path) -> str:
    document = _json(file) if file.is_file() else None
    found = document.get("quantization_config") if isinstance(document, dict) else None
    method = found.get("quant_method") if isinstance(found, dict) else None
    return method[:64] if isinstance(method, str) else ""


def _json(file: Path) -> Any:
    try:
        return msgspec.json.decode(file.read_bytes())
    except (msgspec.DecodeError, RecursionError):
        return None
