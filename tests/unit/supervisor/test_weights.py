"""What is measured of a model's files: the same wherever they lie, another when one changes."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from opentela.supervisor import weights
from opentela.supervisor.weights import Measured

MEBI = 1 << 20


def model(folder: Path, *, shards: int = 2, quantised: str = "fp8") -> Path:
    """Write a model's folder: an index, shards too large to be read whole, and the rest."""
    folder.mkdir(parents=True)
    names = [f"model-{number}-of-{shards}.safetensors" for number in range(shards)]
    for number, name in enumerate(names):
        (folder / name).write_bytes(bytes([number]) * (2 * MEBI))
    index = {"weight_map": {f"layer{number}": name for number, name in enumerate(names)}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    config = {"quantization_config": {"quant_method": quantised}} if quantised else {}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text('{"model": {}}')
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    return folder


def test_equal_models_in_two_places_measure_the_same(tmp_path: Path) -> None:
    """Neither the path nor the age of a file counts, nor what else lies beside it."""
    one, two = model(tmp_path / "a"), model(tmp_path / "b" / "c")
    os.utime(two / "config.json", (1, 1))
    (two / "README.md").write_text("hello")
    (two / "stray.safetensors").write_bytes(b"not in the index")
    assert weights.measure(one) == weights.measure(two)
    assert weights.measure(one).quantisation == "fp8"
    assert len(weights.measure(one).digest) == 32


def _retrained(folder: Path) -> None:
    (folder / "model-1-of-2.safetensors").write_bytes(b"\x09" * (2 * MEBI))


def _grown(folder: Path) -> None:
    with (folder / "model-0-of-2.safetensors").open("ab") as file:
        file.write(b"\0")


def _rewrite(name: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / name).write_text('{"changed": true}')

    return change


@pytest.mark.parametrize(
    "change",
    [_retrained, _grown, *map(_rewrite, ("config.json", "tokenizer.json", "chat_template.jinja"))],
    ids=["weights", "size", "config", "tokenizer", "template"],
)
def test_a_model_with_one_change_measures_another(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    """Whatever of it decides answers."""
    one, two = model(tmp_path / "a"), model(tmp_path / "b")
    change(two)
    assert weights.measure(one).digest != weights.measure(two).digest


def test_a_change_of_values_between_the_ends_of_a_large_file_is_seen(tmp_path: Path) -> None:
    """Fine-tuning keeps the size and the index."""
    files = [tmp_path / "a.gguf", tmp_path / "b.gguf"]
    for number, file in enumerate(files):
        file.write_bytes(b"GGUF" + bytes(2 * MEBI) + bytes([number]) * MEBI + bytes(2 * MEBI))
    assert weights.digest(files[0]) != weights.digest(files[1])
    assert weights.measure(files[0]) == Measured(weights.digest(files[0]))


def test_a_folder_without_weights_measures_nothing(tmp_path: Path) -> None:
    """Two of them would otherwise be taken for one model."""
    (tmp_path / "config.json").write_text("{}")
    assert weights.measure(tmp_path) == Measured()


def test_files_that_are_no_json_say_nothing(tmp_path: Path) -> None:
    """They count by their bytes; a shard that the index names and that is not there is an error."""
    folder = model(tmp_path / "a", quantised="")
    (folder / "config.json").write_text("[" * 100_000)
    assert weights.measure(folder).quantisation == ""
    (folder / "model-0-of-2.safetensors").unlink()
    with pytest.raises(OSError, match="model-0-of-2"):
        weights.measure(folder)
    (folder / "model.safetensors.index.json").write_text("no json")
    assert weights.measure(folder).digest


def locate(name: str, revision: str = "", folder: str = "", **environ: str) -> Path | None:
    return weights.locate(name, environ, revision=revision, folder=folder)


def test_a_path_is_where_it_says(tmp_path: Path) -> None:
    """A file or a folder; what is not there cannot be measured."""
    assert locate(str(tmp_path)) == tmp_path
    assert locate("") is None
    assert locate(str(tmp_path / "missing")) is None
    assert locate("./org/model") is None


def test_a_repository_is_found_in_the_cache_of_the_hub(tmp_path: Path) -> None:
    """By the commit that its branch refers to, wherever the cache is."""
    hub = tmp_path / "hub"
    for commit in ("c1", "c2"):
        (hub / "models--org--m" / "snapshots" / commit).mkdir(parents=True)
    (hub / "models--org--m" / "refs").mkdir()
    (hub / "models--org--m" / "refs" / "main").write_text("c2\n")
    first, second = (hub / "models--org--m" / "snapshots" / one for one in ("c1", "c2"))
    assert locate("org/m", HF_HUB_CACHE=str(hub)) == second
    assert locate("org/m", HF_HOME=str(tmp_path)) == second
    assert locate("org/m", revision="c1", HF_HOME=str(tmp_path)) == first
    assert locate("org/m", folder=str(hub), HF_HOME="/nowhere") == second
    assert locate("org/m", revision="v9", HF_HOME=str(tmp_path)) is None
    assert locate("org/other", HF_HOME=str(tmp_path)) is None
    (tmp_path / "huggingface").symlink_to(tmp_path)
    found = locate("org/m", XDG_CACHE_HOME=str(tmp_path))
    assert found is not None
    assert found.samefile(second)
