"""A channel that answers keeps its session in use while registries cannot reach it; no longer."""

from tests.unit.router.parts import record, session_of

from opentela.core.ids import SessionId
from opentela.core.record import Lifecycle
from opentela.router.directory import Directory
from opentela.router.vouching import HEARD_WITHIN_S, Vouching
from opentela.wire.subjects import SessionPath

SERVING = record(0)
SUSPECTED = record(0, suspected=1)
SESSION = session_of(0)


class Channels:
    """When channels last brought something."""

    def __init__(self) -> None:
        self.heard_at = 0.0

    def __call__(self, _: SessionPath) -> float:
        """Return it."""
        return self.heard_at


def test_a_suspected_session_is_used_while_its_channel_answers() -> None:
    """What came before the suspicion says nothing; it is dropped again once it is silent."""
    channels = Channels()
    vouching = Vouching(channels)
    directory = Directory()
    directory.vouches_for = vouching.vouches_for

    def found() -> int:
        return len(directory.pool("m").candidates)

    def look(now: float) -> list[SessionId]:
        return directory.apply(vouching.look(now))

    channels.heard_at = 98.9
    vouching.take(98.0, [SERVING])
    assert directory.apply([SERVING]) == []
    vouching.take(99.0, [SUSPECTED])
    assert directory.apply([SUSPECTED]) == [SESSION]
    channels.heard_at = 100.0
    vouching.take(100.0, [SUSPECTED])  # as another registry says
    assert directory.apply([SUSPECTED]) == []
    assert found() == 1
    assert look(100.0 + HEARD_WITHIN_S) == []
    assert look(100.1 + HEARD_WITHIN_S) == [SESSION]
    assert found() == 0
    channels.heard_at = 104.0
    assert look(104.1) == []
    assert found() == 1


def test_nobody_is_vouched_for_without_a_channel() -> None:
    """Then a registry's word stands."""
    vouching = Vouching(Channels())
    vouching.take(1.0, [SUSPECTED])
    assert vouching.has_suspects
    assert not vouching.vouches_for(SESSION)
    assert vouching.look(1.5) == []


def test_a_channel_does_not_outlast_the_end_of_its_session() -> None:
    """What its owner, or registries, have ended is not used, whatever its connection says."""
    channels = Channels()
    channels.heard_at = 10.0
    vouching = Vouching(channels)
    directory = Directory()
    directory.vouches_for = vouching.vouches_for
    for lifecycle in (Lifecycle.DRAINING, Lifecycle.DOWN, Lifecycle.LEFT):
        ended = record(0, lifecycle=lifecycle, suspected=1)
        vouching.take(9.0, [SUSPECTED])
        vouching.look(10.0)
        assert vouching.vouches_for(SESSION)
        vouching.take(10.0, [ended])
        assert not vouching.vouches_for(SESSION)
        directory.apply([ended])
        assert directory.pool("m").candidates == ()


def test_what_was_refuted_is_looked_at_no_more() -> None:
    """The registries reach it again."""
    vouching = Vouching(Channels())
    vouching.take(1.0, [SUSPECTED])
    vouching.take(1.0, [record(0, incarnation=2)])
    assert not vouching.has_suspects
