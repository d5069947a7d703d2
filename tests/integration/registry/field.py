"""Registries, views and sessions on real servers, for the tests beside this file."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from opentela.core.clock import Clock
from opentela.core.record import is_routable, is_suspected
from opentela.mesh import nats_bus, warrants
from opentela.mesh.bus import Bus
from opentela.mesh.identity import Identity
from opentela.mesh.keeper import BusState
from opentela.registry.config import (
    DetectorConfig,
    PeersConfig,
    RegistryConfig,
    RetentionConfig,
)
from opentela.registry.shell import RegistryShell
from opentela.testing.fake_session import FakeSession
from opentela.testing.mesh import HUB, TestMesh
from opentela.testing.owner import Owner
from opentela.view.config import ViewConfig
from opentela.view.shell import View
from opentela.wire.control import BEAT_EVERY_S

QUICK: Final = RegistryConfig(
    access="",
    detector=DetectorConfig(lease_beats=3.0, grace_s=1.0, suspect_probe_every_s=0.5),
    peers=PeersConfig(gossip_s=0.2, heard_s=1.0, memory_s=30.0, learn_s=0.3),
)
"""As short as a loaded machine allows; what is measured against a target uses `LAN`."""


def new_owner(provider: str = "p", site: str = "s", *, models: tuple[str, ...] = ("m",)) -> Owner:
    """Return the owner of a session that is born now."""
    born_at_ms = int(time.time() * 1000)
    return Owner(Identity.new(), provider=provider, site=site, born_at_ms=born_at_ms, models=models)


class Field:
    """A mesh, and what a test puts on it.

    Attributes:
        ready: What each registry last said of its health.
    """

    def __init__(self, mesh: TestMesh) -> None:
        self.mesh = mesh
        self.ready: dict[str, tuple[bool, str]] = {}

    @asynccontextmanager
    async def registry(
        self,
        name: str = "registry1",
        *,
        at: str = HUB,
        config: RegistryConfig = QUICK,
        key: str = "",
        clock: Clock | None = None,
    ) -> AsyncIterator[RegistryShell]:
        """Run a registry, wired as the command wires it; its health is under *key*, or its name."""
        shells: list[RegistryShell] = []

        def on_state(state: BusState, _why: str) -> None:
            for shell in shells:
                shell.mesh_changed(connected=state is BusState.CONNECTED)

        def on_ready(flag: bool, reason: str) -> None:  # noqa: FBT001
            self.ready[key or name] = flag, reason

        access = self.mesh.access(role="registry", name=name, at=at)
        async with (
            await nats_bus.connect(access, name=name, on_state=on_state) as bus,
            RegistryShell.open(
                bus,
                seal=warrants.seal(access),
                verify=warrants.authority(access),
                config=config,
                on_ready=on_ready,
                clock=clock,
            ) as shell,
        ):
            shells.append(shell)
            yield shell
            shells.clear()

    @asynccontextmanager
    async def view(self, name: str = "router1", *, at: str = HUB) -> AsyncIterator[View]:
        """Hold a view as a router does."""
        bus = await self.mesh.bus(role="router", name=name, at=at)
        access = self.mesh.access(role="router", name=name, at=at)
        config = ViewConfig(repair_s=0.5)
        async with View.open(
            bus, verify=warrants.authority(access), name=name, config=config
        ) as view:
            yield view

    async def provider(self, name: str = "p", *, at: str = HUB) -> Bus:
        """Return a provider's bus."""
        return await self.mesh.bus(role="provider", provider=name, at=at)

    @asynccontextmanager
    async def session(
        self, owner: Owner, *, at: str = HUB, every_s: float = BEAT_EVERY_S, announce: bool = True
    ) -> AsyncIterator[FakeSession]:
        """Run a session, warranted, on a bus of its own."""
        bus = await self.provider(owner.claim.provider, at=at)
        owner.be_warranted(self.mesh.layout.identity("signing"))
        async with FakeSession.open(bus, owner, every_s=every_s, announce=announce) as session:
            yield session


def shows(view: View, *owners: Owner) -> bool:
    """Return whether *view* would route to exactly these sessions."""
    routable = {session for session, record in view.records.items() if is_routable(record)}
    return routable == {owner.claim.session for owner in owners}


def suspects(view: View, owner: Owner) -> bool:
    """Return whether *view* holds the session suspected."""
    record = view.records.get(owner.claim.session)
    return record is not None and is_suspected(record)


def kept_in(path: str) -> RegistryConfig:
    """Return the configuration of a registry that keeps its map in a file."""
    return RegistryConfig(
        access="",
        detector=QUICK.detector,
        peers=QUICK.peers,
        retention=RetentionConfig(state_file=path),
    )
