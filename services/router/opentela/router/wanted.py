"""Which model a request is for: its body says it, or where it has none that can, a header or query.

A body's word counts before all others, for the engine reads it too. `x-otela-model` and `?model=`
are for what has no such body: reads, deletions, sound and pictures.
"""

from collections.abc import Sequence
from typing import Final
from urllib.parse import parse_qsl

from opentela.core.pieces import Text
from opentela.router.fault import Fault, FaultKind
from opentela.router.forms import is_form, read_fields
from opentela.router.large_body import LargeBody
from opentela.router.openai import MISSING, MODEL_CHARS_MAX, Ask, read_ask

HEADER: Final = b"x-otela-model"
PARAMETER: Final = "model"
UNNAMED: Final = Fault(
    kind=FaultKind.BAD_REQUEST,
    message="Not exactly one model is served: name one by ?model=… or the header x-otela-model.",
    param="model",
)
_FIELDS_MAX: Final = 64
_MEDIA: Final = (b"audio/", b"image/", b"video/", b"application/octet-stream")
_BODILESS: Final = frozenset({b"GET", b"HEAD", b"DELETE"})
_STREAMING: Final = frozenset({"true", "1", "on", "yes"})


def read_wanted(
    method: bytes,
    target: bytes,
    headers: Sequence[tuple[bytes, bytes]],
    body: Text,
    large: LargeBody | None = None,
) -> Ask | Fault:
    """Return what a request asks for, its model empty when it names none and is of no POST."""
    if body.startswith(b"{"):
        ask = read_ask(body, large)
        return ask if ask is not MISSING else _elsewhere(target, headers, MISSING)
    content_type = _value(headers, b"content-type")
    if is_form(content_type):
        return _of_form(content_type, target, headers, body, large)
    if not body and not content_type:
        is_bare = method in _BODILESS
        return _elsewhere(target, headers, Ask("", streams=False) if is_bare else read_ask(body))
    if content_type.lower().startswith(_MEDIA):
        return _elsewhere(target, headers, MISSING)
    return read_ask(body, large)


def _of_form(
    content_type: bytes,
    target: bytes,
    headers: Sequence[tuple[bytes, bytes]],
    body: Text,
    large: LargeBody | None,
) -> Ask | Fault:
    boundaries = large.boundaries if large is not None else None
    fields = read_fields(content_type, body, ("model", "stream"), boundaries)
    if isinstance(fields, Fault):
        return fields
    streams = fields.get("stream", "").strip().lower() in _STREAMING
    if "model" not in fields:
        return _elsewhere(target, headers, MISSING)
    return _named(fields["model"], "field 'model'", streams=streams)


def _elsewhere(
    target: bytes, headers: Sequence[tuple[bytes, bytes]], otherwise: Ask | Fault
) -> Ask | Fault:
    """Return what header or query name, which must not differ."""
    named = [_text(value) for name, value in headers if name == HEADER]
    query = target.partition(b"?")[2]
    try:
        pairs = parse_qsl(
            query.decode("latin-1"), keep_blank_values=True, max_num_fields=_FIELDS_MAX
        )
    except ValueError:
        return Fault(kind=FaultKind.BAD_REQUEST, message="The query has too many fields.")
    named += [value for name, value in pairs if name == PARAMETER]
    if not named:
        return otherwise
    if len(set(named)) > 1:
        message = "The header x-otela-model and the query name different models."
        return Fault(kind=FaultKind.BAD_REQUEST, message=message, param="model")
    return _named(named[0], "name of the model", streams=False)


def _named(model: str, what: str, *, streams: bool) -> Ask | Fault:
    if model and len(model) <= MODEL_CHARS_MAX:
        return Ask(model, streams)
    wrong = f"has more than {MODEL_CHARS_MAX} characters" if model else "is empty"
    return Fault(kind=FaultKind.BAD_REQUEST, message=f"The {what} {wrong}.", param="model")


def _value(headers: Sequence[tuple[bytes, bytes]], wanted: bytes) -> bytes:
    return next((value for name, value in headers if name == wanted), b"")


def _text(value: bytes) -> str:
    """Return a header's text: UTF-8, as names of models are told everywhere else."""
    return value.strip().decode(errors="replace")
