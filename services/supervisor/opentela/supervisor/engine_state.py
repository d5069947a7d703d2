"""The life of one engine process: what is absent from the table is a bug.

::

    LAUNCHING ──spawned──▶ LOADING ──served──▶ READY ──left──▶ DRAINING ──ended──▶ STOPPED
        │                     │  └─────left──────────────────────▲              ▲
        └──────────┬──────────┴───────────────ended─────────────────────────────┘

An engine never comes back: the next launch is a new life, offered to the mesh as a new session.
"""

from enum import StrEnum
from typing import Final

from opentela.core.errors import IllegalTransitionError


class EngineState(StrEnum):
    """Where an engine is in its life."""

    LAUNCHING = "launching"  # the process is being started
    LOADING = "loading"  # it runs, but does not serve yet
    READY = "ready"  # it serves, and its offer was read
    DRAINING = "draining"  # on its way out: no new work; how fast depends on the cause
    STOPPED = "stopped"  # no process of it is left


class Signal(StrEnum):
    """What moves an engine through its life."""

    SPAWNED = "spawned"
    SERVED = "served"
    LEFT = "left"
    ENDED = "ended"


TRANSITIONS: Final[dict[EngineState, dict[Signal, EngineState]]] = {
    EngineState.LAUNCHING: {
        Signal.SPAWNED: EngineState.LOADING,
        Signal.LEFT: EngineState.DRAINING,
        Signal.ENDED: EngineState.STOPPED,
    },
    EngineState.LOADING: {
        Signal.SERVED: EngineState.READY,
        Signal.LEFT: EngineState.DRAINING,
        Signal.ENDED: EngineState.STOPPED,
    },
    EngineState.READY: {
        Signal.LEFT: EngineState.DRAINING,
        Signal.ENDED: EngineState.STOPPED,
    },
    EngineState.DRAINING: {
        # Asked to leave while it was being started: the start is heard of afterwards.
        Signal.SPAWNED: EngineState.DRAINING,
        Signal.ENDED: EngineState.STOPPED,
    },
    EngineState.STOPPED: {},
}


def advance(state: EngineState, signal: Signal) -> EngineState:
    """Return the state after *signal*.

    Raises:
        IllegalTransitionError: The table does not know it.
    """
    try:
        return TRANSITIONS[state][signal]
    except KeyError:
        raise IllegalTransitionError(f"an engine {signal} while {state}") from None
