"""Who knows when our time ends: Slurm, the pod's manifest, or whoever started us.

Of Slurm's word and `--walltime` the earlier counts: a flag cannot prolong a job. In a pod the flag
wins, whose manifest only repeats what Kubernetes was told.
"""

from collections.abc import Mapping

from opentela.core.errors import ConfigError
from opentela.supervisor import pod, walltime
from opentela.supervisor.slurm import inside
from opentela.telemetry import log as logs

log = logs.get_logger()


class EndFinder:
    """Finds out when our time ends, and whether that has moved.

    Attributes:
        pod: The one that we run in, if it was told anything.
    """

    def __init__(self, flag: str, environ: Mapping[str, str], wall: float) -> None:
        self.pod = pod.read(environ)
        self._environ = environ
        # The end of a given length is fixed here, however often it is asked for.
        self._given_at = walltime.end(flag, {}, wall)
        self._wall = wall
        self._job = inside.job_id(environ)

    @property
    def can_move(self) -> bool:
        """Whether somebody may change it while we run."""
        return bool(self._job or (self.pod and self.pod.lasts_s and not self._given_at))

    async def first(self) -> float:
        """Return when our time ends, Unix seconds; 0 for never, or when nobody says.

        Raises:
            ConfigError: What the environment says is malformed.
        """
        told = walltime.end("", self._environ, self._wall)
        if not told and self._job:
            told = await inside.ends_at(self._environ)
        return self._earliest(told)

    async def again(self) -> float | None:
        """Return when our time ends by now; None when nobody answered."""
        if self._job:
            # The job's environment says what was true at its start.
            told = await inside.asked_end(self._environ)
            return None if told is None else self._earliest(told)
        if self.pod is None:
            return None
        try:
            self.pod = pod.read(self._environ, started_at=self.pod.started_at) or self.pod
        except ConfigError as error:
            log.warning("walltime_unread", reason=str(error))
            return None
        return self._earliest(0.0)

    def _earliest(self, told: float) -> float:
        if told > self._wall + walltime.LENGTH_MAX_S:
            told = 0.0  # its number for no end
        given = self._given_at or (self.pod.ends_at if self.pod and not told else 0.0)
        return min((one for one in (told, given) if one), default=0.0)
