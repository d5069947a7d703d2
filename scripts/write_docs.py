"""Rewrite the parts of docs/ that are made from code, so that they cannot be wrong.

A part stands between `<!-- made: NAME -->` and `<!-- end -->`. `--check` only compares.
"""

import ast
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

ROOT: Final = Path(__file__).resolve().parents[1]
CONFIGURED: Final = {
    "router": "opentela.router.config:RouterConfig",
    "registry": "opentela.registry.config:RegistryConfig",
    "supervisor": "opentela.supervisor.config:SupervisorConfig",
}
_PART: Final = re.compile(r"(<!-- made: (?P<name>[a-z ]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_ATTRIBUTE: Final = re.compile(r"^(\w+): (.*)$")


def main() -> int:
    """Return 0 when every part is as the code says, now or already."""
    is_check = "--check" in sys.argv[1:]
    stale = [path for path, text in rewritten() if path.read_text(encoding="utf-8") != text]
    for path, text in rewritten():
        if not is_check:
            path.write_text(text, encoding="utf-8")
    for path in stale:
        sys.stdout.write(f"{'stale' if is_check else 'wrote'}: {path.relative_to(ROOT)}\n")
    return 1 if stale and is_check else 0


def rewritten() -> Iterator[tuple[Path, str]]:
    """Yield each document that has made parts, and what it should hold."""
    for path in sorted((ROOT / "docs").rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        if _PART.search(text):
            yield path, _PART.sub(lambda part: f"{part[1]}{MAKERS[part['name']]()}{part[3]}", text)


def permissions() -> str:
    """Return who may publish and subscribe each conversation."""
    table = importlib.import_module("opentela.mesh.permissions")
    lines = ["| conversation | publish | subscribe |", "|---|---|---|"]
    for row in table.TABLE:
        published, subscribed = (
            "<br>".join(
                f"{role}: `{table.pattern(row.conversation, reach, _member(table, role))}`"
                for role, reach in sorted(side.items())
            )
            for side in (row.publish, row.subscribe)
        )
        lines.append(f"| {row.conversation} | {published} | {subscribed} |")
    # A name of many holds `<`, which a subject cannot; it is put in afterwards.
    return "\n".join(lines).replace("NAME", "<name>").replace("PROVIDER", "<provider>") + "\n"


def _member(table: Any, role: Any) -> Any:
    is_provider = role is table.Role.PROVIDER
    return table.Member(role=role, name="NAME", provider="PROVIDER" if is_provider else "")


def frames() -> str:
    """Return the layout of frames, as their module draws it."""
    module = importlib.import_module("opentela.wire.frames")
    drawn = inspect.cleandoc(module.__doc__ or "").split("::\n\n", 1)[1]
    block = re.match(r"((?: {4}.*\n|\n)+)", drawn)
    assert block is not None, "the module no longer draws its frames"
    return f"```\n{inspect.cleandoc(block[1]).rstrip()}\n```\n"


class Knob(NamedTuple):
    """One field that can be configured."""

    path: str
    default: str
    text: str


def configuration(service: str) -> str:
    """Return the fields of a service: name, default, what it is."""
    module, _, name = CONFIGURED[service].partition(":")
    form = getattr(importlib.import_module(module), name)
    lines = ["| field | default | |", "|---|---|---|"]
    for knob in knobs(form):
        text = knob.text.replace("|", "\\|")
        lines.append(f"| `{knob.path}` | {knob.default} | {text} |")
    return "\n".join(lines) + "\n"


def knobs(form: type[msgspec.Struct], above: str = "") -> Iterator[Knob]:
    """Yield every field of *form* and of the tables within it."""
    documented = attributes(form)
    for field in msgspec.structs.fields(form):
        path = f"{above}{field.encode_name}"
        default: Any = field.default
        if field.default is msgspec.NODEFAULT and field.default_factory is not msgspec.NODEFAULT:
            default = field.default_factory()
        if isinstance(default, msgspec.Struct):
            yield from knobs(type(default), f"{path}.")
            continue
        shown = "required" if default is msgspec.NODEFAULT else f"`{_json(default)}`"
        yield Knob(path, shown, documented.get(field.name, ""))


def attributes(form: type) -> dict[str, str]:
    """Return what the docstring of *form* says of each attribute."""
    _, _, section = inspect.cleandoc(form.__doc__ or "").partition("Attributes:\n")
    found: dict[str, str] = {}
    name = ""
    for line in inspect.cleandoc(section).splitlines():
        match = _ATTRIBUTE.match(line)
        if match:
            name = match[1]
            found[name] = match[2]
        elif name:
            found[name] = f"{found[name]} {line.strip()}".strip()
    return found


def _json(value: object) -> str:
    return msgspec.json.encode(value, enc_hook=str).decode()


def metrics() -> str:
    """Return every metric and what it counts."""
    lines = ["| metric | kind | labels | |", "|---|---|---|---|"]
    found = sorted(set(_metric_calls()))
    lines += [f"| `{name}` | {kind} | {labels} | {text} |" for name, kind, labels, text in found]
    return "\n".join(lines) + "\n"


def _metric_calls() -> Iterator[tuple[str, str, str, str]]:
    for path in sorted((*(ROOT / "services").rglob("*.py"), *(ROOT / "shared").rglob("*.py"))):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and ast.unparse(node.func) in {f"metrics.{kind}" for kind in _METRIC_KINDS}
                and len(node.args) > 1
            ):
                name, text, *rest = (ast.literal_eval(argument) for argument in node.args)
                named = [
                    ast.literal_eval(one.value) for one in node.keywords if one.arg == "labels"
                ]
                labels = (rest or named or [()])[0]
                shown = ", ".join(f"`{label}`" for label in labels)
                yield name, ast.unparse(node.func).removeprefix("metrics."), shown, text


_METRIC_KINDS: Final = ("counter", "gauge", "histogram")

MAKERS: Final[dict[str, Callable[[], str]]] = {
    "permissions": permissions,
    "frames": frames,
    "metrics": metrics,
    "router configuration": lambda: configuration("router"),
    "registry configuration": lambda: configuration("registry"),
    "supervisor configuration": lambda: configuration("supervisor"),
}


if __name__ == "__main__":
    sys.exit(main())
