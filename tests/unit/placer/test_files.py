"""The files that say what is asked and what there is."""

from pathlib import Path

import pytest

from opentela.core.errors import ConfigError, UsageError
from opentela.placer import files

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples" / "placement"


def test_the_examples_can_be_read() -> None:
    """What documentation shows is what the code takes."""
    demand = files.read(EXAMPLES / "demand.toml", files.DemandFile)
    assert [one.label for one in demand.demand][-1] == "llama-70b-law"
    assert files.read(EXAMPLES / "inventory.toml", files.InventoryFile).running[1].locked == 1
    assert files.read(EXAMPLES / "published.toml", files.DemandFile).capacity
    assert files.read(EXAMPLES / "models.toml", files.ServedFile).model[0].match == "m-small#*"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (
            "[[demand]]\nmodel = 'm'\nrate_rps = 'x'",
            "demand[0].rate_rps: Expected `float`, got `str`",
        ),
        ("[[demand]]\nmodel = 'm'\nrate_rps = -1.0", "demand[0].rate_rps: Expected `float` >= 0.0"),
        ("[[demand]]\nmodel = 'm'\nrate = 1.0", "demand[0]: Object contains unknown field `rate`"),
        ("[[demand]]\nmodel = 'm'", "Object missing required field `rate_rps`"),
        ("demand = [", "is not TOML"),
        ("", "the file: Object missing required field `demand`"),
    ],
)
def test_a_wrong_field_is_named(tmp_path: Path, text: str, fault: str) -> None:
    """One line with the file, the field and where to look it up."""
    path = tmp_path / "demand.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as raised:
        files.read(path, files.DemandFile)
    line = raised.value.line()
    assert line.startswith(str(path))
    assert fault in line
    assert "\n" not in line


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """And what it should be."""
    with pytest.raises(ConfigError, match=r"none\.toml cannot be read: No such file"):
        files.read(tmp_path / "none.toml", files.InventoryFile)


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", bytes(range(256)), b"[" * 100_000])
def test_what_is_no_object_is_named(tmp_path: Path, content: bytes) -> None:
    """Whatever it is; so is a folder."""
    path = tmp_path / "config.json"
    path.write_bytes(content)
    for one in (path, tmp_path):
        with pytest.raises(ConfigError) as raised:
            files.read_json(one)
        assert raised.value.line().startswith(str(one))
        assert "\n" not in raised.value.line()


def test_a_folder_that_cannot_be_written_is_named_before_work_begins(tmp_path: Path) -> None:
    """A file stands there, or above it."""
    files.writable(tmp_path / "new" / "folder")
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "folder"):
        with pytest.raises(UsageError, match=f"nothing can be written to {path}: "):
            files.writable(path)
    assert list((tmp_path / "new" / "folder").iterdir()) == []


def test_a_field_that_is_nearly_right_is_suggested(tmp_path: Path) -> None:
    """At any depth; what is like no field leads to the documentation."""
    path = tmp_path / "demand.toml"
    for text, remedy in (
        ("[[demand]]\nmodel = 'm'\nrate_rp = 1.0", "did you mean rate_rps?"),
        ("[[demnd]]\nmodel = 'm'", "did you mean demand?"),
        ("[[demand]]\nmodel = 'm'\nxyzzy = 1.0", "see the fields of [[demand]]"),
    ):
        path.write_text(text)
        with pytest.raises(ConfigError) as raised:
            files.read(path, files.DemandFile)
        assert raised.value.remedy.startswith(remedy)
