"""From what a placer asks for to the words of a command; nothing of it is trusted.

Values are checked against what they may be, and each stays within its own word: no value can become
an option, a path out of its folder, or another value's place.
"""

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

from opentela.core.errors import ConfigError, UsageError
from opentela.supervisor.agent.config import TemplateConfig
from opentela.wire.command import Start

MODEL_CHARACTERS_MAX: Final = 256
CONTEXT_MAX: Final = 1 << 28
"""Tokens; no engine has more, and it fits every engine's integers."""
SHARDS_MAX: Final = 256
"""GPUs of a replica either way: no node has more."""

_PORT: Final = "port"
"""Left for the supervisor, which picks it."""
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLACE: Final = re.compile(r"\{([a-z_]+)\}")
_PART: Final = r"[A-Za-z0-9_][A-Za-z0-9._+:@-]*"
_MODEL: Final = re.compile(rf"/?{_PART}(?:/{_PART})*")
_WORD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,31}")
_VALUES: Final = ("model", "tp", "pp", "gpus", "quantisation", "kv_dtype", "context_max")
_OPTIONS: Final = ("tp", "pp", "quantisation", "kv_dtype", "context_max")


def check(name: str, template: TemplateConfig) -> None:
    """Check a template as far as that needs no host.

    Raises:
        ConfigError: It is none; names the field.
    """
    at = f"template.{name}"
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{at}: {name!r} is not a template name",
            remedy="use 1 to 63 of a-z, 0-9, '.', '-' and '_'",
        )
    words = (*template.command, *(word for words in template.options.values() for word in words))
    if not template.command or _PLACE.search(template.command[0]):
        raise ConfigError(f"{at}.command names no program", remedy="begin it with the program")
    if not any("{model}" in word for word in words):
        raise ConfigError(f"{at}.command has no {{model}}", remedy="say where the model is named")
    for place in (found for word in words for found in _PLACE.findall(word)):
        if place not in (*_VALUES, _PORT):
            known = ", ".join(f"{{{value}}}" for value in (*_VALUES, _PORT))
            raise ConfigError(
                f"{at}: {{{place}}} is not a known placeholder", remedy=f"known are {known}"
            )
    for option in template.options:
        if option not in _OPTIONS:
            raise ConfigError(
                f"{at}.options.{option} is not a known option",
                remedy=f"known are {', '.join(_OPTIONS)}",
            )
    for variable in template.env:
        if not _VARIABLE.fullmatch(variable):
            raise ConfigError(
                f"{at}.env: {variable!r} is not a variable", remedy="correct its name"
            )
    _check_texts(at, (*words, *template.env.values()))


def argv(template: TemplateConfig, start: Start) -> tuple[str, ...]:
    """Return the command for *start*, whose values are checked already; `{port}` is left.

    Raises:
        UsageError: It asks for something that the template has no words for.
    """
    values = {
        "model": start.model,
        "tp": str(start.tp),
        "pp": str(start.pp),
        "gpus": str(start.tp * start.pp),
        "quantisation": start.quantisation,
        "kv_dtype": start.kv_dtype,
        "context_max": str(start.context_max),
    }
    words = list(template.command)
    for name in _given(start):
        if name in template.options:
            words += template.options[name]
        elif not _speaks_of(template.command, name):
            raise UsageError(
                f"the template {start.template} cannot set {name} = {values[name]}",
                remedy=f"omit it, or give the template options.{name}",
            )
    return tuple(_PLACE.sub(lambda found: values.get(found[1], found[0]), word) for word in words)


def check_values(start: Start) -> None:
    """Check what a placer asks for, whatever the template.

    Raises:
        UsageError: A value can be none; names it.
    """
    if not _is_model(start.model):
        shown = start.model[:MODEL_CHARACTERS_MAX]
        raise UsageError(
            f"model {shown!r} is not a model name",
            remedy="use up to 256 letters, digits and . _ - + : @ between slashes",
        )
    for field in ("quantisation", "kv_dtype"):
        value = getattr(start, field)
        if value and not _WORD.fullmatch(value):
            raise UsageError(
                f"{field} {value[:32]!r} is not a single word", remedy="write it as fp8 or awq"
            )
    for field, least, most in (("tp", 1, SHARDS_MAX), ("pp", 1, SHARDS_MAX),
                               ("context_max", 0, CONTEXT_MAX)):  # fmt: skip
        if not least <= getattr(start, field) <= most:
            raise UsageError(f"{field} = {getattr(start, field)} is not between {least} and {most}")


def check_allowed(model: str, *allowed: Sequence[str]) -> None:
    """Check that each list of patterns that is not empty allows *model*.

    Raises:
        UsageError: One does not, or the model is a path that none names.
    """
    named = [pattern for patterns in allowed for pattern in patterns]
    is_path_named = any(one.startswith("/") and fnmatchcase(model, one) for one in named)
    is_allowed = all(
        not patterns or any(fnmatchcase(model, one) for one in patterns) for patterns in allowed
    )
    if not is_allowed or (model.startswith("/") and not is_path_named):
        raise UsageError(
            f"model {model} is not allowed here", remedy="its provider lists the allowed models"
        )


def _check_texts(at: str, texts: Sequence[str]) -> None:
    if wrong := next((one for one in texts if "\0" in one), ""):
        raise ConfigError(f"{at}: {wrong!r} contains a zero byte", remedy="leave it out")


def _is_model(model: str) -> bool:
    # No part begins with a dot, so that none leads out of its folder, or with a dash.
    return len(model) <= MODEL_CHARACTERS_MAX and _MODEL.fullmatch(model) is not None


def _given(start: Start) -> list[str]:
    given: Mapping[str, bool] = {
        "tp": start.tp > 1,
        "pp": start.pp > 1,
        "quantisation": bool(start.quantisation),
        "kv_dtype": bool(start.kv_dtype),
        "context_max": start.context_max > 0,
    }
    return [name for name, is_given in given.items() if is_given]


def _speaks_of(command: Sequence[str], name: str) -> bool:
    places = {f"{{{name}}}"} | ({"{gpus}"} if name in ("tp", "pp") else set())
    return any(place in word for word in command for place in places)
