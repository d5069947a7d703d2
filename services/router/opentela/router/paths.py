"""Which paths of an engine are for consumers, and which of them only compute.

Engines also serve what their operator alone may touch (`/sleep`, `/flush_cache`, …), and what all
their users would share (`/v1/files`, …). Outside of the API's own prefixes only what is listed is
forwarded; beneath them everything is but for names that speak of either. Nothing with an encoded
character or a step up is forwarded by a prefix: an engine could read another path in it.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec


class EnginePath(msgspec.Struct, frozen=True, kw_only=True):
    """What the router must know of a path.

    Attributes:
        only_computes: Doing it twice changes nothing but the cost, so that an attempt which may
            have begun is tried again elsewhere.
        ends_with_done: Its streams end with `data: [DONE]`; without one they were cut off.
        has_body: Its answers are more than their heads.
    """

    only_computes: bool = True
    ends_with_done: bool = False
    has_body: bool = True


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
    b"/v1/audio/speech": _COMPUTES,
    b"/v1/audio/transcriptions": _COMPUTES,
    b"/v1/audio/translations": _COMPUTES,
    b"/v1/images/edits": _COMPUTES,
    b"/v1/images/generations": _COMPUTES,
    b"/v1/images/variations": _COMPUTES,
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
"""Paths by which one posts."""

BY_METHOD: Final[Mapping[bytes, EnginePath]] = {
    b"POST": _STORES,
    b"GET": _COMPUTES,
    b"HEAD": EnginePath(has_body=False),
    b"PUT": _STORES,
    b"PATCH": _STORES,
    b"DELETE": _STORES,
}
"""What is forwarded of a path of which nothing is known."""

_SIMPLE: Final = re.compile(rb"(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9_~:@=+,.-]{1,256}){1,16}")
_OF_OPERATORS: Final = re.compile(
    rb"/(?:abort|admin|collective|debug|destroy|flush|health|init|internal|is|load|loads|lora|"
    rb"metrics|pause|profile|release|reset|resume|scale|server|set|shutdown|sleep|start|stop|"
    rb"unload|update|wake)(?:[_/-]|$)",
    re.IGNORECASE,
)
"""Names by their first word: what administers engines is called so throughout."""
_SHARED: Final = re.compile(
    rb"/(?:assistants|batches|containers|conversations|evals|files|fine_tuning|fine-tuning|"
    rb"organization|threads|uploads|vector_stores)(?:/|$)",
    re.IGNORECASE,
)
"""Collections that an engine keeps for all its users in common: one could read another's."""
_OURS: Final = re.compile(rb"/v1/models(?:/|$)", re.IGNORECASE)


class Paths:
    """Every path that is forwarded."""

    def __init__(self, extra: Sequence[str], prefixes: Sequence[str]) -> None:
        self._exact = {**{path.encode(): _STORES for path in extra}, **KNOWN}
        self._prefixes = tuple(prefix.encode() for prefix in prefixes)

    def get(self, path: bytes) -> EnginePath | None:
        """Return what is known of *path* for who posts there; None when it is not forwarded."""
        return self._exact.get(path) or (_STORES if self._is_open(path) else None)

    def find(self, method: bytes, path: bytes) -> EnginePath | None:
        """Return what is known of a request; None when it is not forwarded."""
        if method == b"POST":
            return self.get(path)
        return BY_METHOD.get(method) if path not in KNOWN and self.get(path) else None

    def methods(self, path: bytes) -> tuple[bytes, ...]:
        """Return the methods that are forwarded."""
        return tuple(method for method in BY_METHOD if self.find(method, path))

    def _is_open(self, path: bytes) -> bool:
        return (
            path.startswith(self._prefixes)
            and _SIMPLE.fullmatch(path) is not None
            and not (_OF_OPERATORS.search(path) or _SHARED.search(path) or _OURS.match(path))
        )
