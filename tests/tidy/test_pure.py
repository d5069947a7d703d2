"""Which modules are cores stands in one list, which is complete, and each core has its own test."""

import ast
from pathlib import Path

import pytest
from tests.tidy import tree

# No core, though nothing that they import says so, and why.
NO_CORE = {
    "opentela.core.clock": "a protocol",
    "opentela.core.rng": "a protocol",
    "opentela.local.consumer": "waits for an SDK that it imports late",
    "opentela.leftovers": "reads /proc",
    "opentela.mesh.bus": "a protocol",
    "opentela.mesh.identity": "new keys come from a library's own randomness",
    "opentela.mesh.jwt": "signs with such keys",
    "opentela.mesh.tls": "makes keys likewise",
    "opentela.placer.calibrate.operators": "reads timings of kernels",
    "opentela.placer.calibrate.points": "reads measurements",
    "opentela.placer.calibrate.report": "writes files and pictures",
    "opentela.placer.files": "reads files",
    "opentela.placer.live.ballot": "asks the hub and waits",
    "opentela.placer.report.plots": "draws pictures",
    "opentela.router.plugins": "looks up what is installed",
    "opentela.supervisor.hardware": "asks this host",
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


def _decides(path: Path) -> bool:
    """Return whether a module does more than name things and their parts."""
    functions = (
        node
        for node in ast.walk(tree.syntax(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    return any(
        not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
        for function in functions
        for statement in function.body
    )


def _is_tested_beside(name: str, folder: Path) -> bool:
    """Return whether a test in *folder* takes the module, or the whole of a package of plug-ins."""
    package = name.rpartition(".")[0]
    wanted = {name, package} if package.count(".") > 1 else {name}
    return any(wanted & tree.imported(tree.syntax(path)) for path in folder.glob("test_*.py"))


@pytest.mark.parametrize(
    "name",
    sorted(name for name, path in _modules().items() if _is_listed(name) and _decides(path)),
)
def test_every_core_has_its_own_test_file(name: str) -> None:
    """`opentela.router.slots` is tested by tests/unit/router/test_slots.py.

    Several of a kind, such as the adapters of engines, may share a file in that folder.
    """
    _, *parts, last = name.split(".")
    folder = tree.ROOT.joinpath("tests", "unit", *parts)
    expected = folder / f"test_{last}.py"
    is_tested = expected.is_file() or _is_tested_beside(name, folder)
    assert is_tested, f"{tree.shown(expected)} is missing"
