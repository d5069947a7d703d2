"""Follows a session map: who stores or forgets what, as it happens."""

from collections.abc import Callable
from typing import TypeAlias

from opentela.core.ids import SessionId
from opentela.core.record import SessionRecord
from opentela.core.session_map import SessionMap

OnStore: TypeAlias = Callable[[SessionId, SessionRecord | None, SessionRecord], None]
"""Told the session, what was held of it, and what is held now."""
OnForget: TypeAlias = Callable[[SessionId, SessionRecord], None]
"""Told the session and what was held of it."""


def follow(held: SessionMap, on_store: OnStore, on_forget: OnForget) -> None:
    """Call *on_store* and *on_forget* with every change of *held* from now on.

    A map has no listeners, and needs none but here: its two doors are wrapped.
    """
    store, forget = held._store, held.forget  # noqa: SLF001 (the only writer)

    def stored(session: SessionId, record: SessionRecord, *, new: bool) -> None:
        before = held.get(session)
        store(session, record, new=new)
        on_store(session, before, record)

    def forgotten(cut_ms: int) -> list[SessionId]:
        if cut_ms <= held.cut_ms:
            return forget(cut_ms)
        records = dict(held.records)
        gone = forget(cut_ms)
        for session in gone:
            on_forget(session, records[session])
        return gone

    held._store = stored  # type: ignore[method-assign]  # noqa: SLF001
    held.forget = forgotten  # type: ignore[method-assign]
