"""Nothing is left over in the tree that only its author understands."""

import ast
import re

from tests.tidy import tree

# Put together here, so that this file does not find itself.
LEFT_OVER = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X")) + r")\b")
MACHINE_PATH = re.compile(r"(?<![\w.<{}])/(?:wo" + r"rk|ro" + r"ot|ho" + r"me/[a-z]+)/")
WHEEL_HOST = re.compile(r"https?://[^\s'\"]*(?:\.whl|/simple\b|pythonhosted|pypi)")
SUBJECT = re.compile(r"\botela\.v\d+\.")

TEXT = {".py", ".md", ".toml", ".txt", ".yaml", ".yml", ".cfg", ".ini", ".sh", ""}
SUBJECT_HOME = "shared/opentela/wire/subjects.py"


def test_no_marker_is_left_over() -> None:
    """What remains to be done stands in the issue tracker."""
    assert _found(LEFT_OVER) == []


def test_no_path_of_one_machine_is_left_over() -> None:
    """A path of the author's machine works nowhere else."""
    assert _found(MACHINE_PATH) == []


def test_no_package_is_fetched_by_address() -> None:
    """Packages come by name, so that every site can use its own index."""
    assert _found(WHEEL_HOST) == []


def test_subjects_are_built_in_one_file() -> None:
    """A subject spelled elsewhere escapes the permissions that nats-server enforces."""
    spelled = [
        f"{tree.shown(path)}:{node.lineno}"
        for path in tree.sources()
        if tree.shown(path) != SUBJECT_HOME
        for node in _strings(tree.syntax(path))
        if SUBJECT.search(str(node.value))
    ]
    assert spelled == []


def _strings(module: ast.Module) -> list[ast.Constant]:
    """Return the string constants of *module* that are no documentation."""
    prose = {
        id(node.value)
        for node in ast.walk(module)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    return [
        node
        for node in ast.walk(module)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose
    ]


def _found(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{tree.shown(path)}:{number} {match.group()}"
        for path in tree.files()
        if path.suffix in TEXT and path.name != "LICENSE"
        for number, line in enumerate(tree.text(path).splitlines(), start=1)
        if (match := pattern.search(line))
    ]
