"""One registry's sessions, driven by hand, for the tests beside this file."""

import random

from opentela.core.record import (
    SessionRecord,
)
from opentela.registry.config import DetectorConfig, PeersConfig, RegistryConfig, RestraintConfig
from opentela.registry.messages import (
    Action,
    PublishEvent,
    PublishProbe,
    PublishVerdict,
)
from opentela.registry.peers import Peers
from opentela.registry.sessions import Moment, Sessions
from opentela.testing.owner import BORN_AT_MS, Owner
from opentela.testing.sim.keys import FakeIdentity, seal, vouch
from opentela.wire.control import Beat, Probe, Verdict

CONFIG = RegistryConfig(
    access="",
    detector=DetectorConfig(grace_s=45.0),
    restraint=RestraintConfig(doubt_sessions_min=4, evictions_min=2),
    peers=PeersConfig(quorum=2),
)


def at(now: float) -> Moment:
    """Return a moment *now* seconds after the birth of the owners."""
    return Moment(now, BORN_AT_MS / 1000 + now)


class Registry:
    """Sessions of a registry `r1`, settled, and its peers."""

    def __init__(self, config: RegistryConfig = CONFIG) -> None:
        self.peers = Peers(config.peers)
        self.sessions = Sessions(seal=seal("r1"), verify=vouch(), config=config, peers=self.peers)
        self.sessions.is_settled = True

    def join(self, owner: Owner, now: float = 0.0) -> list[Action]:
        return self.sessions.claimed(at(now), owner.path, owner.signed)

    def beat(self, owner: Owner, now: float) -> list[Action]:
        return self.sessions.beaten(at(now), owner.path, Beat(incarnation=owner.claim.incarnation))

    def fail(self, owner: Owner, now: float) -> list[Action]:
        """Let the session be late, probed and found gone."""
        self.sessions.detect(at(now))
        self.sessions.refused(at(now), owner.path.provider, owner.path.session)
        return self.sessions.detect(at(now))

    def record(self, owner: Owner) -> SessionRecord:
        return self.sessions.held.records[owner.claim.session]


def crowd(count: int) -> list[Owner]:
    rng = random.Random(3)
    return [Owner(FakeIdentity(rng), number=number) for number in range(count)]


def told(actions: list[Action]) -> list[str]:
    """Return the kinds of the events among *actions*."""
    return [action.event.kind for action in actions if isinstance(action, PublishEvent)]


def verdicts(actions: list[Action]) -> list[Verdict]:
    return [action.verdict for action in actions if isinstance(action, PublishVerdict)]


def probes(actions: list[Action]) -> list[Probe]:
    return [action.probe for action in actions if isinstance(action, PublishProbe)]
