"""The life of an engine follows its table."""

from itertools import product

import pytest

from opentela.core.errors import IllegalTransitionError
from opentela.supervisor.engine_state import TRANSITIONS, EngineState, Signal, advance


def test_an_engine_lives_from_launch_to_stop() -> None:
    """The ordinary life: started, loaded, served, drained, ended."""
    state = EngineState.LAUNCHING
    seen = []
    for signal in (Signal.SPAWNED, Signal.SERVED, Signal.LEFT, Signal.ENDED):
        state = advance(state, signal)
        seen.append(state)
    assert seen == [
        EngineState.LOADING,
        EngineState.READY,
        EngineState.DRAINING,
        EngineState.STOPPED,
    ]


def test_every_state_has_a_row_and_ends_when_the_process_ends() -> None:
    """A process can die at any time; only the dead do not."""
    assert set(TRANSITIONS) == set(EngineState)
    for state in EngineState:
        ends = Signal.ENDED in TRANSITIONS[state]
        assert ends is (state is not EngineState.STOPPED)


@pytest.mark.parametrize(("state", "signal"), list(product(EngineState, Signal)))
def test_what_is_absent_from_the_table_is_a_bug(state: EngineState, signal: Signal) -> None:
    """A missing key never moves anything."""
    if signal in TRANSITIONS[state]:
        assert advance(state, signal) is TRANSITIONS[state][signal]
    else:
        with pytest.raises(IllegalTransitionError, match=f"{signal} while {state}"):
            advance(state, signal)
