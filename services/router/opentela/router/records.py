"""The usage record of a request, from what its attempts became."""

from typing import Final

from opentela.core.ids import ProviderId, SessionId, SiteId
from opentela.router.attempt import Attempts
from opentela.router.attempt_events import Outcome
from opentela.router.chunks import Usage
from opentela.router.policies.base import Call
from opentela.wire.subjects import SessionPath
from opentela.wire.usage import UsageRecord

NO_USAGE: Final = Usage()
_NOWHERE: Final = SessionPath(ProviderId(""), SiteId(""), SessionId(""))


def usage_of(attempts: Attempts | None) -> Usage:
    """Return the tokens of the answer, as far as its engine told them."""
    return (attempts and attempts.usage) or NO_USAGE


def record_of(
    call: Call,
    attempts: Attempts | None,
    *,
    id: str,  # noqa: A002 - the field
    router: str,
    path: str,
    status: int,
    outcome: Outcome,
    streamed: bool,
    began_at: float,
    now: float,
    wall: float,
) -> UsageRecord:
    """Return what the books say of a request that has ended *now*.

    *attempts* is None when no session was ever looked for; *began_at* and *now* are monotonic
    seconds, *wall* is Unix time.
    """
    chosen = attempts.candidate if attempts else None
    first_at = attempts.first_at if attempts else None
    usage, path_there = usage_of(attempts), chosen.path if chosen else _NOWHERE
    return UsageRecord(
        id=id,
        request=call.request,
        at_ms=int(wall * 1000),
        router=router,
        model=call.model,
        session=path_there.session,
        provider=path_there.provider,
        site=path_there.site,
        path=path,
        status=status,
        outcome=outcome,
        attempts=len(attempts.tried) if attempts else 0,
        streamed=streamed,
        tokens_in=usage.tokens_in,
        tokens_cached=usage.tokens_cached,
        tokens_out=usage.tokens_out,
        ttft_s=first_at - began_at if first_at is not None else -1.0,
        duration_s=now - began_at,
    )
