"""Code is read in one sitting: small modules, functions that can be seen whole, short lines."""

import ast
import re
from pathlib import Path

from tests.tidy import tree

MODULE_LINES_MAX = 400
TEST_MODULE_LINES_MAX = 700  # read test by test, and each stands alone
FUNCTION_LINES_MAX = 50
LINE_LENGTH_MAX = 100
PRAGMA = re.compile(r"\s+# (noqa|type: ignore)\b.*$")  # read by tools, not by people
LINK = re.compile(r"https?://\S{60,}")  # cannot be broken


def test_no_module_is_too_long() -> None:
    """A module that cannot be read in one sitting is two modules."""
    long = {
        tree.shown(path): count
        for path in tree.python_files()
        if (count := len(tree.text(path).splitlines())) > _lines_max(path)
    }
    assert long == {}


def test_no_function_is_too_long() -> None:
    """A function is seen whole; its docstring does not count."""
    long = {
        f"{tree.shown(path)}:{node.name}": lines
        for path in tree.python_files()
        for node in ast.walk(tree.syntax(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := _body_lines(node)) > FUNCTION_LINES_MAX
    }
    assert long == {}


def test_no_line_is_too_long() -> None:
    """Two files fit side by side."""
    long = [
        f"{tree.shown(path)}:{number}"
        for path in tree.python_files()
        for number, line in enumerate(tree.text(path).splitlines(), start=1)
        if len(PRAGMA.sub("", line)) > LINE_LENGTH_MAX and not LINK.search(line)
    ]
    assert long == []


def _lines_max(path: Path) -> int:
    return TEST_MODULE_LINES_MAX if path.name.startswith("test_") else MODULE_LINES_MAX


def _body_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    assert node.end_lineno is not None
    lines = node.end_lineno - node.lineno + 1
    first = node.body[0]
    if ast.get_docstring(node) is not None and first.end_lineno is not None:
        lines -= first.end_lineno - first.lineno + 1
    return lines
