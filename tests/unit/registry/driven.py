"""A registry's machine driven by hand, for the tests beside this file."""

import random
from collections.abc import Callable
from typing import TypeVar

from opentela.registry import messages as m
from opentela.registry.config import PeersConfig, RegistryConfig, RestraintConfig, RetentionConfig
from opentela.registry.machine import RegistryMachine
from opentela.testing.owner import BORN_AT_MS, Owner
from opentela.testing.sim.keys import FakeIdentity, seal, vouch

DAY_MS, HOUR_MS = 86_400_000, 3_600_000
WALL = BORN_AT_MS / 1000
OWN_CUT_MS = BORN_AT_MS - DAY_MS - HOUR_MS
"""Up to where a registry that starts at `WALL` forgets in its first round."""
CONFIG = RegistryConfig(
    access="",
    restraint=RestraintConfig(doubt_sessions_min=4),
    peers=PeersConfig(gossip_s=1.0, heard_s=5.0, learn_s=3.0),
    retention=RetentionConfig(sweep_s=60.0),
)


class Evenly:
    """Draws the middle: rounds come exactly after `gossip_s`."""

    def random(self) -> float:
        return 0.5

    def randrange(self, stop: int, /) -> int:
        return stop // 2

    def randbytes(self, n: int, /) -> bytes:
        return bytes(n)


class Driven:
    """A machine whose clocks agree, driven by hand."""

    def __init__(self, config: RegistryConfig = CONFIG, name: str = "r1") -> None:
        self.machine = RegistryMachine(seal=seal(name), verify=vouch(), rng=Evenly(), config=config)

    def step(self, now: float, event: m.Event) -> list[m.Action]:
        return self.machine.step(now, WALL + now, event)

    def boot(self) -> "Driven":
        """Let it find no peer and listen, until 3 s."""
        self.step(0.0, m.Tick())
        self.step(0.0, m.PageFailed())
        self.run(3.0)
        return self

    def run(
        self,
        until: float,
        *,
        each: Callable[[m.Action], m.Event | None] = lambda _action: None,
    ) -> list[m.Action]:
        """Tick whenever it asks to, feed what *each* action causes, return all actions."""
        done: list[m.Action] = []
        while (now := self.machine.next_deadline()) <= until:
            actions = self.step(now, m.Tick())
            while actions:
                done.append(action := actions.pop(0))
                caused = each(action)
                actions += self.step(now, caused) if caused is not None else []
        return done

    def join(self, owner: Owner, now: float) -> list[m.Action]:
        return self.step(now, m.DeltaHeard(path=owner.path, signed=owner.signed))


def nobody_answers(action: m.Action) -> m.Event | None:
    """The mesh says "no responders" to every probe."""
    if not isinstance(action, m.PublishProbe):
        return None
    return m.ProbeRefused(provider=action.path.provider, session=action.path.session)


def crowd(count: int) -> list[Owner]:
    rng = random.Random(3)
    return [Owner(FakeIdentity(rng), number=number) for number in range(count)]


KindT = TypeVar("KindT")


def only(kind: type[KindT], actions: list[m.Action]) -> list[KindT]:
    return [action for action in actions if isinstance(action, kind)]
