"""Knobs of a view; embedded in the configuration of who holds one."""

from typing import Annotated

import msgspec
from msgspec import Meta

from opentela.core.session_map import SESSIONS_PER_PROVIDER

Seconds = Annotated[float, Meta(gt=0)]


class ViewConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a view keeps up with the registries.

    Attributes:
        repair_s: Seconds between comparisons with a registry. What a lost delta costs at most, and
            some 300 bytes each. Below 5 s, so that views agree within 5 s of a healed partition.
        retry_s: Seconds until an unanswered question is asked again, while booting and after.
        ask_timeout_s: Seconds to wait for an answer; above any round trip of the mesh.
        sessions_per_provider: As the registries have it: beyond it, no owner is heard directly.
        quorum: Registries that must agree on what is held against a session, as the registries have
            it; capped at those that were heard within `registries_s`, so that the last one is
            believed alone.
        registries_s: Seconds for which a registry counts after its last sign of life; some rounds
            of theirs.
    """

    repair_s: Seconds = 2.0
    retry_s: Seconds = 0.5
    ask_timeout_s: Seconds = 2.0
    sessions_per_provider: Annotated[int, Meta(ge=1)] = SESSIONS_PER_PROVIDER
    quorum: Annotated[int, Meta(ge=1)] = 2
    registries_s: Seconds = 5.0
