"""What a placer hears, and what it then does."""

from typing import TypeAlias

import msgspec

from opentela.core.ids import SessionId
from opentela.core.record import SessionRecord
from opentela.placer.live import lease
from opentela.placer.live.decide import Decided, Question
from opentela.wire.audit import AuditEvent
from opentela.wire.command import Command, Holding
from opentela.wire.subjects import SessionPath
from opentela.wire.usage import UsageRecord


class Tick(msgspec.Struct, frozen=True, kw_only=True):
    """Time has passed."""


class Used(msgspec.Struct, frozen=True, kw_only=True):
    """Requests have ended."""

    records: tuple[UsageRecord, ...]


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """Sessions are new or different; *is_whole* once the map of a registry was taken over."""

    records: tuple[SessionRecord, ...] = ()
    is_whole: bool = False


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """An agent has answered a command of that *epoch* of ours; *provider* is whose answer it is."""

    epoch: int
    provider: str
    agent: SessionId
    holding: Holding


class Elected(msgspec.Struct, frozen=True, kw_only=True):
    """Something happened in the election."""

    event: lease.Event


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """Question *number* was decided."""

    number: int
    decided: Decided


class Leaving(msgspec.Struct, frozen=True, kw_only=True):
    """The process is to end."""


Event: TypeAlias = Tick | Used | Changed | Held | Elected | Planned | Leaving


class Tell(msgspec.Struct, frozen=True, kw_only=True):
    """Send a command to an agent; its answer comes as `Held` of that *epoch*."""

    epoch: int
    path: SessionPath
    command: Command


class AskBucket(msgspec.Struct, frozen=True, kw_only=True):
    """Ask the bucket of leases; its answer comes as `Elected`."""

    action: lease.Action


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Decide; the decision comes as `Planned`."""

    number: int
    question: Question


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """Tell what was decided, done or seen."""

    event: AuditEvent


Action: TypeAlias = Tell | AskBucket | Plan | Audit
