"""A short digest of a large map: a trie of sums over hashes, so that two peers find differences.

A session hangs at the path of its hashed id: `DEPTH` levels of `FANOUT` children. Each bucket
keeps the exclusive or of the record hashes below it, which one changed record updates in `DEPTH`
steps, and which is equal on both sides when (but for one chance in 2**64) the records are.
Comparing one level names the children that differ; descending costs one exchange a level, whatever
the size.
The idea is Merkle's; sums instead of hashes of hashes make it incremental.
"""

import hashlib
from collections.abc import Iterator
from typing import Final

import msgspec

from opentela.core.ids import SessionId
from opentela.core.record import SessionRecord

FANOUT: Final = 16
"""Children a level: 16 sums make a digest of some 150 bytes."""
DEPTH: Final = 4
"""Levels: 65,536 buckets at the bottom, each small enough to list even for a million sessions."""

_HASH_BYTES: Final = 8
_encode: Final = msgspec.msgpack.Encoder().encode


def record_hash(record: SessionRecord) -> int:
    """Return the 64-bit hash of all that *record* says; never 0, which stands for "absent"."""
    signed = record.signed
    parts = (signed.body, signed.signature, record.witnesses, record.ending)
    return _hash(_encode(parts)) or 1


def path_of(session: SessionId) -> bytes:
    """Return where a session hangs: one byte a level, each below `FANOUT`."""
    value = _hash(session.encode())
    return bytes(value >> 4 * level & (FANOUT - 1) for level in range(DEPTH))


def is_prefix(prefix: bytes) -> bool:
    """Return whether *prefix* names a bucket."""
    return len(prefix) <= DEPTH and all(step < FANOUT for step in prefix)


def sums_below(prefix: bytes, hashes: dict[SessionId, int]) -> tuple[int, ...]:
    """Return the sum of each child of *prefix* over *hashes*, which all hang below it."""
    sums = [0] * FANOUT
    for session, value in hashes.items():
        sums[path_of(session)[len(prefix)]] ^= value
    return tuple(sums)


class DigestTrie:
    """Record hashes by session, and their sums by bucket."""

    def __init__(self) -> None:
        self._sums: dict[bytes, int] = {}
        self._counts: dict[bytes, int] = {}
        self._bottom: dict[bytes, dict[SessionId, int]] = {}

    def put(self, session: SessionId, value: int) -> None:
        """Set the hash of a session's record; 0 removes it."""
        path = path_of(session)
        bucket = self._bottom.setdefault(path, {})
        before = bucket.pop(session, 0)
        if value:
            bucket[session] = value
        if not bucket:
            del self._bottom[path]
        gained = (value != 0) - (before != 0)
        for level in range(DEPTH + 1):
            self._add(path[:level], before ^ value, gained)

    def sum(self, prefix: bytes = b"") -> int:
        """Return the sum of a bucket; 0 when it is empty."""
        return self._sums.get(prefix, 0)

    def count(self, prefix: bytes = b"") -> int:
        """Return how many sessions hang below *prefix*."""
        return self._counts.get(prefix, 0)

    def children(self, prefix: bytes) -> tuple[int, ...]:
        """Return the sums of the `FANOUT` children of *prefix*."""
        return tuple(self.sum(prefix + bytes((step,))) for step in range(FANOUT))

    def hashes(self, prefix: bytes = b"") -> dict[SessionId, int]:
        """Return every session below *prefix* with its record's hash."""
        return dict(self._below(prefix))

    def _below(self, prefix: bytes) -> Iterator[tuple[SessionId, int]]:
        if len(prefix) == DEPTH:
            yield from self._bottom.get(prefix, {}).items()
            return
        for step in range(FANOUT):
            child = prefix + bytes((step,))
            if child in self._counts:
                yield from self._below(child)

    def _add(self, prefix: bytes, difference: int, gained: int) -> None:
        count = self._counts.get(prefix, 0) + gained
        assert count >= 0, prefix
        if count:
            self._counts[prefix] = count
            self._sums[prefix] = self._sums.get(prefix, 0) ^ difference
        else:
            self._counts.pop(prefix, None)
            self._sums.pop(prefix, None)


def _hash(data: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(data, digest_size=_HASH_BYTES).digest(), "big")
