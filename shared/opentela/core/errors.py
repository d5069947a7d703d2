"""Every error that opentela raises on purpose.

OtelaError
├── UsageError                 the caller's fault: configuration, arguments, requests
│   ├── ConfigError            a field of a configuration file, variable or flag
│   └── CredentialError        an access file that is missing, unreadable or refused
├── PeerError                  the other side broke the protocol
│   ├── WireError              bytes that are no message of ours
│   └── ForgedRecordError      a record that its owner did not sign
├── UnavailableError           nobody can do it now; later may be different
│   ├── MeshUnavailableError   no server of the mesh answers
│   └── PortInUseError         the address to listen on is taken
├── EngineError                the wrapped engine could not be started or kept
└── IllegalTransitionError     a life that moved against its table: a bug, never input

The command line prints a `UsageError`, `UnavailableError` or `EngineError` as one line and exits
with its `exit_code`. Anything else is a bug and keeps its traceback.
"""

import re
from typing import ClassVar, Final

_NUMBER: Final = re.compile(r"\[Errno -?\d+\] ")


class OtelaError(Exception):
    """Base of all; carries the remedy beside the fault.

    Attributes:
        remedy: What the reader can do about it, as a clause; empty when nothing is known.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy

    def line(self) -> str:
        """Return the fault and its remedy on one line."""
        return f"{self}; {self.remedy}" if self.remedy else str(self)


class UsageError(OtelaError):
    """The caller asked for something that cannot be done as asked."""

    exit_code = 2


class ConfigError(UsageError):
    """A configured value is wrong; the message names the field."""


class CredentialError(UsageError):
    """An access file is missing, unreadable, expired or refused by the mesh."""


class PeerError(OtelaError):
    """The other side broke the protocol."""


class WireError(PeerError):
    """Bytes that are no message of ours."""


class ForgedRecordError(PeerError):
    """A record whose signature, key or session id do not belong together."""


class UnavailableError(OtelaError):
    """Nobody can do it now."""


class MeshUnavailableError(UnavailableError):
    """No server of the mesh answers."""


class PortInUseError(UnavailableError):
    """The address to listen on is taken."""


class EngineError(OtelaError):
    """The wrapped engine could not be started, or ended."""


class IllegalTransitionError(OtelaError):
    """A life moved against its table."""


def in_words(error: Exception) -> str:
    """Return what *error* says to people: the system's words without its number."""
    words = error.strerror if isinstance(error, OSError) else None
    return words or _NUMBER.sub("", str(error)) or type(error).__name__
