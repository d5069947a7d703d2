"""Documents say what the code says."""

import ast
import importlib
import inspect
import re
from collections.abc import Iterator

import msgspec
import pytest
from scripts import write_docs
from tests.tidy import tree

LEVELS = {"debug", "info", "warning", "error", "critical", "exception"}
EVENT_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
EVENTS = tree.ROOT / "docs" / "log-events.md"
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)[^)]*\)")


def _loggers(module: ast.Module) -> set[str]:
    """Return the names that are bound to a logger in *module*."""
    return {"log"} | {
        ast.unparse(target)
        for node in ast.walk(module)
        if isinstance(node, ast.Assign)
        and re.match(r"(log\.bind|logs?\.get_logger|get_logger)\(", ast.unparse(node.value))
        for target in node.targets
    }


def _logged() -> Iterator[tuple[str, str]]:
    """Yield each event that is logged and where; fail on one that nobody could look up."""
    for path in tree.sources():
        module = tree.syntax(path)
        loggers = _loggers(module)
        for name, node in tree.calls(module):
            owner, _, method = name.rpartition(".")
            if method in LEVELS and owner in loggers:
                where = f"{tree.shown(path)}:{node.lineno}"
                constants = list(_constants(module, node.args[0]))
                assert constants, f"{where}: the event is no constant"
                for constant in constants:
                    yield constant, where


def _constants(module: ast.Module, expression: ast.expr) -> Iterator[str]:
    """Yield what *expression* may be, if it is a choice of constants, named or not."""
    match expression:
        case ast.Constant(value=str(value)):
            yield value
        case ast.IfExp(body=body, orelse=orelse):
            yield from _constants(module, body)
            yield from _constants(module, orelse)
        case ast.Name(id=name):
            for node in ast.walk(module):
                if isinstance(node, ast.Assign) and name in map(ast.unparse, node.targets):
                    yield from _constants(module, node.value)
        case _:
            return


def test_every_log_event_is_a_documented_constant() -> None:
    """Whoever sees an event at night can look up what to do."""
    documented = set(re.findall(r"^\| `([a-z0-9_]+)`", tree.text(EVENTS), re.MULTILINE))
    said = {"library_logged": "shared/opentela/telemetry/log.py", **dict(_logged())}
    assert [name for name in said if not EVENT_NAME.fullmatch(name)] == []
    assert {name: where for name, where in said.items() if name not in documented} == {}
    assert documented - set(said) == set()


def _configs() -> list[type[msgspec.Struct]]:
    found = []
    for path in tree.sources():
        if path.name == "config.py":
            module = importlib.import_module(tree.module(path))
            found += [
                one
                for _, one in inspect.getmembers(module, inspect.isclass)
                if issubclass(one, msgspec.Struct) and one.__module__ == module.__name__
            ]
    return found


@pytest.mark.parametrize("form", _configs(), ids=lambda form: form.__name__)
def test_every_field_of_a_configuration_is_documented(form: type[msgspec.Struct]) -> None:
    """Unit, default and what it trades: an operator has nothing else to go by."""
    documented = set(write_docs.attributes(form))
    values = {
        field.name
        for field in msgspec.structs.fields(form)
        if not isinstance(field.default, msgspec.Struct)
    }
    assert values - documented == set()
    assert documented <= {field.name for field in msgspec.structs.fields(form)}
    assert form.__struct_config__.frozen
    assert form.__struct_config__.forbid_unknown_fields


def test_what_is_made_from_code_is_up_to_date() -> None:
    """`make docs` has been run."""
    stale = [tree.shown(path) for path, text in write_docs.rewritten() if tree.text(path) != text]
    assert stale == [], "run: make docs"


def test_links_between_documents_lead_somewhere() -> None:
    """A dead link is found here, not by a reader."""
    dead = [
        f"{tree.shown(path)}: {target}"
        for path in tree.files()
        if path.suffix == ".md"
        for target in LINK.findall(tree.text(path))
        if "://" not in target and not (path.parent / target).exists()
    ]
    assert dead == []


def test_decisions_are_numbered_without_gap() -> None:
    """A decision is known by its number for ever."""
    numbers = [int(path.name[:4]) for path in sorted((tree.ROOT / "docs" / "adr").glob("*.md"))]
    assert numbers == list(range(1, len(numbers) + 1))
