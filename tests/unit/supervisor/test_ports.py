"""A port that was picked is nobody else's until it is released."""

import random
import socket
import subprocess
import sys

import pytest

from opentela.core.errors import PortInUseError
from opentela.supervisor import ports

LOW, HIGH = 20000, 32767


class Stubborn:
    """Draws one port again and again."""

    def random(self) -> float:
        return 0.0

    def randrange(self, stop: int, /) -> int:
        return 0

    def randbytes(self, n: int, /) -> bytes:
        return bytes(n)


def pick() -> ports.HeldPort:
    return ports.pick(LOW, HIGH, random.Random())


def test_a_picked_port_can_be_bound_by_an_engine() -> None:
    """Holding it does not take it."""
    with pick() as held, socket.create_server(("127.0.0.1", held.number)):
        assert LOW <= held.number <= HIGH


def test_a_held_port_is_not_given_twice() -> None:
    """Neither asked for by number nor drawn; once released it is free."""
    with pick() as held:
        with pytest.raises(PortInUseError, match=str(held.number)) as caught:
            ports.hold(held.number)
        assert "{port}" in caught.value.remedy
        with pytest.raises(PortInUseError, match="no free port"):
            ports.pick(held.number, held.number, Stubborn())
    with ports.hold(held.number):
        pass


def test_a_held_port_is_passed_over_when_drawn() -> None:
    """Two supervisors with the same luck get different ports."""
    with (
        ports.pick(LOW, HIGH, random.Random(1)) as first,
        ports.pick(LOW, HIGH, random.Random(1)) as second,
    ):
        assert first.number != second.number


@pytest.mark.parametrize(
    ("family", "host"),
    [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::1")],
)
def test_a_port_on_which_somebody_listens_is_in_use(family: int, host: str) -> None:
    """Whoever it is, and at whichever address."""
    with socket.create_server((host, 0), family=family) as server, pytest.raises(PortInUseError):
        ports.hold(server.getsockname()[1])


def test_a_hold_ends_with_its_process_however_it_ends() -> None:
    """SIGKILL leaves no lock behind."""
    code = (
        "import sys, signal; from opentela.supervisor import ports;"
        "held = ports.hold(int(sys.argv[1])); print(flush=True); signal.pause()"
    )
    with pick() as held:
        number = held.number
    with subprocess.Popen(
        [sys.executable, "-c", code, str(number)], stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(PortInUseError):
            ports.hold(number)
        other.kill()
    with ports.hold(number):
        pass


def test_an_error_that_means_something_else_is_not_hidden(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A host without file descriptors has no port problem."""

    def refuse(_number: int) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(ports, "_test", refuse)
    with pytest.raises(OSError, match="Too many"):
        pick()
