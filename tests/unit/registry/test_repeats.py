"""Verdicts are said again while they stand, more and more rarely."""

from tests.unit.registry.one import Registry, at, crowd, verdicts

from opentela.core.ids import SessionId
from opentela.core.record import Lifecycle
from opentela.registry.messages import PublishVerdict
from opentela.registry.repeats import AT_ONCE_MAX, Repeats
from opentela.registry.throttle import KEYS_MAX
from opentela.testing.owner import Owner


def _again(registry: Registry, until: int) -> list[int]:
    """Return the rounds, one a second from the next, in which something is said again."""
    said = registry.sessions.repeats
    held = registry.sessions.held
    return [second for second in range(3, until) if said.due(float(second), held)]


def test_a_verdict_is_said_again_some_times(registry: Registry, owner: Owner) -> None:
    """With growing gaps, and then never again: the same word as at first."""
    registry.join(owner)
    (first,) = verdicts(registry.fail(owner, 2.0))
    (again,) = registry.sessions.repeats.due(3.0, registry.sessions.held)
    assert again == PublishVerdict(path=owner.path, verdict=first)
    assert _again(registry, 100) == [5, 9, 17]


def test_what_its_owner_refutes_is_not_said_again(registry: Registry, owner: Owner) -> None:
    """Or the living would be suspected for what is long past."""
    registry.join(owner)
    registry.fail(owner, 2.0)
    owner.say(Lifecycle.SERVING)
    registry.join(owner, 2.5)
    assert _again(registry, 20) == []


def test_a_new_verdict_is_repeated_from_its_own_time(registry: Registry, owner: Owner) -> None:
    """The end of a session is news that may be lost as well."""
    registry.join(owner)
    registry.fail(owner, 2.0)
    (ending,) = verdicts(registry.sessions.conclude(at(60.0)))
    (again,) = registry.sessions.repeats.due(61.0, registry.sessions.held)
    assert again.verdict == ending
    assert again.verdict.ending


def test_what_is_forgotten_is_not_said_again(owner: Owner) -> None:
    """Nor is what somebody else said."""
    other = Registry()
    said = Repeats("r2")
    said.said(owner.claim.session, 0.0)
    assert said.due(1.0, other.sessions.held) == []
    other.join(owner)
    other.fail(owner, 2.0)
    said.said(owner.claim.session, 2.0)
    assert said.due(3.0, other.sessions.held) == []
    assert said.due(100.0, other.sessions.held) == []


def test_many_are_repeated_in_turn(registry: Registry) -> None:
    """When a site dies, its sessions do not all speak of it in one burst."""
    owners = crowd(AT_ONCE_MAX + 3)
    for owner in owners:
        registry.join(owner)
    for owner in owners:
        registry.fail(owner, 2.0)
    said, held = registry.sessions.repeats, registry.sessions.held
    first, second = said.due(3.0, held), said.due(4.0, held)
    assert (len(first), len(second)) == (AT_ONCE_MAX, 3)
    assert {action.path for action in (*first, *second)} == {owner.path for owner in owners}


def test_only_so_many_are_remembered(registry: Registry) -> None:
    """The longest untouched goes first: its verdict is found by a comparison of maps."""
    one, two = crowd(2)
    said = Repeats("r1")
    for owner in (one, two):
        registry.join(owner)
        registry.fail(owner, 2.0)
    said.said(one.claim.session, 2.0)
    for number in range(KEYS_MAX - 1):
        said.said(SessionId(str(number)), 2.0)
    said.said(two.claim.session, 2.0)
    assert [action.path for action in said.due(3.0, registry.sessions.held)] == [two.path]
