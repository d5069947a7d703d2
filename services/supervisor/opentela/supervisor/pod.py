"""What a Kubernetes pod is told of its own end, without asking the cluster.

No field of the downward API holds `activeDeadlineSeconds` or the grace period, so the manifest says
both once more as annotations, and a downward volume shows these as files. Kubernetes counts a
deadline from the pod's start, and the kubelet writes the volume then: before images are pulled,
and once, however often the container is started again.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from opentela.core.errors import ConfigError
from opentela.supervisor.walltime import duration_s

FOLDER_VARIABLE: Final = "OTELA_POD_INFO"
FOLDER: Final = "/etc/podinfo"
DEADLINE_FILE: Final = "deadline_s"
GRACE_FILE: Final = "grace_s"
GRACE_SPARE_S: Final = 2.0
"""Of the grace, for our own end after the engine's."""


class Pod(NamedTuple):
    """What the manifest says of the pod's end.

    Attributes:
        started_at: Unix seconds.
        lasts_s: From there to the deadline; 0 for no deadline.
        grace_s: From SIGTERM to SIGKILL; 0 when it does not say.
    """

    started_at: float
    lasts_s: float = 0.0
    grace_s: float = 0.0

    @property
    def ends_at(self) -> float:
        """When the deadline is, Unix seconds; 0 for never."""
        return self.started_at + self.lasts_s if self.lasts_s else 0.0


def read(environ: Mapping[str, str], *, started_at: float = 0.0) -> Pod | None:
    """Return what the pod that we run in is told; None where there is no such folder.

    Args:
        environ: May name another folder.
        started_at: As was read before: who edits an annotation lets the file be written anew.

    Raises:
        ConfigError: A file holds no length of time.
    """
    folder = Path(environ.get(FOLDER_VARIABLE, "") or FOLDER)
    lasts_s, written_at = _read(folder / DEADLINE_FILE)
    grace_s, _ = _read(folder / GRACE_FILE)
    if not lasts_s and not grace_s:
        return None
    return Pod(started_at or written_at, lasts_s, grace_s)


def drain_limit_s(pod: Pod, *, stop_s: float) -> float:
    """Return how long running requests may take to finish after SIGTERM.

    Raises:
        ConfigError: The grace is not even enough to stop the engine.
    """
    left_s = pod.grace_s - stop_s - GRACE_SPARE_S
    if left_s <= 0:
        raise ConfigError(
            f"{GRACE_FILE} = {pod.grace_s:.0f} s is too short to stop the engine, which may take"
            f" engine.stop_s = {stop_s:.0f} s",
            remedy="raise terminationGracePeriodSeconds, or set engine.stop_s lower",
        )
    return left_s


def _read(path: Path) -> tuple[float, float]:
    """Return the length of time in a file, and when that was written; zeros without one."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace").strip()
        written_at = path.stat().st_mtime
    except (FileNotFoundError, NotADirectoryError):
        return 0.0, 0.0
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {error.strerror}", remedy="mount the downward volume readably"
        ) from error
    if not text:
        return 0.0, written_at
    # Kubernetes writes bare seconds.
    return duration_s(f"{text}s" if text.isdecimal() else text, field=str(path)), written_at
