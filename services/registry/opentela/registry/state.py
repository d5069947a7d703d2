"""The map of a registry as a file: without peers it knows after a restart what there is."""

import os
import stat
from pathlib import Path
from typing import Final

import msgspec

from opentela.core.errors import ConfigError
from opentela.core.record import SessionRecord
from opentela.core.session_map import SessionMap
from opentela.mesh.files import PRIVATE_FILE

VERSION: Final = 1


class State(msgspec.Struct, frozen=True, kw_only=True):
    """What the file holds; the signatures in it are checked again when it is read.

    What was forgotten is signed by nobody: a file that others could have written is not read.
    """

    version: int = VERSION
    records: tuple[SessionRecord, ...] = ()
    cut_ms: int = 0
    horizon_ms: int = 0


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(State)


def state_of(held: SessionMap) -> State:
    """Return what is to be kept of a map."""
    records = tuple(held.records.values())
    return State(records=records, cut_ms=held.cut_ms, horizon_ms=held.horizon_ms)


def read(path: Path) -> State | None:
    """Return what *path* holds; None when there is no such file yet.

    Raises:
        ConfigError: It cannot be read, could have been written by others, or is no state of a
            registry that this version knows.
    """
    remedy = "remove the file; the registry learns again from peers and from beats"
    try:
        state = _DECODER.decode(_own_bytes(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(
            f"retention.state_file {path}: {error.strerror}", remedy="make it readable"
        ) from error
    except msgspec.DecodeError as error:
        raise ConfigError(f"retention.state_file {path}: {error}", remedy=remedy) from error
    if state.version != VERSION:
        raise ConfigError(
            f"retention.state_file {path} is of version {state.version}", remedy=remedy
        )
    return state


def _own_bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        is_foreign = status.st_uid not in (0, os.geteuid())
        if is_foreign or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise ConfigError(
                f"retention.state_file {path} could have been written by others"
                f" (owner {status.st_uid}, mode {stat.S_IMODE(status.st_mode):04o})",
                remedy="remove the file, or make it yours: chown, chmod 600",
            )
        return file.read()


def write(path: Path, state: State) -> None:
    """Replace *path* in one step: a crash leaves the old file or the new one.

    Raises:
        OSError: It cannot be written.
    """
    beside = path.with_name(f".{path.name}.new")
    try:
        # Never somebody else's file or link: it is made here, or not at all.
        beside.unlink(missing_ok=True)
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
        with os.fdopen(descriptor, "wb") as file:
            file.write(_ENCODER.encode(state))
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError:
        # Half a file would only take room that is lacking.
        beside.unlink(missing_ok=True)
        raise
