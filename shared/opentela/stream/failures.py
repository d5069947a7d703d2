"""Every failure of a stream says two things that decide what the router does next.

*definite*: the engine surely did not begin. That is mostly a fact of the moment, not of the kind:
as long as the engine lacks a byte of the request it cannot have begun, whatever went wrong.
*retryable*: another session may do better. That is a property of the kind, and stands here.
"""

from typing import Final

from opentela.wire.frames import Fail, FailKind

RETRYABLE: Final[dict[FailKind, bool]] = {
    FailKind.REFUSED: True,
    FailKind.ENGINE_UNREACHABLE: True,
    FailKind.ENGINE_LOST: True,
    FailKind.ENGINE_PROTOCOL: True,
    FailKind.TOO_LARGE: False,  # limits are alike; the client must send less
    FailKind.DEADLINE: False,  # no time is left for another
    FailKind.CANCELLED: False,  # nobody waits any more
    FailKind.PROTOCOL: True,
    FailKind.NO_RESPONDERS: True,
    FailKind.UNACKNOWLEDGED: True,
    FailKind.SILENT: True,
    FailKind.CHANNEL_LOST: True,  # also the same session, over the mesh
    FailKind.MESH_LOST: True,
    FailKind.UNKNOWN: False,
}

NEVER_BEGUN: Final = frozenset((FailKind.REFUSED, FailKind.ENGINE_UNREACHABLE, FailKind.TOO_LARGE))
"""Kinds that come before the engine has anything."""


def failure(stream: int, kind: FailKind, message: str = "", *, may_have_begun: bool) -> Fail:
    """Return the failure of *stream* with both marks set.

    *may_have_begun* says whether the engine may have had the whole request.
    """
    is_definite = not may_have_begun or kind in NEVER_BEGUN
    return Fail(stream, kind, is_definite, RETRYABLE[kind], message)
