"""What a client says about who may serve it: headers `x-otela-…`, an `otela` object, `model@…`.

The three say the same things and all hold together. What cannot be understood is refused: a wish
that is silently dropped would send a prompt where its sender did not want it. The object is taken
out of the body before an engine sees it, and a pinned model gets its plain name; every other byte
stays.
"""

import json
import re
from collections.abc import Sequence
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from opentela.core.pieces import Text, whole
from opentela.router.fault import Fault, FaultKind
from opentela.router.matching import NO_WISH, Wish
from opentela.router.members import MembersError, change, edited, members, removal
from opentela.router.openai import Ask

HEADER_PREFIX: Final = b"x-otela-"
MODEL_HEADER: Final = b"x-otela-model"
VALUES_MAX: Final = 64
"""Alternatives of one constraint."""
PIN: Final = "@"
OTELA_BYTES_MAX: Final = 64 * 1024
"""Of the object in a body: as much as a head may have, where the same can be said."""
_BLANKS: Final = b" \t\r\n"
_BLANKS_MAX: Final = 64
"""Before a body, as far as anybody looks."""

_Word: TypeAlias = Annotated[str, Meta(min_length=1, max_length=256)]
_Words: TypeAlias = _Word | Annotated[tuple[_Word, ...], Meta(min_length=1, max_length=VALUES_MAX)]


class _Given(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    site: _Words | UnsetType = UNSET
    provider: _Words | UnsetType = UNSET
    quantisation: _Words | UnsetType = UNSET
    tier: _Words | UnsetType = UNSET
    label: Annotated[dict[_Word, _Words], Meta(min_length=1, max_length=VALUES_MAX)] | UnsetType = (
        UNSET
    )
    min_context: Annotated[int, Meta(ge=1, le=2**40)] | UnsetType = UNSET
    min_walltime: Annotated[float, Meta(gt=0, le=1e9)] | UnsetType = UNSET
    fingerprint: Annotated[str, Meta(pattern="^[0-9a-f]{6,64}$")] | UnsetType = UNSET


REMEDIES: Final = {
    "site": "a name, or several of which one must hold",
    "provider": "a name, or several of which one must hold",
    "quantisation": "a name such as fp8, or several of which one must hold",
    "tier": "names in order of preference; * as the last one takes any session",
    "label": 'what labels must be: the header team=a,zone=z, or {"team": "a", "zone": ["y", "z"]}',
    "min_context": "tokens, a whole number above 0",
    "min_walltime": "seconds, a number above 0",
    "fingerprint": "the first 6 or more hexadecimal digits, in lower case",
}
"""What each field must be; every field of `_Given` has its line."""


class Settled(NamedTuple):
    """What the request comes to.

    Attributes:
        body: As the engine gets it.
    """

    model: str
    wish: Wish
    body: Text


def settle(
    model: str,
    body: Text,
    *,
    headers: Sequence[tuple[bytes, bytes]],
    ask: Ask,
    is_pinned: bool,
) -> Settled | Fault:
    """Return what was asked for, or the 400 that names the wrong field.

    Args:
        model: As asked for.
        body: As the client sent it.
        headers: Those that begin with `x-otela-`.
        ask: What the body says.
        is_pinned: What stands behind the last `@` of *model* is no part of its name.
    """
    parts = [_of_headers(headers)] if headers else []
    otela = ask.otela
    if otela:
        parts.append(_of_object(otela))
    if is_pinned:
        model, _, fingerprint = model.rpartition(PIN)
        parts.append(_read({"fingerprint": fingerprint}, "model"))
        if not body[:_BLANKS_MAX].lstrip(_BLANKS).startswith(b"{"):
            return _bad("Pin by the header x-otela-fingerprint where the body is no JSON.", "model")
    wish = NO_WISH
    for part in parts:
        if isinstance(part, Fault):
            return part
        joined = _joined(wish, part)
        if isinstance(joined, Fault):
            return joined
        wish = joined
    if not (otela or is_pinned):
        return Settled(model, wish, body)
    try:
        return Settled(model, wish, _as_meant(model, body, ask, is_pinned=is_pinned))
    except MembersError as error:
        return _bad(f"{error} Headers x-otela-… say the same.", "otela" if otela else "model")


def _as_meant(model: str, body: Text, ask: Ask, *, is_pinned: bool) -> Text:
    """Return *body* without what is not for engines.

    Raises:
        MembersError: It cannot be found.
    """
    found = ask.members
    if found is None:
        body = whole(body)
        found = members(body)
    edits = removal(found, "otela") if ask.otela else []
    if is_pinned:
        edits += change(found, "model", msgspec.json.encode(model))
    return edited(body, edits)


# Reading ---------------------------------------------------------------------


def _of_headers(headers: Sequence[tuple[bytes, bytes]]) -> Wish | Fault:
    given: dict[str, Any] = {}
    for raw_name, raw_value in headers:
        if raw_name == MODEL_HEADER:
            continue
        name = raw_name.removeprefix(HEADER_PREFIX).decode("latin-1").replace("-", "_")
        text = raw_value.decode("utf-8", "replace").strip()
        if name in given:
            return _bad(f"The header {_header(name)} occurs more than once.", name)
        given[name] = text if name in _SINGLE else _listed(text, name)
    return _read(given, "headers")


_SINGLE: Final = frozenset({"min_context", "min_walltime", "fingerprint"})


def _listed(text: str, name: str) -> object:
    words = [word for part in text.split(",") if (word := part.strip())]
    if name != "label":
        return words
    labels: dict[str, list[str]] = {}
    for word in words:
        key, equals, value = word.partition("=")
        labels.setdefault(key.strip(), []).append(value.strip() if equals else "")
    return labels


def _of_object(otela: bytes) -> Wish | Fault:
    if len(otela) > OTELA_BYTES_MAX:
        return _bad(f"The field 'otela' has more than {OTELA_BYTES_MAX} bytes.", "otela")
    try:
        given = msgspec.json.decode(otela)
        json.loads(otela, object_pairs_hook=_once)
    except msgspec.DecodeError:
        return _bad("The field 'otela' is not JSON.", "otela")
    except _RepeatedError as repeated:
        return _bad(f"Within 'otela' {str(repeated)[:128]!r} occurs more than once.", "otela")
    if not isinstance(given, dict):
        return _bad(f"The field 'otela' must be an object; it knows {_known()}.", "otela")
    return _read(given, "otela")


class _RepeatedError(Exception):
    """One of two wishes would be dropped silently."""


def _once(pairs: list[tuple[str, Any]]) -> None:
    names: dict[str, None] = {}
    for name, _ in pairs:
        if name in names:
            raise _RepeatedError(name)
        names[name] = None


def _read(given: dict[str, Any], where: str) -> Wish | Fault:
    for name in given:
        if name not in REMEDIES:
            said = _header(name) if where == "headers" else f"otela.{name}"
            return _bad(f"Unknown constraint {said[:128]}; known are {_known()}.", name[:128])
    try:
        read = msgspec.convert(given, _Given, strict=where != "headers")
    except msgspec.ValidationError as error:
        found = _FIELD.search(str(error))
        name = found[1] if found else "otela"
        said = "name@fingerprint" if where == "model" else f"constraint {_told(name, where)}"
        return _bad(f"The {said} must be {REMEDIES.get(name, _known())}.", name)
    return Wish(
        sites=_words(read.site),
        providers=_words(read.provider),
        quantisations=_words(read.quantisation),
        tiers=_words(read.tier),
        context_min=read.min_context or 0,
        walltime_min_s=read.min_walltime or 0.0,
        fingerprint=read.fingerprint or "",
        labels=tuple((name, _words(values)) for name, values in sorted((read.label or {}).items())),
    )


_FIELD: Final = re.compile(r"`(?:key in )?\$\.(\w+)")


def _words(given: str | tuple[str, ...] | UnsetType) -> tuple[str, ...]:
    if isinstance(given, str):
        return (given,)
    return given or ()


def _header(name: str) -> str:
    return "x-otela-" + name.replace("_", "-")


def _told(name: str, where: str) -> str:
    return _header(name) if where == "headers" else f"otela.{name}"


def _known() -> str:
    return ", ".join(REMEDIES)


def _bad(message: str, field: str) -> Fault:
    param = field if field in {"otela", "model"} else f"otela.{field}"
    return Fault(kind=FaultKind.BAD_REQUEST, message=message, param=param)


# Joining ---------------------------------------------------------------------


def _joined(one: Wish, other: Wish) -> Wish | Fault:
    """Return the wish that is kept by who keeps both."""
    if one is NO_WISH:
        return other
    try:
        return Wish(
            sites=_common("site", one.sites, other.sites),
            providers=_common("provider", one.providers, other.providers),
            quantisations=_common("quantisation", one.quantisations, other.quantisations),
            tiers=_common("tier", one.tiers, other.tiers),
            context_min=max(one.context_min, other.context_min),
            walltime_min_s=max(one.walltime_min_s, other.walltime_min_s),
            fingerprint=_longer(one.fingerprint, other.fingerprint),
            labels=_joined_labels(one, other),
        )
    except _ExcludedError as excluded:
        return _bad(f"Header, body and model contradict each other in {excluded}.", str(excluded))


class _ExcludedError(Exception):
    """No session could keep both."""


def _common(field: str, one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    if not one or not other:
        return one or other
    common = tuple(value for value in one if value in other)
    if not common:
        raise _ExcludedError(field)
    return common


def _longer(one: str, other: str) -> str:
    if not (one.startswith(other) or other.startswith(one)):
        raise _ExcludedError("fingerprint")
    return max(one, other, key=len)


def _joined_labels(one: Wish, other: Wish) -> tuple[tuple[str, tuple[str, ...]], ...]:
    labels = dict(one.labels)
    for name, values in other.labels:
        labels[name] = _common("label", labels.get(name, ()), values)
    return tuple(sorted(labels.items()))
