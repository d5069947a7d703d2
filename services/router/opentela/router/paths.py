"""Which paths of an engine are for consumers, and which of them only compute.

Engines also serve what their operator alone may touch (`/sleep`, `/v1/load_lora_adapter`,
`/flush_cache`, …): what is not listed here or in the configuration is not forwarded.
"""

from collections.abc import Mapping
from typing import Final

import msgspec


class EnginePath(msgspec.Struct, frozen=True, kw_only=True):
    """What the router must know of a path.

    Attributes:
        only_computes: Doing it twice changes nothing but the cost, so that an attempt which may
            have begun is tried again elsewhere.
        ends_with_done: Its streams end with `data: [DONE]`; without one they were cut off.
    """

    only_computes: bool = True
    ends_with_done: bool = False


_COMPLETIONS: Final = EnginePath(ends_with_done=True)
_COMPUTES: Final = EnginePath()
_STORES: Final = EnginePath(only_computes=False)

KNOWN: Final[Mapping[bytes, EnginePath]] = {
    b"/v1/chat/completions": _COMPLETIONS,
    b"/v1/completions": _COMPLETIONS,
    b"/v1/embeddings": _COMPUTES,
    b"/v1/messages": _COMPUTES,
    b"/v1/messages/count_tokens": _COMPUTES,
    b"/v1/moderations": _COMPUTES,
    b"/v1/rerank": _COMPUTES,
    b"/v1/score": _COMPUTES,
    b"/v2/rerank": _COMPUTES,
    b"/classify": _COMPUTES,
    b"/detokenize": _COMPUTES,
    b"/pooling": _COMPUTES,
    b"/rerank": _COMPUTES,
    b"/score": _COMPUTES,
    b"/tokenize": _COMPUTES,
    # An engine may store a response under an id of its own.
    b"/v1/responses": _STORES,
}


def forwarded(extra: tuple[str, ...]) -> Mapping[bytes, EnginePath]:
    """Return every path that is forwarded; *extra* ones are never taken to only compute."""
    return {**{path.encode(): _STORES for path in extra}, **KNOWN}
