"""Where engines put what they compile: a directory of this node, not of a home or a file server.

Home directories on clusters have small quotas, in bytes and in files, and stand on file systems
that are slow with thousands of small files and wrong with locks. Models are not moved: they are
large, and people place them on purpose.
"""

import os
import stat
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from opentela.core.errors import ConfigError
from opentela.supervisor.config import CacheConfig

VARIABLES: Final = {
    "VLLM_CACHE_ROOT": "vllm",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TRITON_CACHE_DIR": "triton",
    "TORCH_EXTENSIONS_DIR": "torch-extensions",
    "CUDA_CACHE_PATH": "cuda",
    "FLASHINFER_WORKSPACE_BASE": "flashinfer",
    "DG_JIT_CACHE_DIR": "deep-gemm",
    "NUMBA_CACHE_DIR": "numba",
}
"""Variable to folder; what the user has set is left alone."""

_VARIABLES_OF_PLACES: Final = ("SLURM_TMPDIR", "TMPDIR")
_PLACES: Final = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108 - our folder in them is checked
_SHARED: Final = frozenset({
    "nfs", "nfs4", "lustre", "gpfs", "beegfs", "ceph", "cifs", "smb3", "panfs", "wekafs",
    "orangefs", "pvfs2", "afs", "9p",
})  # fmt: skip
_SHARED_FUSE: Final = ("fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.cvmfs")
_MEBI: Final = 1 << 20
_PRIVATE: Final = 0o700


class Mount(NamedTuple):
    """A mounted file system."""

    at: str
    kind: str


def variables(config: CacheConfig, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that move caches to this node; none when that is switched off.

    Raises:
        ConfigError: No directory will do; says why of each.
    """
    missing = [name for name in VARIABLES if name not in environ]
    if not config.enabled or not missing:
        return {}
    root = find(config, environ)
    return {name: str(root / VARIABLES[name]) for name in missing}


def find(config: CacheConfig, environ: Mapping[str, str]) -> Path:
    """Return a private, writable folder of this node with room in it.

    Raises:
        ConfigError: There is none.
    """
    faults = []
    for place in candidates(config, environ):
        fault = "" if config.directory else shared_fault(place, mounts())
        fault = fault or _fault(Path(place), config.free_mb_min)
        if not fault:
            return _folder(Path(place))
        faults.append(f"{place} {fault}")
    raise ConfigError(
        f"no directory for the engine's caches: {'; '.join(faults)}",
        remedy="set cache.directory to a node-local one, or cache.enabled=false",
    )


def candidates(config: CacheConfig, environ: Mapping[str, str]) -> Sequence[str]:
    """Return where to look, best first."""
    if config.directory:
        return (config.directory,)
    given = (environ.get(name, "") for name in _VARIABLES_OF_PLACES)
    return tuple(dict.fromkeys((*filter(None, given), *_PLACES)))


def mounts() -> Sequence[Mount]:
    """Return the mounted file systems of this process."""
    lines = Path("/proc/self/mounts").read_text(errors="replace").splitlines()
    fields = (line.split() for line in lines)
    return tuple(Mount(at=one[1].replace("\\040", " "), kind=one[2]) for one in fields)


def shared_fault(place: str, mounted: Sequence[Mount]) -> str:
    """Return why *place* is not of this node; empty when it is."""
    real = os.path.realpath(place)
    above = [
        mount
        for mount in mounted
        if real == mount.at or real.startswith(mount.at.rstrip("/") + "/")
    ]
    # Of two mounts at one place the later covers the earlier.
    kind = max(enumerate(above), key=lambda one: (len(one[1].at), one[0]))[1].kind if above else ""
    is_shared = kind in _SHARED or kind.startswith(_SHARED_FUSE)
    return f"is on {kind}, which other nodes share" if is_shared else ""


def _fault(place: Path, free_mb_min: int) -> str:
    """Return why nothing can be kept in *place*; empty when it can."""
    try:
        folder = _folder(place)
        system = os.statvfs(folder)
        # A quota, of bytes or of files, shows only when something is written.
        with tempfile.NamedTemporaryFile(dir=folder) as file:
            file.write(bytes(4096))
            file.flush()
    except OSError as error:
        return f"cannot be written ({os.strerror(error.errno or 0).lower()})"
    except ConfigError as error:
        return str(error)
    free_mb = system.f_bavail * system.f_frsize // _MEBI
    return f"has {free_mb} MiB free, less than {free_mb_min}" if free_mb < free_mb_min else ""


def _folder(place: Path) -> Path:
    """Return our own folder in *place*; in a shared one like /tmp it must be nobody else's."""
    folder = place / f"otela-cache-{os.getuid()}"
    folder.mkdir(mode=_PRIVATE, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise ConfigError(f"holds {folder.name}, which is not ours")
    if found.st_mode & 0o077:
        folder.chmod(_PRIVATE)
    return folder
