"""What must be read of a request's body; every byte of it is passed on unchanged.

The body is checked strictly where two readers could understand it differently: what is routed by
one reading must not be served under another. Hence `model` or `stream` may stand there only once
(JSON leaves the meaning of a repeated key open, RFC 8259 section 4), however it is spelled.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from opentela.core.pieces import Text, whole
from opentela.router.body_scan import BRACKETS_MAX, BodyScan, says_one_thing
from opentela.router.fault import Fault, FaultKind
from opentela.router.large_body import LargeBody
from opentela.router.members import Member, MembersError, members
from opentela.router.sifting import NESTING_MAX, Body, decode

MODEL_CHARS_MAX: Final = 256
"""No model is named longer; names go into logs and tables."""

_NOT_STREAMING: Final = frozenset({b"", b"false", b"null", b"0"})
_NOT_STRUCTURE: Final = bytes(set(range(256)) - set(b'"{}[]'))


class Ask(msgspec.Struct, frozen=True):
    """What a body asks for.

    Attributes:
        otela: What it says to the router alone, as JSON; empty when it says nothing.
        members: Where its fields are; None when nobody knows.
    """

    model: str
    streams: bool
    otela: bytes = b""
    members: Sequence[Member] | None = None


MISSING: Final = Fault(
    kind=FaultKind.BAD_REQUEST, message="The field 'model' is missing.", param="model"
)
"""Where a body could say it."""


def read_ask(body: Text, large: LargeBody | None = None) -> Ask | Fault:
    """Return what *body* asks for, or the 400 that names what is wrong with it.

    Args:
        body: All of it.
        large: What was read while it came, if it is large.
    """
    try:
        if large is not None and (sifted := large.read()) is not None:
            return _ill_named(sifted.model) or _ask(sifted, large.members)
        body = whole(body)
        read = decode(body)
    except msgspec.ValidationError as error:
        return _misfit(str(error))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return _bad(f"The body is not JSON: {error}.")
    except RecursionError:
        return _too_deep()
    fault = _ill_named(read.model)
    if fault is None and not says_one_thing(body):
        fault = _ambiguous(body, BodyScan(body))
    if fault is not None:
        return fault
    ask = _ask(read)
    return (_repeated(body) if ask.otela else None) or ask


def _ask(read: Body, found: Sequence[Member] | None = None) -> Ask:
    assert read.model is not msgspec.UNSET
    return Ask(read.model, bytes(read.stream) not in _NOT_STREAMING, bytes(read.otela), found)


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
    return _repeated(body) if scan.may_repeat else None


def _misfit(complaint: str) -> Fault:
    if "$.model" in complaint:
        return _bad("The field 'model' must be a string.", "model")
    return _bad("The body must be a JSON object with a field 'model'.")


def _bad(message: str, param: str | None = None) -> Fault:
    return Fault(kind=FaultKind.BAD_REQUEST, message=message, param=param)


def _too_deep() -> Fault:
    return _bad(f"The body is nested deeper than {NESTING_MAX} levels.")


def _repeated(body: bytes) -> Fault | None:
    """Return the fault of a body in which a key occurs more than once."""
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
