"""Where the time of one answer went, for who measures."""

from opentela.wire.frames import Timings

_MS = 1e3


class Stopwatch:
    """Stamps of one request.

    Attributes:
        chosen_s: Spent on choosing sessions.
        opened_at: When the last attempt was handed to the mesh.
    """

    __slots__ = ("_read_at", "chosen_s", "opened_at")

    def __init__(self, read_at: float) -> None:
        self._read_at = read_at
        self.chosen_s = 0.0
        self.opened_at = read_at

    def line(self, now: float, timings: Timings | None) -> bytes:
        """Return the header line: the router's own work, the mesh both ways, the session.

        The session measures its part by its own clock, the engine's work included.
        """
        session_s = timings.end_s if timings is not None else 0.0
        ingress_s = self.opened_at - self._read_at - self.chosen_s
        mesh_s = now - self.opened_at - session_s
        return (
            b"x-otela-timing: ingress;dur=%.3f, lookup;dur=%.3f,"
            b" mesh;dur=%.3f, session;dur=%.3f\r\n"
            % (
                ingress_s * _MS,
                self.chosen_s * _MS,
                mesh_s * _MS,
                session_s * _MS,
            )
        )
