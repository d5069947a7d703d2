"""Who can serve a name: the router's read model of the session map."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from opentela.core.ids import ProviderId, SessionId, SiteId
from opentela.core.record import (
    Claim,
    Lifecycle,
    ModelOffer,
    Offer,
    SessionRecord,
    claim_of,
    is_routable,
    is_suspected,
    lifecycle_of,
)
from opentela.wire.subjects import SessionPath

NAMES_MAX: Final = 10_000
"""Names remembered as once offered; the oldest are forgotten first and turn from 503 to 404."""
_NEVER: Final = float("inf")
_HEX: Final = re.compile(r"[0-9a-f]{6,64}")


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """One live session as one of the names that it serves.

    Attributes:
        path: Where it is reached; also names its provider and site.
        offer: The model behind the name.
        fingerprint: The offer's, if it is one: hexadecimal digits, and no line of a header.
        terms: All that the session offers, and on which hardware.
        ends_at: Unix seconds at which its allocation ends; infinity when it does not.
    """

    session: SessionId
    path: SessionPath
    offer: ModelOffer
    born_at_ms: int
    fingerprint: str = ""
    terms: Offer = Offer()
    ends_at: float = _NEVER

    @property
    def site(self) -> SiteId:
        """Where it runs."""
        return self.path.site

    @property
    def provider(self) -> ProviderId:
        """Whose it is."""
        return self.path.provider


class Pool(NamedTuple):
    """The live candidates of one name, in order of session id.

    `ends_first_at` is the first end among them: usually far away, which saves looking at each.
    """

    candidates: tuple[Candidate, ...] = ()
    ends_first_at: float = _NEVER


class Loading(NamedTuple):
    """Sessions that load a model, or whose failed engine is started again.

    Attributes:
        ready_in_s: When the first of them should serve, as the last one did; 0 when nobody knows.
    """

    sessions: int
    ready_in_s: float


EMPTY: Final = Pool()


class Directory:
    """Names to live candidates, kept current by the records that changed.

    Attributes:
        is_complete: Every session is in here. Before that nobody can say that a name is unknown.
        vouches_for: Whether requests go on to a session that serves and is suspected.
    """

    def __init__(self, providers: Collection[str] = ()) -> None:
        """Make one without sessions.

        Args:
            providers: Whose sessions are taken in; empty for everybody's.
        """
        self.is_complete = True
        self.vouches_for: Callable[[SessionId], bool] = lambda _: False
        self._providers = frozenset(providers)
        self._loading: dict[SessionId, Claim] = {}
        self._returning: dict[SessionId, Claim] = {}
        self._silent: dict[SessionId, Claim] = {}
        self._load_s: dict[str, float] = {}
        self._by_session: dict[SessionId, dict[str, Candidate]] = {}
        self._by_name: dict[str, dict[SessionId, Candidate]] = {}
        self._pools: dict[str, Pool] = {}
        self._ever: dict[str, None] = {}

    def apply(
        self, changed: Iterable[SessionRecord], *, wall: float | None = None
    ) -> list[SessionId]:
        """Take in records; return the sessions that are live no longer.

        Args:
            changed: What is new.
            wall: Unix time: how long models load is learnt from those that are seen to begin and
                to end.
        """
        gone = []
        for record in changed:
            claim = claim_of(record)
            if self._providers and claim.provider not in self._providers:
                continue
            self._note_loading(record, claim, wall)
            before = self._by_session.pop(claim.session, {})
            self._note_return(record, claim, has_served=bool(before))
            now = _served(claim) if self._is_routable(record, claim) else {}
            if not now and lifecycle_of(record) is Lifecycle.SERVING:
                self._silent[claim.session] = claim
            else:
                self._silent.pop(claim.session, None)
            for name in before:
                if name not in now:
                    self._remove(name, claim.session)
            for name, candidate in now.items():
                self._by_name.setdefault(name, {})[claim.session] = candidate
                self._pools.pop(name, None)
            for offer in claim.offer.models:
                self._remember(offer)
            if now:
                self._by_session[claim.session] = now
            elif before:
                gone.append(claim.session)
        return gone

    def _is_routable(self, record: SessionRecord, claim: Claim) -> bool:
        if is_routable(record):
            return True
        return lifecycle_of(record) is Lifecycle.SERVING and self.vouches_for(claim.session)

    @property
    def session_count(self) -> int:
        """Live sessions."""
        return len(self._by_session)

    def pool(self, name: str) -> Pool:
        """Return who can serve *name* now."""
        pool = self._pools.get(name)
        if pool is None:
            by_session = self._by_name.get(name)
            if not by_session:
                return EMPTY
            candidates = tuple(by_session[session] for session in sorted(by_session))
            pool = Pool(candidates, min(candidate.ends_at for candidate in candidates))
            self._pools[name] = pool
        return pool

    def loading(self, name: str, wall: float) -> Loading | None:
        """Return what is known at *wall* of the sessions that are loading *name*, if any are."""
        # What comes back begins to load about now, as a session of its own.
        born = [wall for claim in self._returning.values() if name in _names(claim.offer)]
        born += [
            claim.born_at_ms / 1000
            for claim in self._loading.values()
            if name in _names(claim.offer)
        ]
        if not born:
            return None
        takes_s = self._load_s.get(name, 0.0)
        return Loading(len(born), max(min(born) + takes_s - wall, 1.0) if takes_s else 0.0)

    def silent(self, name: str) -> int:
        """Return how many sessions would serve *name* if they were not suspected."""
        return sum(name in _names(claim.offer) for claim in self._silent.values())

    def was_offered(self, name: str) -> bool:
        """Return whether anybody was seen to offer *name*, live or not, or may have been."""
        return name in self._by_name or name in self._ever or not self.is_complete

    def models(self) -> Mapping[str, Pool]:
        """Return the live models by their first names, in order of name."""
        return {
            name: pool
            for name in sorted(self._by_name)
            if (pool := self._pool_of_first_name(name)).candidates
        }

    def _pool_of_first_name(self, name: str) -> Pool:
        pool = self.pool(name)
        candidates = tuple(one for one in pool.candidates if one.offer.name == name)
        return pool if len(candidates) == len(pool.candidates) else Pool(candidates)

    def _note_loading(self, record: SessionRecord, claim: Claim, wall: float | None) -> None:
        lifecycle = lifecycle_of(record)
        if lifecycle is Lifecycle.JOINING and not is_suspected(record):
            self._loading[claim.session] = claim
            return
        was_loading = self._loading.pop(claim.session, None)
        if was_loading is None or lifecycle is not Lifecycle.SERVING or wall is None:
            return
        for name in _names(claim.offer):
            self._load_s.pop(name, None)
            self._load_s[name] = max(wall - claim.born_at_ms / 1000, 0.0)
        while len(self._load_s) > NAMES_MAX:
            del self._load_s[next(iter(self._load_s))]

    def _note_return(self, record: SessionRecord, claim: Claim, *, has_served: bool) -> None:
        """Remember a session that served until its engine failed: its supervisor starts another.

        One whose engine failed while loading is not waited for: its command is probably wrong.
        """
        session = claim.session
        has_served = has_served or session in self._silent or session in self._returning
        self._returning.pop(session, None)
        is_down = lifecycle_of(record) is Lifecycle.DOWN and not is_suspected(record)
        if has_served and is_down:
            self._returning[session] = claim

    def _remove(self, name: str, session: SessionId) -> None:
        self._pools.pop(name, None)
        by_session = self._by_name[name]
        del by_session[session]
        if not by_session:
            del self._by_name[name]

    def _remember(self, offer: ModelOffer) -> None:
        for name in (offer.name, *offer.aliases):
            self._ever.pop(name, None)
            self._ever[name] = None
        while len(self._ever) > NAMES_MAX:
            del self._ever[next(iter(self._ever))]


def _names(offer: Offer) -> list[str]:
    return [name for one in offer.models for name in (one.name, *one.aliases)]


def _served(claim: Claim) -> dict[str, Candidate]:
    path = SessionPath(claim.provider, claim.site, claim.session)
    served: dict[str, Candidate] = {}
    for offer in claim.offer.models:
        candidate = Candidate(
            session=claim.session,
            path=path,
            offer=offer,
            born_at_ms=claim.born_at_ms,
            fingerprint=offer.fingerprint if _HEX.fullmatch(offer.fingerprint) else "",
            terms=claim.offer,
            ends_at=claim.offer.walltime_ends_at or _NEVER,
        )
        for name in (offer.name, *offer.aliases):
            # A name of its own beats another model's alias.
            if name == offer.name or name not in served:
                served[name] = candidate
    return served
