"""Which modules are cores stands in one list, which is complete, and each core has its own test."""

from pathlib import Path

import pytest
from tests.tidy import tree

# Pure by what they import, yet no core: they hold no decision to test apart from their users.
NO_CORE = {
    "opentela.core.clock",  # protocols
    "opentela.core.errors",
    "opentela.core.rng",
    "opentela.mesh.bus",
    "opentela.telemetry.config",
}


def _rule(key: str) -> set[str]:
    return set(tree.import_rules()["importlinter:contract:pure"][key].split())


def _is_listed(name: str) -> bool:
    return any(name == one or name.startswith(f"{one}.") for one in _rule("source_modules"))


def _modules() -> dict[str, Path]:
    return {tree.module(path): path for path in tree.sources() if path.name != "__init__.py"}


def _own_imports(path: Path, modules: dict[str, Path]) -> set[str]:
    return {name for name in tree.imported(tree.syntax(path)) if name in modules}


def _is_impure(path: Path) -> bool:
    tops = {name.partition(".")[0] for name in tree.imported(tree.syntax(path))}
    return bool(tops & (_rule("forbidden_modules") | {"click", "rich", "prometheus_client"}))


def test_every_module_that_could_be_a_core_is_listed_as_one() -> None:
    """A module that waits for nothing stays so, because import-linter then watches it."""
    modules = _modules()
    impure = {name for name, path in modules.items() if _is_impure(path)}
    while grown := {
        name
        for name, path in modules.items()
        if name not in impure and _own_imports(path, modules) & impure
    }:
        impure |= grown
    unlisted = sorted(
        name
        for name in modules
        if name not in impure
        and not _is_listed(name)
        and name not in NO_CORE
        and not name.startswith("opentela.testing.")
        and not name.endswith("__main__")
    )
    assert unlisted == []


@pytest.mark.parametrize(
    "name", sorted(name for name in _modules() if _is_listed(name) and name not in NO_CORE)
)
def test_every_core_has_its_own_test_file(name: str) -> None:
    """`opentela.router.slots` is tested by tests/unit/router/test_slots.py."""
    _, *parts, last = name.split(".")
    expected = tree.ROOT.joinpath("tests", "unit", *parts, f"test_{last}.py")
    assert expected.is_file(), f"{tree.shown(expected)} is missing"
