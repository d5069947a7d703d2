"""Agents of a replay keep to the contract: once each command, no GPU twice, all takes its time."""

import itertools

from opentela.core.record import Lifecycle, claim_of, lifecycle_of
from opentela.placer.problem import Group, Pool
from opentela.placer.replay.fleet import Change
from opentela.placer.replay.stand import TEMPLATE, Stand, Times
from opentela.wire import command
from opentela.wire.command import Look, Start, Stop

POOL = Pool(name="h", gpu="h100-80g-sxm", nodes=1, gpus_per_node=2)
ONE, BOTH = Group("m", "h", 1), Group("m", "h", 2)


def stand() -> Stand:
    """Return an agent that loads in a minute and drains in ten seconds."""
    return Stand(1, POOL, Times({ONE: 60.0, BOTH: 60.0}, 10.0))


def start(name: str, tp: int = 1, model: str = "m") -> Start:
    return Start(command=name, term=1, template=TEMPLATE, model=model, tp=tp)


def states(one: Stand, now: float) -> list[str]:
    return [replica.state for replica in one.take(now, Look()).replicas]


def test_it_says_what_it_has_and_takes_what_fits() -> None:
    """A repeated command is answered as before, and done once."""
    one = stand()
    told = one.take(0.0, Look(term=3))
    assert (told.hardware, len(told.gpus), told.templates) == (POOL.gpu, 2, (TEMPLATE,))
    assert told.term == 3
    assert claim_of(one.record).offer.engine == command.ENGINE
    assert one.take(0.0, start("a")).accepted
    assert one.take(0.0, start("a")).accepted
    crowded = one.take(0.0, start("b", tp=2))
    assert (crowded.accepted, crowded.reason) == (False, "no room")
    unknown = one.take(0.0, start("c", model="other"))
    assert "how long it loads" in unknown.reason
    assert one.changes == [Change(ONE, 60.0, 0.0, 1)]


def test_a_replica_loads_serves_and_drains() -> None:
    """Its engine is a session while it serves, and its GPU is free after the drain."""
    one, numbers = stand(), itertools.count(2)
    one.take(0.0, start("a"))
    assert list(one.turn(50.0, lambda: next(numbers))) == []
    assert list(one.serving(59.0)) == []
    (serves,) = one.turn(60.0, lambda: next(numbers))
    claim = claim_of(serves)
    assert claim.offer.labels[command.COMMAND] == "a"
    assert [model.name for model in claim.offer.models] == ["m"]
    assert list(one.serving(60.0)) == [ONE]
    one.take(100.0, Stop(command="s", term=1, start="a"))
    assert one.changes[-1] == Change(ONE, 100.0, 110.0, -1)
    assert list(one.serving(100.0)) == []
    (left,) = one.turn(105.0, lambda: next(numbers))
    assert lifecycle_of(left) is Lifecycle.LEFT
    assert (states(one, 105.0), one.has_room(BOTH, 105.0)) == (["draining"], False)
    assert one.has_room(BOTH, 110.0)
    assert list(one.turn(110.0, lambda: next(numbers))) == []
    assert states(one, 110.0) == ["stopped"]
    list(one.turn(120.0, lambda: next(numbers)))
    assert states(one, 120.0) == []


def test_one_that_is_stopped_while_it_loads_never_serves() -> None:
    """It ceases at the instant at which it would have begun, and no session of it is seen."""
    one = stand()
    one.take(0.0, start("a"))
    one.take(20.0, Stop(command="s", term=1, start="a"))
    assert one.changes[-1] == Change(ONE, 60.0, 30.0, -1)
    assert list(one.turn(70.0, lambda: 2)) == []
    one.take(80.0, Stop(command="t", term=1, start="unknown"))
    assert len(one.changes) == 2


def test_what_runs_from_the_beginning_serves_at_once() -> None:
    """And is no change of the placer's."""
    one = stand()
    one.found(BOTH, 2)
    assert not one.has_room(ONE)
    assert not one.has_room(Group("m", "elsewhere", 1))
    (serves,) = one.turn(0.0, lambda: 3)
    assert claim_of(serves).offer.gpus == 2
    assert one.changes == []
