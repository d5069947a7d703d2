"""Hears what placers tell, and prints it line by line.

`python -m tests.e2e.audits ACCESS` runs until SIGTERM; its first line is `listening`.
"""

import asyncio
import signal
import sys
from pathlib import Path

from tests.e2e.product import Product, Service

from opentela.mesh import access as accesses
from opentela.mesh import nats_bus
from opentela.mesh.bus import Message
from opentela.wire import audit, subjects
from opentela.wire.audit import AuditEvent


class Audits:
    """A tool in the background, and the audit events that it hears."""

    def __init__(self, product: Product) -> None:
        access = product.admit("tool", "auditor")
        argv = [sys.executable, "-m", "tests.e2e.audits", str(access)]
        self._service: Service = product.started("audits", product.public, argv)
        self._service.wait_for_words("listening")

    def events(self) -> list[AuditEvent]:
        """Return what was told so far, whole lines only."""
        text = self._service.process.log.read_text()
        lines = text[: text.rfind("\n") + 1].splitlines()
        return [audit.read_audit(line.encode()) for line in lines if line.startswith("{")]


def _print(message: Message) -> None:
    sys.stdout.write(f"{message.payload.decode()}\n")
    sys.stdout.flush()


async def _listen(path: Path) -> None:
    access = accesses.read(path)
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    async with await nats_bus.connect(access, name=access.name) as bus:
        await bus.subscribe(subjects.ALL_AUDITS, _print)
        sys.stdout.write("listening\n")
        sys.stdout.flush()
        await stopping.wait()


if __name__ == "__main__":
    asyncio.run(_listen(Path(sys.argv[1])))
