"""Ports for engines: picked, and held so that no second engine of this host gets the same.

A listening socket cannot be handed to a foreign engine, so there is a gap between our choice and
its bind. Three things close it:

- a *hold*: an abstract Unix socket named after the port. It lives in the network namespace, as the
  port itself does, so all users and supervisors of a host see it; the kernel releases it when its
  owner ends, however that happens; and it leaves no file behind (unix(7)). It is kept for as long
  as the engine is to run, not only until its bind: an engine that is restarted finds it again.
- a *test*: the port is bound and let go, which finds whoever does not know about holds.
- a *range* below the kernel's own for outgoing connections, so that none of these takes it.
"""

import errno
import socket
from typing import Final, Self

from opentela.core.errors import PortInUseError
from opentela.core.rng import Rng

_TRIES_MAX: Final = 200
"""With a tenth of the range taken, the chance to find none is 1e-200."""
_ANY_HOSTS: Final = ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::"))  # noqa: S104 - a test


class HeldPort:
    """A port that is ours until it is released.

    Attributes:
        number: The port.
    """

    def __init__(self, number: int, hold: socket.socket) -> None:
        self.number = number
        self._hold = hold

    def release(self) -> None:
        """Let others have it; twice does no harm."""
        self._hold.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def hold(number: int) -> HeldPort:
    """Return *number*, held.

    Raises:
        PortInUseError: Another engine holds it, or somebody listens there.
    """
    lock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        lock.bind(f"\0opentela/engine-port/{number}")
        _test(number)
    except OSError as error:
        lock.close()
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        raise PortInUseError(
            f"port {number} is in use on this host",
            remedy="write {port} where the command names its port, and a free one is put there",
        ) from error
    return HeldPort(number, lock)


def pick(low: int, high: int, rng: Rng) -> HeldPort:
    """Return a free port of *low* to *high*, held.

    Raises:
        PortInUseError: None was found.
    """
    for _ in range(_TRIES_MAX):
        try:
            return hold(low + rng.randrange(high - low + 1))
        except PortInUseError:
            continue
    raise PortInUseError(
        f"no free port between {low} and {high}",
        remedy="set engine.port_min and engine.port_max to a wider range",
    )


def _test(number: int) -> None:
    """Raise OSError if somebody listens on the port at any address."""
    for family, host in _ANY_HOSTS:
        try:
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                # Connections that ended a moment ago do not make a port unusable.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                probe.bind((host, number))
                probe.listen(1)
        except OSError as error:
            if error.errno in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
                continue  # a host without IPv6
            raise
