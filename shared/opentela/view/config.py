"""Knobs of a view; embedded in the configuration of who holds one."""

from typing import Annotated

import msgspec
from msgspec import Meta

from opentela.core.session_map import SESSIONS_PER_PROVIDER

Seconds = Annotated[float, Meta(gt=0)]


class ViewConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a view keeps up with the registries.

    Attributes:
        repair_s: Seconds between comparisons with a registry, some 300 bytes each: how long a lost
            delta may go unnoticed. Must be below 5 s for views to agree within 5 s of a healed
            partition.
        retry_s: Seconds until an unanswered question is repeated, while booting and afterwards.
        ask_timeout_s: Seconds to wait for an answer; must be above any round trip of the mesh.
        sessions_per_provider: Sessions of one provider that are believed from their owners
            directly; set it as for the registries.
        quorum: Registries that must agree on what is held against a session; set it as for the
            registries. Capped at the number heard within `registries_s`, so that the last one is
            believed alone.
        registries_s: Seconds for which a registry counts after its last sign of life; some of its
            rounds.
    """

    repair_s: Seconds = 2.0
    retry_s: Seconds = 0.5
    ask_timeout_s: Seconds = 2.0
    sessions_per_provider: Annotated[int, Meta(ge=1)] = SESSIONS_PER_PROVIDER
    quorum: Annotated[int, Meta(ge=1)] = 2
    registries_s: Seconds = 5.0
