"""The tree as tests of the house rules see it: files, their text, their syntax."""

import ast
import configparser
import functools
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SOURCE_ROOTS = (
    "services/placer",
    "services/registry",
    "services/router",
    "services/supervisor",
    "shared",
)


@functools.cache
def files() -> tuple[Path, ...]:
    """Return what belongs to the project: tracked, or new and not ignored."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    )
    paths = (ROOT / name for name in listed.stdout.split("\0") if name)
    return tuple(sorted(path for path in paths if path.is_file()))


def python_files(*roots: str) -> list[Path]:
    """Return the Python files below *roots*, or all of them."""
    tops = [ROOT / root for root in roots] or [ROOT]
    return [
        path
        for path in files()
        if path.suffix == ".py" and any(path.is_relative_to(top) for top in tops)
    ]


def sources() -> list[Path]:
    """Return the product's own Python files."""
    return python_files(*SOURCE_ROOTS)


@functools.cache
def text(path: Path) -> str:
    """Return what stands in *path*."""
    return path.read_text(encoding="utf-8")


@functools.cache
def syntax(path: Path) -> ast.Module:
    """Return the syntax tree of *path*."""
    return ast.parse(text(path), filename=str(path))


@functools.cache
def pyproject() -> dict[str, Any]:
    """Return pyproject.toml."""
    return tomllib.loads(text(ROOT / "pyproject.toml"))


@functools.cache
def import_rules() -> configparser.ConfigParser:
    """Return the contracts that import-linter checks."""
    rules = configparser.ConfigParser()
    rules.read(ROOT / ".importlinter", encoding="utf-8")
    return rules


def shown(path: Path) -> str:
    """Return *path* as people write it."""
    return str(path.relative_to(ROOT))


def module(path: Path) -> str:
    """Return the dotted name under which *path* is imported."""
    for root in SOURCE_ROOTS:
        if path.is_relative_to(ROOT / root):
            parts = path.relative_to(ROOT / root).with_suffix("").parts
            return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    raise AssertionError(f"{path} is no source file")


def calls(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    """Yield each call and the dotted name that it calls."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def imported(tree: ast.Module) -> set[str]:
    """Return the modules that *tree* imports, `TYPE_CHECKING` or not."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names
