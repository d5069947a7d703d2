"""What ten thousand sessions cost a map: merging, comparing, paging, forgetting, memory.

Every claim is signed by Ed25519 under a warrant, as on a real mesh, and every byte is what would
cross the wire. One process, one core, no servers.
"""

import gc
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, TypeVar

from tests.bench import procfs
from tests.bench.measure import no_gc
from tests.bench.report import Figure

from opentela.core.record import Lifecycle, SessionRecord
from opentela.core.session_map import SessionMap
from opentela.core.warrant import Authority
from opentela.mesh.identity import Identity, verify
from opentela.testing.owner import BORN_AT_MS, Owner
from opentela.view import exchange
from opentela.wire import control
from opentela.wire.control import Page, PageAsk, Repair
from opentela.wire.subjects import SessionPath

SESSIONS: Final = 10_000
QUICK_SESSIONS: Final = 1_000
PROVIDERS: Final = 20
SITES: Final = 50
WALL: Final = BORN_AT_MS / 1000
DIGESTS: Final = 1000
DIFFERING: Final = (1, 100, 1000)
US: Final = 1e6
MS: Final = 1e3
KB: Final = 1e3
_T = TypeVar("_T")


class Said(NamedTuple):
    """What one owner said, as bytes, and where."""

    path: SessionPath
    delta: bytes

    @classmethod
    def by(cls, owner: Owner) -> "Said":
        """Return the latest word of *owner*."""
        return cls(owner.path, control.encode(control.Delta(signed=owner.signed)))


def run(*, quick: bool) -> list[Figure]:
    """Measure everything at one size."""
    count = QUICK_SESSIONS if quick else SESSIONS
    issuer = Identity.new()
    owners = list(_owners(count, issuer))
    maker = Maker(issuer)
    with no_gc():
        return [
            *_merging(maker, owners),
            *_comparing(maker, owners),
            *_paging(maker, owners),
            *_forgetting(maker, owners),
        ]


class Maker:
    """Makes maps that believe one issuer; each checks signatures anew."""

    def __init__(self, issuer: Identity) -> None:
        self._issuer = issuer

    def empty(self) -> SessionMap:
        """Return a map of nothing."""
        return SessionMap(Authority((self._issuer.key,), verify))

    def holding(self, records: Sequence[SessionRecord]) -> SessionMap:
        """Return a map of *records*."""
        held = self.empty()
        held.apply(records, wall=WALL, source="bench")
        assert len(held) == len(records)
        return held


def _owners(count: int, issuer: Identity) -> Iterator[Owner]:
    signers = [Identity.new() for _ in range(PROVIDERS)]
    for number in range(count):
        owner = Owner(
            signers[number % PROVIDERS],
            provider=f"provider-{number % PROVIDERS}",
            site=f"site-{number % SITES}",
            born_at_ms=BORN_AT_MS + number,
            number=number,
            models=("org/model-8b-instruct", "org/model-8b-instruct-lora"),
        )
        owner.be_warranted(issuer)
        yield owner


def _merging(maker: Maker, owners: Sequence[Owner]) -> Iterator[Figure]:
    count = len(owners)
    news = [Said.by(owner) for owner in owners]
    yield Figure("scale: a delta", sum(len(one.delta) for one in news) / count, "B")
    gc.collect()
    before_mb = procfs.pss_mb(os.getpid())
    held, took_s = timed(lambda: _admitted(maker.empty(), news))
    gc.collect()
    memory_mb = procfs.pss_mb(os.getpid()) - before_mb
    yield Figure("scale: a session that is new, signature and all", took_s / count * US, "us")
    yield Figure(f"scale: memory of {count} sessions", memory_mb, "MB")
    yield Figure("scale: memory of a session", memory_mb * KB / count, "KB")
    _, took_s = timed(lambda: _admitted(held, news))
    yield Figure("scale: a claim that is known", took_s / count * US, "us")
    for owner in owners:
        owner.say()
    later = [Said.by(owner) for owner in owners]
    _, took_s = timed(lambda: _admitted(held, later))
    yield Figure("scale: a claim that is newer, signature and all", took_s / count * US, "us")


def _admitted(held: SessionMap, news: Sequence[Said]) -> SessionMap:
    for path, delta in news:
        held.admit(control.read_delta(delta).signed, path, wall=WALL)
    return held


def _comparing(maker: Maker, owners: Sequence[Owner]) -> Iterator[Figure]:
    records = [owner.record for owner in owners]
    ours = maker.holding(records)
    digests, took_s = timed(lambda: [exchange.opening(ours, "a") for _ in range(DIGESTS)])
    opening = len(control.encode(digests[0]))
    yield Figure(f"scale: the digest of {len(records)} sessions", opening, "B")
    yield Figure("scale: making that digest", took_s / DIGESTS * US, "us")
    for differing in DIFFERING:
        if differing < len(records):
            theirs = maker.holding(records[differing:])
            (messages, size), took_s = timed(lambda: _repaired(theirs, ours))  # noqa: B023
            what = f"scale: finding and mending {differing} differences"
            yield Figure(f"{what}, messages", messages, "")
            yield Figure(f"{what}, bytes", size / KB, "KB")
            yield Figure(f"{what}, CPU of both", took_s * MS, "ms")


def _repaired(asker: SessionMap, answerer: SessionMap) -> tuple[int, int]:
    """Let *asker* learn all that *answerer* has; return how many messages and bytes it took."""
    messages = size = 0
    asks: list[exchange.Ask] = [exchange.opening(asker, "asker")]
    while asks:
        ask = asks.pop(0)
        sent = control.encode(ask)
        got = control.encode(exchange.answer(answerer, "answerer", ask))
        answer = control.read_snapshot_answer(got)
        assert isinstance(answer, Repair)
        messages, size = messages + 2, size + len(sent) + len(got)
        asker.apply(answer.records, wall=WALL, source="answerer")
        asks += exchange.asks(asker, "asker", answer)
    assert asker.trie.sum() == answerer.trie.sum()
    return messages, size


def _paging(maker: Maker, owners: Sequence[Owner]) -> Iterator[Figure]:
    held = maker.holding([owner.record for owner in owners])
    pages, took_s = timed(lambda: list(_pages(held)))
    yield Figure(f"scale: a snapshot of {len(held)} sessions, pages", len(pages), "")
    yield Figure("scale: … bytes", sum(map(len, pages)) / KB, "KB")
    yield Figure("scale: … CPU of the registry", took_s * MS, "ms")
    _, took_s = timed(lambda: _taken_over(maker.empty(), pages))
    yield Figure("scale: … CPU of the view that boots, signatures and all", took_s, "s")


def _pages(held: SessionMap) -> Iterator[bytes]:
    ask: PageAsk | None = PageAsk()
    while ask is not None:
        page = exchange.page(held, "registry", ask)
        yield control.encode(page)
        ask = exchange.following(page)


def _taken_over(held: SessionMap, pages: Sequence[bytes]) -> None:
    for page in pages:
        answer = control.read_snapshot_answer(page)
        assert isinstance(answer, Page)
        held.apply(answer.records, wall=WALL, source="registry")


def _forgetting(maker: Maker, owners: Sequence[Owner]) -> Iterator[Figure]:
    ended_at_ms = BORN_AT_MS + len(owners)
    for owner in owners:
        owner.say(Lifecycle.LEFT, ended_at_ms=ended_at_ms)
    held = maker.holding([owner.record for owner in owners])
    gone, took_s = timed(lambda: held.forget(ended_at_ms))
    assert len(gone) == len(owners)
    yield Figure(f"scale: forgetting {len(gone)} tombstones", took_s * MS, "ms")


def timed(work: Callable[[], _T]) -> tuple[_T, float]:
    """Return what *work* returns and the seconds of CPU that it took."""
    began = time.process_time()
    done = work()
    return done, time.process_time() - began
