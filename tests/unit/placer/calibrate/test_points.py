"""How measurements are read, and what is said to each kind."""

from pathlib import Path

import numpy as np
import pytest
from tests.unit.placer.calibrate.measurements import ROWS, bare, write

from opentela.core.errors import UsageError
from opentela.placer.calibrate.points import METRICS, engine_id, measured, predict, read


def test_what_cannot_be_said_anything_of_is_left_out(tmp_path: Path) -> None:
    """A capped GPU, an unknown layout, an unknown GPU; and files of something else."""
    assert [point.id for point in read(write(tmp_path))] == ["a-1", "a-2", "a-3", "a-7"]


def test_blanks_are_filled_with_what_the_engine_does(tmp_path: Path) -> None:
    """The format of the KV cache, expert parallelism from notes, prompts of known tasks."""
    _, mixture, running, _ = read(write(tmp_path))
    assert (mixture.shape.kv_dtype, mixture.shape.ep, mixture.shape.tp) == ("fp8", 8, 8)
    assert (running.prompt, running.shape.kv_dtype) == (250.0, "bf16")
    assert running.rps == pytest.approx(10.0)
    assert np.isnan(running.ttft_s)


def test_every_kind_of_load_gets_its_prediction(tmp_path: Path) -> None:
    """Whatever was measured has a value beside it."""
    data, factors = measured(read(write(tmp_path)), bare())
    said = predict(data, factors)
    assert said.shape == (4, len(METRICS))
    assert np.isfinite(said[np.isfinite(data.values)]).all()
    assert (said[np.isfinite(said)] > 0).all()


def test_a_cell_that_is_no_number_is_told(tmp_path: Path) -> None:
    """File, row and cell."""
    with pytest.raises(UsageError, match=r"lab.csv: a-1: .*'eight'"):
        read(write(tmp_path, [ROWS[0].replace(",8,", ",eight,")]))


@pytest.mark.parametrize("change", [(",8,", ",-8,"), (",8,", ",inf,"), ("fp16", "fp17")])
def test_a_cell_that_cannot_be_is_told(tmp_path: Path, change: tuple[str, str]) -> None:
    """A number below zero or without end, and a way to store numbers that nobody knows."""
    with pytest.raises(UsageError, match=r"lab\.csv: a-1: "):
        read(write(tmp_path, [ROWS[0].replace(*change)]))


def test_a_row_that_is_cut_short_or_a_file_that_is_no_text_is_told(tmp_path: Path) -> None:
    """One line, with the file."""
    with pytest.raises(UsageError, match=r"lab\.csv: a-1: "):
        read(write(tmp_path, [ROWS[0][: len(ROWS[0]) // 2]]))
    (tmp_path / "lab.csv").unlink()
    for name, content in (("x.csv", bytes(range(256))), ("x.csv.gz", b"no archive")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UsageError, match=f"{name} cannot be read: "):
            read(tmp_path)
        (tmp_path / name).unlink()


@pytest.mark.parametrize(
    ("engine", "version", "found"),
    [
        ("vllm", "0.5.x (2024)", "vllm-0.5"),
        ("vllm", "0.12.0", "vllm-0.12"),
        ("vllm", "0.19.0", "vllm"),
        ("trtllm", "1.2.0rc6", "tensorrt-llm"),
        ("tensorrt-llm", "0.15.0", "tensorrt-llm-0.15"),
        ("sglang", "0.5.9", "sglang"),
        ("something", "1", "vllm"),
    ],
)
def test_versions_are_known_by_their_beginning(engine: str, version: str, found: str) -> None:
    """One engine of the catalogue stands for an age."""
    assert engine_id(engine, version) == found


def test_points_are_grouped_by_their_traits(tmp_path: Path) -> None:
    """The groups that are left out in cross-validation."""
    first = read(write(tmp_path))[0]
    assert first.group("gpu") == "h100-80g-sxm"
    assert first.group("family") == "vllm"
    assert first.group("gpu,engine,model") == "vllm-0.5 h100-80g-sxm llama-3-8b"
