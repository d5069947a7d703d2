"""What must be read of a request's body; every byte of it is passed on unchanged.

The body is checked strictly where two readers could understand it differently: what is routed by
one reading must not be served under another. Hence `model` or `stream` may stand there only once
(JSON leaves the meaning of a repeated key open, RFC 8259 section 4), however it is spelled.
"""

from typing import Final

import msgspec

from opentela.router.body_scan import BodyScan
from opentela.router.fault import Fault, FaultKind
from opentela.router.members import MembersError, members

MODEL_CHARS_MAX: Final = 256
"""No model is named longer; names go into logs and tables."""
NESTING_MAX: Final = 128
"""Levels of objects and arrays. Engines parse recursively; schemas of people stay below 30."""
BRACKETS_MAX: Final = 1_000_000
"""In all, within strings too: looking at so many takes a tenth of a second, and source code of ten
megabytes has half as many."""

_NOT_STREAMING: Final = frozenset({b"", b"false", b"null", b"0"})
_NOT_STRUCTURE: Final = bytes(set(range(256)) - set(b'"{}[]'))


class Ask(msgspec.Struct, frozen=True):
    """What a body asks for.

    Attributes:
        otela: What it says to the router alone, as JSON; empty when it says nothing.
    """

    model: str
    streams: bool
    otela: bytes = b""


class _Body(msgspec.Struct):
    model: str | msgspec.UnsetType = msgspec.UNSET
    stream: msgspec.Raw = msgspec.Raw(b"")
    otela: msgspec.Raw = msgspec.Raw(b"")


MISSING: Final = Fault(
    kind=FaultKind.BAD_REQUEST, message="The field 'model' is missing.", param="model"
)
"""Where a body could say it."""

_decode: Final = msgspec.json.Decoder(_Body).decode


def read_ask(body: bytes, scan: BodyScan | None = None) -> Ask | Fault:
    """Return what *body* asks for, or the 400 that names what is wrong with it.

    Args:
        body: All of it.
        scan: What was counted while it came, if it was.
    """
    try:
        read = _decode(body)
    except msgspec.ValidationError as error:
        return _misfit(str(error))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return _bad(f"The body is not JSON: {error}.")
    except RecursionError:
        return _too_deep()
    fault = _ill_named(read.model) or _ambiguous(body, scan or BodyScan(body))
    if fault:
        return fault
    assert read.model is not msgspec.UNSET
    otela = bytes(read.otela)
    if otela and (fault := _repeated(body)):
        return fault
    return Ask(read.model, bytes(read.stream) not in _NOT_STREAMING, otela)


def _ill_named(model: str | msgspec.UnsetType) -> Fault | None:
    if model is msgspec.UNSET or not model:
        return MISSING
    if len(model) > MODEL_CHARS_MAX:
        return _bad(f"The field 'model' has more than {MODEL_CHARS_MAX} characters.", "model")
    return None


def _ambiguous(body: bytes, scan: BodyScan) -> Fault | None:
    # The count bounds the depth, and settles it for nearly every body.
    if scan.brackets > BRACKETS_MAX:
        return _bad(f"The body has more than {BRACKETS_MAX} opening brackets.")
    if scan.brackets > NESTING_MAX and _is_deep(body):
        return _too_deep()
    return _repeated(body) if _may_repeat(scan) else None


def _misfit(complaint: str) -> Fault:
    if "$.model" in complaint:
        return _bad("The field 'model' must be a string.", "model")
    return _bad("The body must be a JSON object with a field 'model'.")


def _bad(message: str, param: str | None = None) -> Fault:
    return Fault(kind=FaultKind.BAD_REQUEST, message=message, param=param)


def _too_deep() -> Fault:
    return _bad(f"The body is nested deeper than {NESTING_MAX} levels.")


def _may_repeat(scan: BodyScan) -> bool:
    return scan.models != 1 or scan.streams > 1 or scan.may_hide


def _repeated(body: bytes) -> Fault | None:
    """Return the fault of a body in which a key stands more than once."""
    try:
        members(body)
    except MembersError as error:
        return _bad(str(error), error.name or None)
    return None


def _is_deep(body: bytes) -> bool:
    """Return whether valid JSON nests too deep: outside of strings, peel off level by level."""
    unescaped = body.replace(b"\\\\", b"").replace(b'\\"', b"").translate(None, _NOT_STRUCTURE)
    # Strings without brackets are empty now; where one ends and the next begins is no matter.
    structure = b"".join(unescaped.replace(b'""', b"").split(b'"')[::2])
    for _ in range(NESTING_MAX):
        if not structure:
            return False
        structure = structure.replace(b"{}", b"").replace(b"[]", b"")
    return bool(structure)
