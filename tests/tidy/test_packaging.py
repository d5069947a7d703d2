"""One distribution out of four source roots, without a trap for whoever installs it."""

import importlib
import importlib.metadata
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from tests.tidy import tree

from opentela import cli


def test_opentela_stays_a_namespace_package() -> None:
    """An `opentela/__init__.py` would hide every other part at run time, and mypy says nothing."""
    assert [path for path in tree.files() if path.parts[-2:] == ("opentela", "__init__.py")] == []


def test_the_source_roots_agree() -> None:
    """hatch, mypy and ruff see the same tree; what one of them misses is not checked or shipped."""
    project = tree.pyproject()["tool"]
    hatch = project["hatch"]["build"]
    roots = list(tree.SOURCE_ROOTS)
    assert hatch["dev-mode-dirs"] == roots
    assert hatch["targets"]["wheel"]["sources"] == roots
    assert hatch["targets"]["wheel"]["only-include"] == [f"{root}/opentela" for root in roots]
    assert project["mypy"]["mypy_path"] == [f"$MYPY_CONFIG_FILE_DIR/{root}" for root in roots]
    assert project["ruff"]["src"] == roots
    folders = sorted(tree.shown(path) for path in (tree.ROOT / "services").iterdir())
    assert [*folders, "shared"] == roots


def test_every_pinned_package_has_a_name_and_a_version() -> None:
    """Constraints work with any index: no address, no path, no hash."""
    lines = tree.text(tree.ROOT / "constraints.txt").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert [pin for pin in pins if not re.fullmatch(r"[A-Za-z0-9._-]+==[\w.!+]+", pin)] == []


def test_every_dependency_is_pinned() -> None:
    """What is installed to develop is what was tested."""
    pinned = set(
        re.findall(r"^([\w.-]+)==", tree.text(tree.ROOT / "constraints.txt"), re.MULTILINE)
    )
    wanted = {re.split(r"[\[>=<]", one)[0] for one in _requirements()} - {"opentela"}
    assert wanted - {_normal(pin) for pin in pinned} == set()


def _requirements() -> Iterator[str]:
    project = tree.pyproject()["project"]
    for group in (project["dependencies"], *project["optional-dependencies"].values()):
        yield from (_normal(one) for one in group)


def _normal(name: str) -> str:
    return re.sub(r"[_.]", "-", name).lower()


def test_every_import_is_declared_by_who_needs_it() -> None:
    """A supervisor is installed without what only routers need; nothing works by accident."""
    base = _declared("dependencies")
    undeclared = {
        f"{tree.shown(path)}: {name}"
        for path in tree.sources()
        for extra in _extras(path)
        for name in _third_party(path) - base - _declared(extra)
    }
    assert undeclared == set()


def _extras(path: Path) -> tuple[str, ...]:
    """Return what is installed, one or the other, where *path* is imported."""
    parts = path.relative_to(tree.ROOT).parts
    if parts[0] == "services":
        return (parts[1],)
    if parts[2] == "engine":
        return ("router", "supervisor")
    # Only the demonstration and the tests run these.
    return ("demo",) if {"testing", "consumer.py"} & set(parts) else ("hub",)


def _declared(group: str) -> set[str]:
    project = tree.pyproject()["project"]
    listed = project["dependencies"] if group == "dependencies" else []
    listed = listed or project["optional-dependencies"][group]
    return {re.split(r"[\[>=<]", _normal(one))[0] for one in listed}


def _third_party(path: Path) -> set[str]:
    """Return the distributions that a module imports."""
    tops = {name.partition(".")[0] for name in tree.imported(tree.syntax(path))}
    foreign = tops - set(sys.stdlib_module_names) - {"opentela"}
    return {_DISTRIBUTIONS.get(name, _normal(name)) for name in foreign}


_DISTRIBUTIONS = {"nacl": "pynacl", "nats": "nats-py"}


def test_the_commands_that_the_readme_names_exist() -> None:
    """A command in a document is a promise."""
    makefile = tree.text(tree.ROOT / "Makefile")
    targets = set(re.findall(r"^([a-z0-9-]+):", makefile, re.MULTILINE))
    named = {
        target
        for path in tree.files()
        if path.suffix in {".md", ".py"} and path.is_relative_to(tree.ROOT)
        for target in re.findall(r"`make ([a-z0-9-]+)", tree.text(path))
    }
    areas = {f"bench-{path.stem}" for path in (tree.ROOT / "tests" / "bench").glob("*.py")}
    assert named - targets - areas == set()
    assert {"dev", "demo", "test", "check"} <= named


def test_every_make_target_is_in_its_help() -> None:
    """A target that help does not print is found by nobody."""
    makefile = tree.text(tree.ROOT / "Makefile")
    phony = set(re.findall(r"^\.PHONY: ([a-z0-9-]+)", makefile, re.MULTILINE))
    helped = set(re.findall(r"^([a-z0-9-]+):.*## ", makefile, re.MULTILINE))
    assert phony == helped


def test_help_says_what_the_commands_say() -> None:
    """The command's table of contents is written by hand, so that help imports no service."""
    entries = importlib.metadata.entry_points(group=cli.GROUP)
    ours = {entry.name: entry for entry in entries if entry.value.startswith("opentela.")}
    written = {name: text for section in cli.SECTIONS.values() for name, text in section.items()}
    assert set(written) == set(ours)
    commands: dict[str, click.Command] = {name: entry.load() for name, entry in ours.items()}
    said = {name: one.get_short_help_str(limit=200) for name, one in commands.items()}
    assert said == written


def test_entry_points_are_installed_as_written() -> None:
    """A new entry point is seen after the next `make dev` only."""
    written = tree.pyproject()["project"]["entry-points"]
    distribution = importlib.metadata.distribution("opentela")
    for group, entries in written.items():
        installed = {one.name: one.value for one in distribution.entry_points.select(group=group)}
        assert installed == entries, "run: make dev"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    out = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)],
        cwd=tree.ROOT,
        check=True,
        capture_output=True,
        env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"},
    )
    (built,) = out.glob("*.whl")
    return zipfile.ZipFile(built)


def test_the_wheel_holds_our_package_alone(wheel: zipfile.ZipFile) -> None:
    """A stray file at the top of a wheel lands in the middle of site-packages."""
    tops = {name.partition("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"opentela"}


def test_the_wheel_holds_every_module(wheel: zipfile.ZipFile) -> None:
    """What is in the tree is in the wheel, under the name it is imported by."""
    packed = {name for name in wheel.namelist() if name.endswith(".py")}
    written = {
        str(path.relative_to(tree.ROOT / root))
        for root in tree.SOURCE_ROOTS
        for path in tree.python_files(root)
    }
    assert packed == written


def test_every_module_can_be_imported() -> None:
    """A module that only works by chance of import order is found here."""
    for path in tree.sources():
        if path.stem != "__main__":
            importlib.import_module(tree.module(path))


def test_the_scripts_of_ci_are_executable() -> None:
    """A script is started, not fed to a shell by hand."""
    scripts = [tree.ROOT / ".ci" / "run"]
    assert [path for path in scripts if not os.access(Path(path), os.X_OK)] == []
