"""Lifecycle events for programs.

    from opentela import events

    async for event in events.subscribe("tool.toml", since=timedelta(hours=1), kinds=("DOWN",)):
        print(event.session, event.reason)

First what the mesh remembers, then what happens, each event once and none left out, over any
number of lost connections. What an event says: `opentela.wire.events.LifecycleEvent`.
"""

from opentela.events.client import subscribe
from opentela.events.follower import Wanted
from opentela.wire.events import Kind, LifecycleEvent

__all__ = ["Kind", "LifecycleEvent", "Wanted", "subscribe"]
