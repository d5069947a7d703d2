"""Configuration: defaults < TOML file < environment < `--set`, checked as a whole, once, at start.

A form is a frozen msgspec Struct that forbids unknown fields; Structs nest by concern. Secrets are
never values here: fields hold paths of files that hold them.
"""

import difflib
import functools
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, NoReturn, TypeVar

import click
import msgspec
from msgspec import inspect

from opentela.core.errors import ConfigError

FormT = TypeVar("FormT", bound=msgspec.Struct)

DEFAULT: Final = "default"
REQUIRED: Final = "required, and not given"
_AT: Final = re.compile(r"^(?P<what>.*?)(?: - at `\$\.?(?P<where>[^`]*)`)?$", re.DOTALL)
_MISSING: Final = re.compile(r"^Object missing required field `(?P<field>[^`]*)`$")
_TEXTUAL: Final = (inspect.StrType, inspect.EnumType, inspect.LiteralType)


class Settings(Generic[FormT]):
    """A checked configuration, and where each field came from.

    Attributes:
        value: The configuration.
        sources: Dotted field path to `default`, the file, the variable or `--set`.
    """

    def __init__(self, value: FormT, sources: Mapping[str, str]) -> None:
        self.value = value
        self.sources = sources

    def describe(self) -> str:
        """Return one line a field: path, value and source."""
        lines = [(f"{path} = {_shown(value)}", path) for path, value in _leaves(self.value)]
        width = max((len(text) for text, _ in lines), default=0)
        return "\n".join(f"{text:<{width}}  # {self.sources[path]}" for text, path in lines)


class _Given(NamedTuple):
    """One value that somebody gave, before it is checked."""

    path: tuple[str, ...]
    value: object
    source: str


def load(
    form: type[FormT],
    *,
    service: str,
    file: Path | None = None,
    environ: Mapping[str, str] | None = None,
    overrides: Sequence[str] = (),
    is_draft: bool = False,
) -> Settings[FormT]:
    """Return the configuration of *service*, later sources overriding earlier ones.

    Args:
        form: What may be configured.
        service: Names the variables: `OTELA_ROUTER__QUEUE__DEPTH_MAX` sets `queue.depth_max`.
        file: TOML; None for none.
        environ: Instead of this process's environment.
        overrides: `a.b=value`, as given to `--set`.
        is_draft: Let texts that must be given be missing: they are empty, from `REQUIRED`.

    Raises:
        ConfigError: A file cannot be read, or a field is unknown, missing, of the wrong type or
            out of range; names the source, the field and the remedy.
    """
    root = inspect.type_info(form)
    tree: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for given in (
        *(_from_file(file, root) if file else ()),
        *_from_environment(os.environ if environ is None else environ, service, root),
        *_from_overrides(overrides, root),
    ):
        _place(tree, given)
        sources[".".join(given.path)] = given.source
    value: FormT | None = None
    while value is None:
        try:
            value = msgspec.convert(tree, form)
        except msgspec.ValidationError as error:
            missing = _missing(str(error)) if is_draft else ()
            if not missing or sources.get(".".join(missing)) == REQUIRED:
                raise _explained(str(error), sources, service, file) from None
            _place(tree, _Given(missing, "", REQUIRED))
            sources[".".join(missing)] = REQUIRED
    return Settings(value, {path: sources.get(path, DEFAULT) for path, _ in _leaves(value)})


def add_options(form: type[FormT], *, service: str) -> Callable[[Callable[..., Any]], Any]:
    """Give a click command `--config`, `--set` and `--print-config`.

    The command receives the outcome as its keyword argument `settings: Settings[form]`; with
    `--print-config` it is not called at all.
    """

    def decorate(command: Callable[..., Any]) -> Any:
        @functools.wraps(command)
        def configured(
            *args: object,
            config_file: Path | None,
            overrides: tuple[str, ...],
            print_config: bool,
            **options: object,
        ) -> object:
            if print_config:
                given = load(
                    form, service=service, file=config_file, overrides=overrides, is_draft=True
                )
                click.echo(given.describe())
                return None
            settings = load(form, service=service, file=config_file, overrides=overrides)
            return command(*args, settings=settings, **options)

        for option in reversed(_options(service)):
            option(configured)
        return configured

    return decorate


def _options(service: str) -> list[Callable[[Callable[..., Any]], Any]]:
    return [
        click.option(
            "--config",
            "config_file",
            metavar="FILE",
            type=click.Path(path_type=Path),
            help="Configuration file, in TOML.",
        ),
        click.option(
            "--set",
            "overrides",
            metavar="FIELD=VALUE",
            multiple=True,
            help=f"Set one field, over the file and OTELA_{_variable(service)}__…; repeatable.",
        ),
        click.option(
            "--print-config",
            is_flag=True,
            help="Print every field, its value and its source, then exit.",
        ),
    ]


def _from_file(file: Path, root: inspect.Type) -> Iterator[_Given]:
    try:
        tree = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"{file}: {os.strerror(error.errno or 0)}", remedy="give --config a readable TOML file"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{file}: not TOML: {error}", remedy="correct that place in the file"
        ) from error
    yield from _walk(tree, (), str(file), root)


def _walk(
    tree: Mapping[str, Any], above: tuple[str, ...], source: str, root: inspect.Type
) -> Iterator[_Given]:
    for key, value in tree.items():
        path = (*above, key)
        kind = _kind_at(root, path, source)
        if isinstance(value, dict) and _has_children(kind):
            yield from _walk(value, path, source, root)
        else:
            yield _Given(path, value, source)


def _from_environment(
    environ: Mapping[str, str], service: str, root: inspect.Type
) -> Iterator[_Given]:
    prefix = f"OTELA_{_variable(service)}__"
    for variable in sorted(environ):
        if variable.startswith(prefix):
            path = tuple(variable.removeprefix(prefix).lower().split("__"))
            kind = _kind_at(root, path, variable)
            yield _Given(path, _parsed(environ[variable], kind), variable)


def _from_overrides(overrides: Iterable[str], root: inspect.Type) -> Iterator[_Given]:
    for override in overrides:
        field, equals, raw = override.partition("=")
        if not equals:
            raise ConfigError(
                f"--set {override}: no value", remedy="write --set FIELD=VALUE, as in a.b=1"
            )
        path = tuple(field.strip().split("."))
        yield _Given(path, _parsed(raw, _kind_at(root, path, "--set")), "--set")


def _parsed(raw: str, kind: inspect.Type) -> object:
    """Return what *raw* says: text where text is wanted, otherwise a TOML value or a list."""
    kinds = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
    if any(isinstance(one, _TEXTUAL) for one in kinds):
        return raw
    try:
        return tomllib.loads(f"value = {raw}")["value"]
    except tomllib.TOMLDecodeError:
        is_list = isinstance(kind, inspect.CollectionType | inspect.VarTupleType)
        return [part.strip() for part in raw.split(",") if part.strip()] if is_list else raw


def _place(tree: dict[str, Any], given: _Given) -> None:
    for part in given.path[:-1]:
        tree = tree.setdefault(part, {})
    tree[given.path[-1]] = given.value


def _kind_at(root: inspect.Type, path: tuple[str, ...], source: str) -> inspect.Type:
    """Return the type that the form has at *path*; refuse a path that it lacks."""
    kind = root
    for depth, part in enumerate(path):
        kind = _inner(kind)
        if isinstance(kind, inspect.DictType):
            kind = kind.value_type
            continue
        fields = kind.fields if isinstance(kind, inspect.StructType) else ()
        match = next((field for field in fields if field.encode_name == part), None)
        if match is None:
            _refuse(path[: depth + 1], [field.encode_name for field in fields], source)
        kind = match.type
    return _inner(kind)


def _inner(kind: inspect.Type) -> inspect.Type:
    """Return the table that hides in an optional or annotated type, or the type itself."""
    while isinstance(kind, inspect.Metadata):
        kind = kind.type
    if isinstance(kind, inspect.UnionType):
        tables = [one for one in kind.types if _has_children(one)]
        return tables[0] if tables else kind
    return kind


def _has_children(kind: inspect.Type) -> bool:
    return isinstance(kind, inspect.StructType | inspect.DictType)


def _refuse(path: tuple[str, ...], known: list[str], source: str) -> NoReturn:
    close = difflib.get_close_matches(path[-1], known, n=1)
    above = "".join(f"{part}." for part in path[:-1])
    if close:
        remedy = f"did you mean {above}{close[0]}?"
    elif known:
        remedy = f"known here: {', '.join(above + name for name in known)}"
    else:
        remedy = f"{'.'.join(path[:-1])} is a single value, not a table"
    raise ConfigError(f"{source}: unknown field {'.'.join(path)}", remedy=remedy)


def _explained(
    message: str, sources: Mapping[str, str], service: str, file: Path | None
) -> ConfigError:
    """Return msgspec's complaint in the words of who gave the value."""
    match = _AT.match(message)
    assert match is not None
    what, where = match["what"], match["where"] or ""
    missing = _MISSING.match(what)
    if missing:
        path = f"{where}.{missing['field']}" if where else missing["field"]
        variable = f"OTELA_{_variable(service)}__{path.upper().replace('.', '__')}"
        place = f"in {file}" if file else "in a file given to --config"
        return ConfigError(
            f"{path} is not configured", remedy=f"set it {place}, as {variable} or --set {path}=…"
        )
    field = where.partition("[")[0]
    source = next(
        (source for path, source in sources.items() if f"{path}.".startswith(f"{field}.")),
        DEFAULT,
    )
    what = what[0].lower() + what[1:] if what else what
    return ConfigError(
        f"{source}: {where or 'configuration'}: {what}",
        remedy="correct it there",
    )


def _missing(message: str) -> tuple[str, ...]:
    """Return the path of the field that msgspec misses; empty when it complains of another."""
    match = _AT.match(message)
    missing = _MISSING.match(match["what"]) if match else None
    if match is None or missing is None:
        return ()
    return tuple(filter(None, f"{match['where'] or ''}.{missing['field']}".split(".")))


def _leaves(value: object, above: str = "") -> Iterator[tuple[str, object]]:
    """Yield path and value of every field that is no table, in the form's order."""
    if isinstance(value, msgspec.Struct):
        children = msgspec.structs.asdict(value)
    elif isinstance(value, dict) and value:
        children = value
    else:
        yield above, value
        return
    for name, child in children.items():
        yield from _leaves(child, f"{above}.{name}" if above else name)


def _shown(value: object) -> str:
    return msgspec.json.encode(value, enc_hook=str).decode()


def _variable(service: str) -> str:
    return service.upper().replace("-", "_")
