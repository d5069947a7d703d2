"""Finds out what an access file is good for, one thing after the other, as a person would ask."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import msgspec

from opentela.core.errors import CredentialError, OtelaError
from opentela.mesh import nats_bus, permissions
from opentela.mesh.access import Access, Server
from opentela.mesh.bus import Message
from opentela.mesh.nats_bus import NatsBus
from opentela.mesh.nats_connection import Connection
from opentela.mesh.permissions import EVERY, Member, Permissions, Role
from opentela.wire import control, subjects

ANSWER_TIMEOUT_S: Final = 3.0
"""A person waits; a mesh whose registries need longer is not well."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was tried.

    Attributes:
        what: In words.
        ok: Whether it works.
        detail: How well, or why not.
    """

    what: str
    ok: bool
    detail: str = ""


async def check(access: Access) -> AsyncIterator[Finding]:
    """Try the servers, then what the role lives by; stop where nothing more can work."""
    reached = False
    for server in access.addresses:
        finding = await _reach(access, server)
        yield finding
        reached = reached or finding.ok
    if not reached or access.role in ("sys", "leaf"):
        return
    async with await nats_bus.connect(access, name="check") as bus:
        allowed = permissions.of(_member(access))
        # Asked first: a subscription to all of our inboxes would get the "no responders" instead.
        if permissions.may_publish(allowed, subjects.SNAPSHOT):
            yield await _ask(bus)
        yield await _hear(bus, allowed)


async def _reach(access: Access, server: Server) -> Finding:
    what = f"reach {server.url}"
    loop = asyncio.get_running_loop()
    start = loop.time()
    try:
        connection = await Connection.dial(access, server, name="check", on_error=_mute)
    except OtelaError as error:
        return Finding(what=what, ok=False, detail=error.line())
    took_ms = (loop.time() - start) * 1e3
    await connection.leave()
    return Finding(what=what, ok=True, detail=f"as {access.role} {access.name}, {took_ms:.0f} ms")


async def _hear(bus: NatsBus, allowed: Permissions) -> Finding:
    what = "subscribe"
    try:
        for subject in allowed.subscribe:
            await bus.subscribe(subject, _ignore)
    except CredentialError as error:
        return Finding(what=what, ok=False, detail=error.line())
    return Finding(what=what, ok=True, detail=f"to {len(allowed.subscribe)} kinds of messages")


async def _ask(bus: NatsBus) -> Finding:
    what = "ask a registry"
    try:
        ask = control.encode(control.PageAsk())
        raw = await bus.request(subjects.SNAPSHOT, ask, timeout_s=ANSWER_TIMEOUT_S)
        page = control.read_page(raw)
    except OtelaError as error:
        return Finding(what=what, ok=False, detail=error.line())
    return Finding(what=what, ok=True, detail=f"{page.registry} answers")


def _member(access: Access) -> Member:
    return Member(
        role=Role(access.role),
        name=access.name,
        provider=access.provider,
        site=access.site or EVERY,
    )


def _mute(_text: str) -> None:
    """What goes wrong is told by the dial itself."""


def _ignore(_message: Message) -> None:
    """Whether we may listen is the question, not what is said."""
