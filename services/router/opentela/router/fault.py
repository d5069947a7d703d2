"""What went wrong, as an OpenAI client is told it: one table, nowhere else decided.

Envelope: https://platform.openai.com/docs/guides/error-codes. Every answer of this router that is
no engine's answer is made here, also the event that ends a stream which broke after it began.
"""

import math
from enum import Enum
from typing import Final, NamedTuple

import msgspec

from opentela.wire.frames import Fail, FailKind


class _Row(NamedTuple):
    status: int
    type: str
    code: str


class FaultKind(Enum):
    """Every fault that a client can meet, with its HTTP status, type and code."""

    BAD_REQUEST = _Row(400, "invalid_request_error", "invalid_value")
    UNKNOWN_URL = _Row(404, "invalid_request_error", "unknown_url")
    MODEL_NOT_FOUND = _Row(404, "invalid_request_error", "model_not_found")
    METHOD_NOT_ALLOWED = _Row(405, "invalid_request_error", "method_not_allowed")
    REQUEST_TIMEOUT = _Row(408, "invalid_request_error", "request_timeout")
    BODY_TOO_LARGE = _Row(413, "invalid_request_error", "request_too_large")
    BUSY = _Row(429, "rate_limit_error", "router_busy")
    HEAD_TOO_LARGE = _Row(431, "invalid_request_error", "headers_too_large")
    INTERNAL = _Row(500, "server_error", "internal_error")
    ENGINE_ERROR = _Row(502, "server_error", "engine_error")
    ENGINE_FAILED = _Row(502, "server_error", "engine_failed")
    NO_LIVE_SESSION = _Row(503, "server_error", "model_unavailable")
    MODEL_LOADING = _Row(503, "server_error", "model_loading")
    MODEL_BUSY = _Row(503, "server_error", "model_busy")
    NO_MATCHING_SESSION = _Row(503, "server_error", "no_matching_session")
    SESSION_REFUSED = _Row(503, "server_error", "session_refused")
    ENGINE_TIMEOUT = _Row(504, "server_error", "engine_timeout")


RETRY_AFTER_S: Final = 2
"""What 429 and 503 advise: a session that starts or a registry's verdict takes about as long."""

RETRY_MAX_S: Final = 600
"""Nobody knows what will be in more than ten minutes."""
_RETRY_LATER: Final = frozenset({429, 503})


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One fault as told to one client.

    Attributes:
        message: For people; says what to change where that is known.
        param: The field of the request that is at fault.
        status: Instead of the kind's own, where an engine's status class is passed on.
        retry_s: Seconds after which trying again is worth it, where that is known.
    """

    kind: FaultKind
    message: str
    param: str | None = None
    status: int = 0
    retry_s: float = 0.0

    @property
    def http_status(self) -> int:
        """The status of the answer."""
        return self.status or self.kind.value.status

    @property
    def retry_after_s(self) -> int:
        """Seconds for `Retry-After`; 0 when trying again does not help."""
        if self.http_status not in _RETRY_LATER:
            return 0
        return min(max(math.ceil(self.retry_s), 1), RETRY_MAX_S) if self.retry_s else RETRY_AFTER_S


INTERNAL: Final = Fault(
    kind=FaultKind.INTERNAL, message="The router failed on this request; its log says why."
)
TOO_MANY: Final = Fault(
    kind=FaultKind.BUSY, message="The router has too many requests in progress."
)

_FAILED: Final[dict[FailKind, tuple[FaultKind, str]]] = {
    FailKind.REFUSED: (FaultKind.SESSION_REFUSED, "the session takes no new requests"),
    FailKind.NO_RESPONDERS: (FaultKind.NO_LIVE_SESSION, "the session left the mesh"),
    FailKind.UNACKNOWLEDGED: (FaultKind.ENGINE_FAILED, "the session does not answer"),
    FailKind.CHANNEL_LOST: (FaultKind.ENGINE_FAILED, "the connection to the session broke"),
    FailKind.MESH_LOST: (FaultKind.NO_LIVE_SESSION, "the router lost the mesh"),
    FailKind.ENGINE_UNREACHABLE: (FaultKind.ENGINE_FAILED, "the engine cannot be reached"),
    FailKind.ENGINE_LOST: (FaultKind.ENGINE_FAILED, "the engine's connection broke"),
    FailKind.ENGINE_PROTOCOL: (FaultKind.ENGINE_FAILED, "the engine's answer is not HTTP"),
    FailKind.TOO_LARGE: (FaultKind.BODY_TOO_LARGE, "the body exceeds the limit of the session"),
    FailKind.DEADLINE: (FaultKind.ENGINE_TIMEOUT, "the deadline of the request passed"),
    FailKind.SILENT: (FaultKind.ENGINE_TIMEOUT, "the session went silent"),
}


def of_fail(fail: Fail) -> Fault:
    """Return what a failed stream means to the client if nothing else helps."""
    kind, message = _FAILED.get(fail.kind, (FaultKind.ENGINE_FAILED, "the session failed"))
    return Fault(kind=kind, message=message)


def no_such_model(model: str) -> Fault:
    """Return the fault of a name that nobody was ever seen to offer."""
    return Fault(
        kind=FaultKind.MODEL_NOT_FOUND,
        message=f"The model {model[:128]!r} does not exist; GET /v1/models lists what does.",
        param="model",
    )


def envelope(fault: Fault) -> bytes:
    """Return the JSON body of the answer."""
    return _encode(_told(fault))


def sse_event(fault: Fault) -> bytes:
    """Return the event that ends a stream after bytes of it were sent."""
    return b"data: %b\n\n" % _encode(_told(fault))


class _Error(msgspec.Struct, frozen=True):
    message: str
    type: str
    param: str | None
    code: str


class _Envelope(msgspec.Struct, frozen=True):
    error: _Error


_encode: Final = msgspec.json.Encoder().encode


def _told(fault: Fault) -> _Envelope:
    row = fault.kind.value
    return _Envelope(_Error(fault.message, row.type, fault.param, row.code))
