"""Files that hold secrets: private from the first byte, whole or not there, refused when shared."""

import errno
import os
import secrets
import stat
from pathlib import Path
from typing import Final

from opentela.core.errors import ConfigError, CredentialError

PRIVATE_FILE: Final = 0o600
PRIVATE_DIR: Final = 0o700
PUBLIC_FILE: Final = 0o644
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


def make_private_dir(path: Path) -> Path:
    """Make sure that *path* is a folder that only its owner may enter."""
    try:
        path.mkdir(mode=PRIVATE_DIR, parents=True, exist_ok=True)
        path.chmod(PRIVATE_DIR)
    except OSError as error:
        raise ConfigError(
            f"cannot make the folder {path}: {error.strerror}", remedy=_remedy(error)
        ) from error
    return path


def write(path: Path, text: str, *, mode: int = PRIVATE_FILE) -> None:
    """Replace *path* by *text* in one step; nobody ever sees half of it, or may read a secret.

    The new file is made with its final mode beside the old one and renamed over it.
    """
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as file:
            # The umask may have taken bits from a public file; a private one keeps what it has.
            os.fchmod(file.fileno(), mode)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise ConfigError(
            f"cannot write {path}: {error.strerror}", remedy=_remedy(error)
        ) from error


def read_private(path: Path, *, what: str) -> str:
    """Return the text of a file that nobody but its owner can read.

    The group may only read it where the file belongs to someone else: that is how container
    platforms hand secrets to a process without privileges.

    Raises:
        CredentialError: Missing, unreadable, or readable by others; the message names the file.
    """
    try:
        with path.open() as file:
            status = os.fstat(file.fileno())
            shared = stat.S_IRWXO if status.st_uid != os.geteuid() else stat.S_IRWXO | stat.S_IRWXG
            if status.st_mode & shared:
                raise CredentialError(
                    f"{what} {path} can be read by others (mode {status.st_mode & 0o777:04o})",
                    remedy=f"run: chmod 600 {path}",
                )
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise CredentialError(
            f"cannot read {what} {path}: {reason}",
            remedy="ask the operator of the mesh for one (otela mesh invite)",
        ) from error


def _remedy(error: OSError) -> str:
    if error.errno in _FULL:
        return "make room there, or choose a folder elsewhere"
    return "choose a folder that you own"
