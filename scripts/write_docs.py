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
    "placer": "opentela.placer.live.config:PlacerConfig",
    "model": "opentela.placer.live.config:ModelConfig",
    "agent": "opentela.supervisor.agent.config:AgentConfig",
    "keep": "opentela.supervisor.slurm.succession:Rules",
}
_PART: Final = re.compile(r"(<!-- made: (?P<name>[a-z ]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_ATTRIBUTE: Final = re.compile(r"^(\w+): (.*)$")


def main() -> int:
    """Return 0 when every part is as the code says, now or already."""
    is_check = "--check" in sys.argv[1:]
    stale = [path for path, text in rewritten() if not _holds(path, text)]
    for path, text in rewritten():
        if not is_check:
            path.write_text(text, encoding="utf-8")
    for path in stale:
        sys.stdout.write(f"{'stale' if is_check else 'wrote'}: {path.relative_to(ROOT)}\n")
    return 1 if stale and is_check else 0


def _holds(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text


def rewritten() -> Iterator[tuple[Path, str]]:
    """Yield each document that is made or has made parts, and what it should hold."""
    yield ROOT / "docs" / "asyncapi.json", asyncapi()
    for path in sorted((ROOT / "docs").rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        if _PART.search(text):
            yield path, _PART.sub(lambda part: f"{part[1]}{MAKERS[part['name']]()}{part[3]}", text)


def errors() -> str:
    """Return every error that a router tells, by its one table."""
    fault = importlib.import_module("opentela.router.fault")
    rows = [kind.value for kind in fault.FaultKind]
    lines = [f"| {row.status} | `{row.type}` | `{row.code}` |" for row in rows]
    return "\n".join(("| status | type | code |", "|---|---|---|", *lines, ""))


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
    return _drawn_in("opentela.wire.frames")


def loans() -> str:
    """Return the order of the words about a loan, as their module draws it."""
    return _drawn_in("opentela.wire.loans")


def _drawn_in(name: str) -> str:
    module = importlib.import_module(name)
    drawn = inspect.cleandoc(module.__doc__ or "").split("::\n\n", 1)[1]
    block = re.match(r"((?: {4}.*\n|\n)+)", drawn)
    assert block is not None, f"{name} no longer draws what it says"
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
        if service == "agent" and knob.path.startswith("supervisor."):
            continue  # they stand in a table of their own
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


def presets() -> str:
    """Return the knobs of failure detection, with their units, in each preset."""
    module = importlib.import_module("opentela.registry.config")
    names = list(module.PRESETS)
    lines = [f"| knob | unit | {' | '.join(names)} |", f"|---|---|{'---|' * len(names)}"]
    values = {name: _leaves(config) for name, config in module.PRESETS.items()}
    for knob in knobs(module.RegistryConfig):
        if knob.path.split(".")[0] in ("detector", "restraint", "peers"):
            unit = re.split(r"[;,:. ]", knob.text, maxsplit=1)[0].lower()
            shown = " | ".join(f"{values[name][knob.path]:g}" for name in names)
            lines.append(f"| `{knob.path}` | {unit} | {shown} |")
    return "\n".join(lines) + "\n"


def delays() -> str:
    """Return what the knobs of failure detection amount to in each preset."""
    module = importlib.import_module("opentela.registry.config")
    names = list(module.PRESETS)
    lines = [f"| | {' | '.join(names)} |", f"|---|{'---|' * len(names)}"]
    for what in ("noticed_s", "frozen_s", "evicted_s", "alone_s"):
        measure = getattr(module, what)
        said = str(inspect.getdoc(measure)).removeprefix("Return after how long ").rstrip(".")
        shown = " | ".join(f"{measure(config):g} s" for config in module.PRESETS.values())
        lines.append(f"| {said} | {shown} |")
    return "\n".join(lines) + "\n"


def wide() -> str:
    """Return the preset for wide areas as a file to start from."""
    module = importlib.import_module("opentela.registry.config")
    plain, wan = _leaves(module.LAN), _leaves(module.WAN)
    lines: list[str] = []
    for path, value in wan.items():
        table, _, field = path.rpartition(".")
        if value == plain[path]:
            continue
        if f"[{table}]" not in lines:
            lines += ["", f"[{table}]"]
        lines.append(f"{field} = {_json(value)}")
    return "```toml\n" + "\n".join(lines[1:]) + "\n```\n"


def _leaves(form: msgspec.Struct, above: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in form.__struct_fields__:
        value = getattr(form, field)
        if isinstance(value, msgspec.Struct):
            found |= _leaves(value, f"{above}{field}.")
        else:
            found[f"{above}{field}"] = value
    return found


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


_KINDS_OF_EVENTS: Final = {
    "JOINING": "A session announced itself; its engine is loading.",
    "SERVING": "It takes requests.",
    "DRAINING": "It takes nothing new and finishes what runs.",
    "DOWN": "Its engine has ended.",
    "LEFT": "It is gone for good: by itself, or evicted.",
    "SUSPECTED": "A quorum of registries cannot reach it: nothing is routed to it for now.",
    "TRUSTED": "It is reachable again, or has proved that it lives.",
    "CHANGED": "What it offers has changed.",
}


_MESSAGE: Final = {
    "name": "LifecycleEvent",
    "title": "A change of one session",
    "payload": {"$ref": "#/components/schemas/LifecycleEvent"},
    "headers": {
        "type": "object",
        "properties": {"Nats-Msg-Id": {"type": "string", "description": "The event's id."}},
    },
}


_KINDS_OF_AUDITS: Final = {
    "LED": "The placer leads from now on.",
    "DEPOSED": "It leads no more.",
    "PLANNED": "A decision that is carried out: `asked`, `placed`, `reason`.",
    "HELD": "A decision that changes nothing, and why.",
    "ADOPTED": "A replica was found that an earlier leader had started.",
    "START": "An agent was told to start a replica.",
    "STOP": "An agent was told to drain and end one.",
    "SERVES": "A replica takes requests.",
    "FREED": "A replica that was to end holds no GPU any more.",
    "FAILED": "A replica did not start, or ended by itself.",
}


_AUDIT: Final = {
    "name": "AuditEvent",
    "title": "What a placer decided, did or saw",
    "payload": {"$ref": "#/components/schemas/AuditEvent"},
}


def _schemas(wire: Any, audit: Any) -> dict[str, Any]:
    """Return the schema of each kind of event, with what its docstring says."""
    _, schemas = msgspec.json.schema_components(
        [wire.LifecycleEvent, audit.AuditEvent], ref_template="#/components/schemas/{name}"
    )
    for form in (wire.LifecycleEvent, audit.AuditEvent, audit.Asked, audit.Placed):
        schema = schemas[form.__name__]
        summary, _, _ = inspect.cleandoc(schema.pop("description", "")).partition("\n\n")
        schema["description"] = summary
        for field, text in attributes(form).items():
            schema["properties"][field]["description"] = text
    return schemas


def asyncapi() -> str:
    """Return the AsyncAPI 3 document of lifecycle and audit events."""
    wire = importlib.import_module("opentela.wire.events")
    audit = importlib.import_module("opentela.wire.audit")
    subjects = importlib.import_module("opentela.wire.subjects")
    history = importlib.import_module("opentela.wire.history")
    schemas = _schemas(wire, audit)
    prefix = subjects.ALL_EVENTS.removesuffix(">")
    made: dict[str, Any] = {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Events of opentela",
            "version": "1",
            "description": (
                "What happens to sessions and what placers decide, for tools. Every registry tells"
                " every change; the id is the same, so that JetStream and readers drop the"
                " repetition. Where the hub has JetStream,"
                f" the stream {subjects.HISTORY} in the domain {subjects.DOMAIN} keeps"
                f" {history.DAYS} days of them."
            ),
        },
        "defaultContentType": "application/json",
        "channels": {
            "events": _channel(prefix, wire.KINDS),
            "audits": _audits(subjects.ALL_AUDITS.removesuffix(">"), audit.KINDS),
        },
        "operations": {
            "hear": {
                "action": "receive",
                "channel": {"$ref": "#/channels/events"},
                "summary": "Subscribe to them; `*` and `>` stand for any.",
            },
            "audit": {
                "action": "receive",
                "channel": {"$ref": "#/channels/audits"},
                "summary": "Subscribe to what placers decide; nobody keeps it.",
            },
        },
        "components": {
            "messages": {"lifecycleEvent": _MESSAGE, "auditEvent": _AUDIT},
            "schemas": schemas,
        },
    }
    return msgspec.json.format(msgspec.json.encode(made), indent=2).decode() + "\n"


def _channel(prefix: str, kinds: tuple[str, ...]) -> dict[str, Any]:
    assert set(kinds) == set(_KINDS_OF_EVENTS), "every kind of event has a summary, and no other"
    meanings = "\n".join(f"- `{kind}`: {_KINDS_OF_EVENTS[kind]}" for kind in kinds)
    return {
        "address": prefix + "{kind}.{provider}.{site}.{session}",
        "description": meanings,
        "parameters": {
            "kind": {"enum": list(kinds), "description": "What happened."},
            "provider": {"description": "Whose session it is."},
            "site": {"description": "Where it is."},
            "session": {"description": "A ULID."},
        },
        "messages": {"lifecycleEvent": {"$ref": "#/components/messages/lifecycleEvent"}},
    }


def _audits(prefix: str, kinds: tuple[str, ...]) -> dict[str, Any]:
    assert set(kinds) == set(_KINDS_OF_AUDITS), "every kind of event has a summary, and no other"
    return {
        "address": prefix + "{placer}",
        "description": "\n".join(f"- `{kind}`: {_KINDS_OF_AUDITS[kind]}" for kind in kinds),
        "parameters": {"placer": {"description": "Who decides."}},
        "messages": {"auditEvent": {"$ref": "#/components/messages/auditEvent"}},
    }


_METRIC_KINDS: Final = ("counter", "gauge", "histogram")

MAKERS: Final[dict[str, Callable[[], str]]] = {
    "permissions": permissions,
    "frames": frames,
    "loans": loans,
    "metrics": metrics,
    "errors": errors,
    "presets": presets,
    "delays": delays,
    "wide": wide,
    "router configuration": lambda: configuration("router"),
    "registry configuration": lambda: configuration("registry"),
    "supervisor configuration": lambda: configuration("supervisor"),
    "agent configuration": lambda: configuration("agent"),
    "placer configuration": lambda: configuration("placer"),
    "placed models": lambda: configuration("model"),
    "keep configuration": lambda: configuration("keep"),
}


if __name__ == "__main__":
    sys.exit(main())
