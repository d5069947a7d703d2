"""One record a finished request, from routers to whoever keeps the books.

No text of a prompt or an answer is in it. As msgpack; unknown fields are ignored.
"""

from typing import Final

import msgspec

from opentela.core.errors import WireError
from opentela.core.ids import ProviderId, SessionId, SiteId


class UsageRecord(msgspec.Struct, frozen=True, kw_only=True):
    """`otela.v1.usage`: what a request took and how it ended.

    Attributes:
        id: Made by the router for this request alone: readers drop what they have seen.
        request: The id that the client saw, which may be of its own making.
        at_ms: Unix milliseconds of the end.
        model: The name that was asked for.
        session: That answered, or was tried last; empty when none was, as are provider and site.
        path: Of the API, such as `/v1/chat/completions`.
        status: HTTP status that the client got; 0 when it left before.
        outcome: `ok`, `incomplete`, `rejected`, `engine_error`, `failed`, `broken`, `cancelled`.
        attempts: Sessions that were tried.
        streamed: The answer was a stream of events.
        tokens_in: Prompt tokens as the engine counted them; 0 when it did not say.
        tokens_cached: Those of them that a prefix cache held.
        tokens_out: Tokens of the answer, as the engine counted them. Of a stream that ended before
            it did, or was not asked to, the parts that came: at least as many tokens.
        ttft_s: To the first event of a stream; negative when there was none.
        duration_s: From the whole request to the end of the answer.
    """

    id: str
    request: str
    at_ms: int
    router: str
    model: str
    session: SessionId = SessionId("")
    provider: ProviderId = ProviderId("")
    site: SiteId = SiteId("")
    path: str
    status: int
    outcome: str
    attempts: int
    streamed: bool = False
    tokens_in: int = 0
    tokens_cached: int = 0
    tokens_out: int = 0
    ttft_s: float = -1.0
    duration_s: float


RECORD_BYTES_MAX: Final = 8 * 1024
"""Names are bounded, hence so is a record."""

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(UsageRecord).decode


def encode(record: UsageRecord) -> bytes:
    """Return the bytes of a record."""
    return _encode(record)


def read_usage(payload: bytes) -> UsageRecord:
    """Return the record in *payload*.

    Raises:
        WireError: Too large, or no record of ours.
    """
    if len(payload) > RECORD_BYTES_MAX:
        raise WireError(f"a usage record of {len(payload)} bytes is too large")
    try:
        return _decode(payload)
    except (msgspec.DecodeError, RecursionError) as error:
        raise WireError(str(error)) from error
