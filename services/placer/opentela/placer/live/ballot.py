"""Asks the bucket of leases at the hub."""

from opentela.core.clock import Clock
from opentela.core.errors import MeshUnavailableError, WireError
from opentela.mesh.bus import Bus
from opentela.placer.live import lease as elections
from opentela.wire import lease, subjects
from opentela.wire.lease import Held


class Ballot:
    """The bucket as this placer reaches it.

    Args:
        answer_s: For an answer; what comes later is of no use to an election.
    """

    def __init__(self, bus: Bus, *, clock: Clock, answer_s: float) -> None:
        self._bus = bus
        self._clock = clock
        self._answer_s = answer_s

    async def ask(self, action: elections.Action) -> elections.Event:
        """Do *action* and return what came of it."""
        sent_at = self._clock.now()
        try:
            match action:
                case elections.Make():
                    return await self._make()
                case elections.Read():
                    reply = await self._request(subjects.READ_LEASES, lease.ask())
                    return elections.Seen(held=lease.read(reply))
                case elections.Write(revision=revision, entry=entry):
                    reply = await self._request(
                        subjects.WRITE_LEASE, lease.written(entry), {lease.EXPECTED: str(revision)}
                    )
                    return elections.Written(revision=lease.revision(reply), sent_at=sent_at)
        except MeshUnavailableError:
            return elections.Unanswered(why="no hub with JetStream answers")
        except WireError as error:
            return elections.Unanswered(why=str(error))

    async def _make(self) -> elections.Event:
        settings = lease.settings(now_ms=int(self._clock.wall() * 1000))
        fault = lease.made_fault(await self._request(subjects.MAKE_LEASES, settings))
        if fault:
            return elections.Unanswered(why=fault)
        # Another may have made it and lead already: what is there is read like any other lease.
        reply = await self._request(subjects.READ_LEASES, lease.ask())
        return elections.Seen(held=lease.read(reply) or Held())

    async def _request(
        self, subject: str, payload: bytes, headers: dict[str, str] | None = None
    ) -> bytes:
        return await self._bus.request(subject, payload, timeout_s=self._answer_s, headers=headers)
