"""The digest: equal maps have equal sums, and a difference shows on its path only."""

import random

import msgspec
import pytest

from opentela.core.digest import (
    DEPTH,
    FANOUT,
    DigestTrie,
    is_prefix,
    path_of,
    record_hash,
    sums_below,
)
from opentela.core.ids import SessionId
from opentela.core.record import SessionRecord
from opentela.testing.owner import Owner
from opentela.testing.sim.keys import FakeIdentity, said


def _some(count: int, seed: int = 1) -> dict[SessionId, int]:
    rng = random.Random(seed)
    return {SessionId(f"{rng.getrandbits(80):026d}"): rng.getrandbits(64) for _ in range(count)}


def test_the_order_of_entries_does_not_matter() -> None:
    """Two peers that learned the same in other orders agree."""
    hashes = _some(200)
    forth, back = DigestTrie(), DigestTrie()
    for session in hashes:
        forth.put(session, hashes[session])
    for session in reversed(hashes):
        back.put(session, 1)
        back.put(session, hashes[session])
    assert forth.children(b"") == back.children(b"")
    assert forth.hashes() == back.hashes() == hashes
    assert forth.count() == 200


def test_what_is_removed_leaves_no_trace() -> None:
    """A digest of nothing is that of a new trie."""
    trie = DigestTrie()
    for session, value in _some(50).items():
        trie.put(session, value)
        trie.put(session, 0)
    trie.put(SessionId("never"), 0)
    assert trie.children(b"") == (0,) * FANOUT
    assert (trie.count(), trie.sum(), trie.hashes()) == (0, 0, {})


def test_a_difference_shows_only_on_its_path() -> None:
    """One child differs at each level, down to the bucket that names it."""
    hashes = _some(300)
    mine, theirs = DigestTrie(), DigestTrie()
    for session, value in hashes.items():
        mine.put(session, value)
        theirs.put(session, value)
    odd = next(iter(hashes))
    theirs.put(odd, 42)
    for level in range(DEPTH):
        prefix = path_of(odd)[:level]
        pairs = zip(mine.children(prefix), theirs.children(prefix), strict=True)
        differing = [step for step, (one, other) in enumerate(pairs) if one != other]
        assert differing == [path_of(odd)[level]]
    assert theirs.hashes(path_of(odd))[odd] == 42


def test_sums_of_named_sessions_are_those_of_a_trie() -> None:
    """An asker that names its few sessions is compared as if it had sent a digest."""
    trie = DigestTrie()
    for session, value in _some(100).items():
        trie.put(session, value)
    prefix = b"\x03"
    assert sums_below(prefix, trie.hashes(prefix)) == trie.children(prefix)


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [(b"", True), (b"\x0f" * DEPTH, True), (b"\x10", False), (b"\x00" * (DEPTH + 1), False)],
)
def test_a_prefix_is_a_path_within_the_trie(prefix: bytes, expected: bool) -> None:  # noqa: FBT001
    """Peers may send anything."""
    assert is_prefix(prefix) is expected


def test_everything_in_a_record_counts() -> None:
    """Two records with one hash are one record; 0 is never a hash."""
    owner = Owner(FakeIdentity(random.Random(1)))
    plain = owner.record
    others = [
        SessionRecord(signed=owner.signed, ending=said(owner.claim, "a", ended_at_ms=1)),
        SessionRecord(signed=owner.signed, ending=said(owner.claim, "a", ended_at_ms=2)),
        SessionRecord(signed=owner.signed, witnesses=said(owner.claim, "a")),
        SessionRecord(signed=owner.signed, witnesses=said(owner.claim, "a", quorum=2)),
        SessionRecord(signed=owner.signed, witnesses=said(owner.claim, "a", "b")),
        SessionRecord(signed=owner.say()),
    ]
    assert len({record_hash(record) for record in [plain, *others]}) == 7
    assert record_hash(plain) == record_hash(msgspec.structs.replace(plain)) != 0
