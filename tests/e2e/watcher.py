"""Views of the mesh that tell what they see and when: what routers, placers and tools would know.

`python -m tests.e2e.watcher ACCESS…` holds one view with its own connection for each access file
(of a registry: a whole registry), and prints JSON lines: `watching` when all are caught up,
`changed` for each record that is new or different, and, asked by SIGUSR1, `held` for each view's
whole map. Instants are of the machine's monotonic clock, which all processes of a test share.
"""

import argparse
import asyncio
import gc
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import msgspec
import uvloop

from opentela.core.record import SessionRecord, claim_of, is_routable, is_suspected, lifecycle_of
from opentela.core.session_map import SessionMap
from opentela.mesh import access as accesses
from opentela.mesh import data_client, nats_bus, warrants
from opentela.mesh.access import Access
from opentela.mesh.bus import Handler
from opentela.mesh.keeper import BusState, OnState
from opentela.mesh.nats_bus import NatsBus
from opentela.registry import messages
from opentela.registry.config import RegistryConfig
from opentela.registry.shell import RegistryShell
from opentela.telemetry import log as logs
from opentela.telemetry.config import LogConfig
from opentela.view.shell import View
from opentela.wire import control, subjects

OnChange = Callable[[list[SessionRecord]], None]
FLUSH_S: Final = 0.05


class Teller:
    """Keeps what is to be printed, so that describing it does not disturb what is watched."""

    def __init__(self) -> None:
        self._lines: list[dict[str, Any]] = []
        self._seen: list[tuple[float, str, list[SessionRecord]]] = []
        self._arrived: list[tuple[float, str, bytes]] = []

    def changes(self, view: str) -> OnChange:
        """Return what takes the changes of one view."""
        return lambda records: self._seen.append((time.monotonic(), view, records))

    def arrivals(self, view: str) -> Handler:
        """Return what takes the deltas of one view, unread."""
        return lambda message: self._arrived.append((time.monotonic(), view, message.payload))

    def held(self, maps: Mapping[str, SessionMap]) -> None:
        """Tell the whole map of each view."""
        for view, held in maps.items():
            known = {claim_of(one).session: described(one) for one in held.records.values()}
            self.tell("held", view=view, digest=f"{held.trie.sum():016x}", records=known)

    def tell(self, event: str, **values: object) -> None:
        """Print a line soon."""
        self._lines.append({"event": event, "at": time.monotonic(), **values})

    def flush(self) -> None:
        """Print what waits."""
        lines, self._lines = self._lines, []
        seen, self._seen = self._seen, []
        arrived, self._arrived = self._arrived, []
        for at, view, payload in arrived:
            record = SessionRecord(signed=control.read_delta(payload).signed)
            seen.append((at, view, [record]))
        for at, view, records in seen:
            lines += [
                {"event": "changed", "at": at, "view": view, **described(record)}
                for record in records
            ]
        lines.sort(key=lambda line: line["at"])
        sys.stdout.write("".join(f"{msgspec.json.encode(line).decode()}\n" for line in lines))
        sys.stdout.flush()


class WatchedRegistry(RegistryShell):
    """A registry that tells each change of its map."""

    on_change: OnChange | None = None

    def _feed(self, event: messages.Event) -> None:
        held = self.held
        path = getattr(event, "path", None)
        before = held.get(path.session) if path else None
        super()._feed(event)
        after = held.get(path.session) if path else None
        if self.on_change and after is not None and after is not before:
            self.on_change([after])


def described(record: SessionRecord) -> dict[str, Any]:
    """Return a record as tests speak of it."""
    claim = claim_of(record)
    return {
        "session": claim.session,
        "node": claim.node,
        "site": claim.site,
        "lifecycle": lifecycle_of(record).name,
        "incarnation": claim.incarnation,
        "suspected": is_suspected(record),
        "routable": is_routable(record),
    }


async def watch(options: argparse.Namespace) -> None:
    """Watch until SIGTERM."""
    teller, stopping = Teller(), asyncio.Event()
    loop = asyncio.get_running_loop()
    maps: dict[str, SessionMap] = {}
    async with AsyncExitStack() as stack:
        for path in options.access:
            access = accesses.read(path)
            name = access.name
            if options.drain:
                await _drain(stack, access)
            elif options.bare:
                bus = await _bus(stack, access, lambda _state, _why: None)
                await bus.subscribe(subjects.ALL_DELTAS, teller.arrivals(name))
            elif access.role == "registry":
                maps[name] = await _registry(stack, access, teller.changes(name))
            else:
                view = await _view(stack, access, teller.changes(name))
                await view.wait_caught_up()
                maps[name] = view.held
        loop.add_signal_handler(signal.SIGUSR1, teller.held, maps)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopping.set)
        gc.freeze()  # as services do with what they start with
        teller.tell("watching", views=len(options.access))
        while not stopping.is_set():
            teller.flush()
            try:
                async with asyncio.timeout(options.flush_s):
                    await stopping.wait()
            except TimeoutError:
                continue
        teller.flush()


async def _view(stack: AsyncExitStack, access: Access, on_change: OnChange) -> View:
    views: list[View] = []

    def on_state(state: BusState, _why: str) -> None:
        for view in views:
            if state is BusState.CONNECTED:
                view.mesh_back()

    bus = await _bus(stack, access, on_state)
    opened = View.open(
        bus, verify=warrants.authority(access), name=access.name, relays=access.role == "router"
    )
    view = await stack.enter_async_context(opened)
    view.subscribe(on_change)
    views.append(view)
    return view


async def _registry(stack: AsyncExitStack, access: Access, on_change: OnChange) -> SessionMap:
    shells: list[RegistryShell] = []

    def on_state(state: BusState, _why: str) -> None:
        for shell in shells:
            shell.mesh_changed(connected=state is BusState.CONNECTED)

    bus = await _bus(stack, access, on_state)
    opened = WatchedRegistry.open(
        bus,
        seal=warrants.seal(access),
        verify=warrants.authority(access),
        config=RegistryConfig(access=""),
        on_ready=lambda _flag, _reason: None,
    )
    shell = await stack.enter_async_context(opened)
    assert isinstance(shell, WatchedRegistry)
    shell.on_change = on_change
    shells.append(shell)
    return shell.held


async def _drain(stack: AsyncExitStack, access: Access) -> None:
    client = await stack.enter_async_context(await data_client.connect(access, name=access.name))
    for subject in (subjects.ALL_DELTAS, subjects.ALL_VERDICTS):
        client.subscribe(subject, lambda _message: None)
    await client.round_trip()


async def _bus(stack: AsyncExitStack, access: Access, on_state: OnState) -> NatsBus:
    return await stack.enter_async_context(
        await nats_bus.connect(access, name=access.name, on_state=on_state)
    )


def main() -> None:
    """Watch with the access files that are named."""
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.watcher", description=__doc__)
    parser.add_argument("access", nargs="+", type=Path)
    parser.add_argument("--bare", action="store_true", help="only subscribe, hold no map")
    parser.add_argument("--drain", action="store_true", help="hear everything, and nothing more")
    parser.add_argument("--flush-s", type=float, default=FLUSH_S, help="between prints")
    options = parser.parse_args()
    logs.configure(service="watcher", config=LogConfig(level="warning"))
    uvloop.run(watch(options))


if __name__ == "__main__":
    main()
