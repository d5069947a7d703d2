"""Who is there, who is remembered, and what makes a quorum."""

import random

import pytest

from opentela.registry import peers as peers_module
from opentela.registry.config import PeersConfig
from opentela.registry.peers import Peers

CONFIG = PeersConfig(heard_s=5.0, memory_s=100.0, quorum=2)


@pytest.fixture
def peers() -> Peers:
    return Peers(CONFIG)


def test_alone_one_is_a_quorum(peers: Peers) -> None:
    """A mesh of one registry must work."""
    assert (peers.quorum(0.0), peers.away(0.0)) == (1, [])
    assert peers.partner(0.0, random.Random(1)) is None


def test_with_a_peer_it_takes_two(peers: Peers) -> None:
    """And never more than configured, however many there are."""
    for name in ("r2", "r3", "r4"):
        peers.heard(name, 0.0)
        assert peers.quorum(0.0) == 2


def test_an_away_peer_is_remembered_for_a_while(peers: Peers) -> None:
    """Suspicion does without it and can be refuted; eviction waits, because it cannot."""
    peers.heard("r2", 0.0)
    assert (peers.quorum(4.0), peers.away(4.0)) == (2, [])
    assert (peers.quorum(5.0), peers.away(5.0)) == (1, ["r2"])
    assert (peers.quorum(100.0), peers.away(100.0)) == (1, [])
    assert peers.known(100.0) == []


def test_hearing_tells_who_was_away(peers: Peers) -> None:
    """New, or silent for long: a reason to compare at once."""
    assert peers.heard("r2", 0.0)
    assert not peers.heard("r2", 4.0)
    assert peers.heard("r2", 9.0)


def test_who_comes_back_may_know_more_for_a_moment(peers: Peers) -> None:
    """What its side says comes after its own word; a new peer brings no side along."""
    peers.heard("r2", 0.0)
    assert not peers.may_hear_more(4.0)
    assert peers.may_hear_more(5.0)
    peers.heard("r2", 20.0)
    assert peers.may_hear_more(24.9)
    peers.heard("r2", 24.0)
    assert not peers.may_hear_more(25.0)
    peers.heard("r3", 26.0)
    assert not peers.may_hear_more(26.0)


def test_partners_are_drawn_from_who_is_there(peers: Peers) -> None:
    """By the source of randomness that is handed in."""
    peers.heard("gone", 0.0)
    for name in ("r2", "r3"):
        peers.heard(name, 6.0)
    rng = random.Random(1)
    assert {peers.partner(6.0, rng) for _ in range(50)} == {"r2", "r3"}


def test_names_are_bounded(peers: Peers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever invents names fills nothing; who is known is heard on."""
    monkeypatch.setattr(peers_module, "PEERS_MAX", 1)
    assert peers.heard("r2", 0.0)
    assert not peers.heard("r3", 0.0)
    peers.heard("r2", 4.0)
    assert peers.there(8.0) == ["r2"]


def test_a_peer_that_says_farewell_is_forgotten_at_once(peers: Peers) -> None:
    """Nobody waits for it, and it counts for nothing; when it comes back, it is news."""
    peers.heard("r2", 0.0)
    peers.left("r2")
    peers.left("never-heard-of")
    assert (peers.quorum(1.0), peers.away(50.0), peers.known(1.0)) == (1, [], [])
    assert peers.heard("r2", 1.0)


def test_a_quorum_is_of_registries_and_of_sites() -> None:
    """As far as there are such; one site's link is one reason to be silent."""
    peers = Peers(PeersConfig(heard_s=5.0), site="a")
    assert peers.bar(0.0) == (1, 1)
    peers.heard("r2", 0.0, site="a")
    assert peers.bar(0.0) == (2, 1)
    peers.heard("r3", 0.0, site="b")
    assert peers.bar(0.0) == (2, 2)
    peers.heard("r3", 1.0, site="b")
    assert peers.bar(5.5) == (2, 2)
    peers.left("r3")
    assert peers.bar(1.0) == (2, 1)
    assert peers.known(9e9) == []
    assert peers.bar(9e9) == (1, 1)


def test_an_earlier_life_of_a_peer_says_no_farewell(peers: Peers) -> None:
    """It has come back since, as another."""
    peers.heard("r2", 0.0, instance="two")
    peers.left("r2", "one")
    assert peers.there(1.0) == ["r2"]
    peers.left("r2", "two")
    assert peers.there(1.0) == []
