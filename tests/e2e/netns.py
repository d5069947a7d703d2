"""A real network on one machine: a public side, a NAT router, and nodes that can only dial out.

::

    hub 198.18.0.1 ─┐                     ┌─ node 10.77.0.11
 client 198.18.0.3 ─┴─ net ── nat router ─┴─ node 10.77.0.12     (inbound dropped, masquerade)

Faults are rules of the NAT router: packets vanish, nothing is reset, as on a broken path. Every
name carries the pid of its maker, so that runs do not meet and what a killed run left is swept.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.e2e.processes import Process, is_running, signal_all, wait_until

PREFIX: Final = "otlab"
HUB_IP: Final = "198.18.0.1"
NAT_IP: Final = "198.18.0.2"
CLIENT_IP: Final = "198.18.0.3"
NODE_NETWORK: Final = "10.77.0"
FIRST_NODE: Final = 11
_TOOLS: Final = ("ip", "nft", "nsenter")
_serial = iter(range(1_000_000))


class Cut(Enum):
    """Which packets of a node vanish."""

    BOTH = "both"
    OUTBOUND = "outbound"  # the node hears, and is not heard
    INBOUND = "inbound"  # the node is heard, and does not hear


def why_not() -> str:
    """Return why no namespaces can be built here; empty when they can."""
    if sys.platform != "linux":
        return "network namespaces need Linux"
    if os.geteuid() != 0:
        return "network namespaces need root"
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if missing:
        return f"missing commands: {', '.join(missing)} (Debian: iproute2 nftables util-linux)"
    return ""


class Lab:
    """The namespaces of one test, gone at its end whatever happened.

    Args:
        nodes: Names of the compute nodes behind the NAT router.
    """

    def __init__(self, nodes: Sequence[str] = ("n1", "n2")) -> None:
        self._stem = f"{PREFIX}-{os.getpid()}-{next(_serial)}"
        self.nodes = tuple(nodes)
        self._faults: dict[str, str] = {}
        self._made: list[str] = []
        self._started: list[Process] = []

    def __enter__(self) -> Self:
        sweep()
        try:
            self._build()
        except BaseException:
            self._destroy()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._destroy()

    # What tests use

    def namespace(self, place: str) -> str:
        """Return the kernel's name of *place*: `hub`, `client`, `nat` or a node."""
        return f"{self._stem}-{place}"

    def argv(self, place: str, argv: Sequence[str]) -> list[str]:
        """Return *argv* so that it runs in *place*; the process keeps the pid it is started with.

        Not `ip netns exec`, which also remounts /sys and thereby hides cgroups.
        """
        return ["nsenter", f"--net=/run/netns/{self.namespace(place)}", "--", *argv]

    def start(
        self,
        place: str,
        name: str,
        argv: Sequence[str],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
    ) -> Process:
        """Start a process in *place*; it ends with the lab at the latest."""
        process = Process(name, self.argv(place, argv), log=log, env=env)
        self._started.append(process)
        return process

    def succeeds(self, place: str, argv: Sequence[str], *, timeout_s: float = 30.0) -> bool:
        """Whether a short command in *place* ends with status 0 in time."""
        try:
            done = subprocess.run(
                self.argv(place, argv), capture_output=True, timeout=timeout_s, check=False
            )
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0

    def address(self, node: str) -> str:
        """Return a node's address behind the NAT."""
        return f"{NODE_NETWORK}.{FIRST_NODE + self.nodes.index(node)}"

    def partition(self, node: str, cut: Cut = Cut.BOTH) -> None:
        """Let packets of *node* vanish from now on: a half-open path, without any reset."""
        outbound = f"ip saddr {self.address(node)} drop\n"
        inbound = f"ip daddr {self.address(node)} drop\n"
        rules = {Cut.BOTH: outbound + inbound, Cut.OUTBOUND: outbound, Cut.INBOUND: inbound}
        self._set_fault(node, rules[cut])

    def loss(self, node: str, percent: int) -> None:
        """Lose *percent* of the packets of *node*, either way, at random; 100 is a partition."""
        assert 0 <= percent < 100, percent
        dice = f"numgen random mod 100 < {percent} drop\n"
        self._set_fault(
            node, f"ip saddr {self.address(node)} {dice}ip daddr {self.address(node)} {dice}"
        )

    def heal(self, node: str) -> None:
        """End every fault of *node*."""
        self._set_fault(node, "")

    # Making and unmaking

    def _build(self) -> None:
        for place in ("net", "hub", "client", "nat", *self.nodes):
            name = self.namespace(place)
            _run("ip", "netns", "add", name)
            self._made.append(name)
            _run("ip", "-n", name, "link", "set", "lo", "up")
        self._bridge("net", address="")
        self._join("hub", "net", "eth0", f"{HUB_IP}/24")
        self._join("client", "net", "eth0", f"{CLIENT_IP}/24")
        self._join("nat", "net", "wan", f"{NAT_IP}/24")
        self._bridge("nat", address=f"{NODE_NETWORK}.1/24")
        for node in self.nodes:
            self._join(node, "nat", "eth0", f"{self.address(node)}/24")
            self._ip(node, "route", "add", "default", "via", f"{NODE_NETWORK}.1")
        _run(*self.argv("nat", ("sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")))
        self._nft(
            "table ip lab {\n"
            "  chain post { type nat hook postrouting priority 100; policy accept;"
            ' oifname "wan" masquerade; }\n'
            "  chain faults { }\n"
            "  chain forw { type filter hook forward priority 0; policy drop;\n"
            "    jump faults\n"
            "    ct state established,related accept\n"
            '    iifname "br0" accept; }\n'
            "}\n"
        )

    def _destroy(self) -> None:
        while self._started:
            self._started.pop().end()
        for name in self._made:
            _delete(name)
        self._made.clear()

    def _set_fault(self, node: str, rules: str) -> None:
        self._faults[node] = rules
        all_rules = "".join(f"add rule ip lab faults {r}\n" for r in _lines(self._faults.values()))
        self._nft(f"flush chain ip lab faults\n{all_rules}")  # one transaction: no gap between

    def _bridge(self, place: str, address: str) -> None:
        self._ip(place, "link", "add", "br0", "type", "bridge")
        if address:
            self._ip(place, "addr", "add", address, "dev", "br0")
        self._ip(place, "link", "set", "br0", "up")

    def _join(self, place: str, bridge: str, device: str, address: str) -> None:
        port = f"p-{place}"
        peer = self.namespace(bridge)
        self._ip(
            *(place, "link", "add", device, "type", "veth"), *("peer", "name", port, "netns", peer)
        )
        self._ip(place, "addr", "add", address, "dev", device)
        self._ip(place, "link", "set", device, "up")
        self._ip(bridge, "link", "set", port, "master", "br0", "up")

    def _ip(self, place: str, *arguments: str) -> None:
        _run("ip", "-n", self.namespace(place), *arguments)

    def _nft(self, script: str) -> None:
        _run(*self.argv("nat", ("nft", "-f", "-")), stdin=script)


def sweep() -> None:
    """Remove what runs that were killed left behind: namespaces whose maker is gone."""
    listed = _run("ip", "netns", "list").split("\n")
    for name in (line.split()[0] for line in listed if line.startswith(f"{PREFIX}-")):
        if not is_running(int(name.split("-")[1])):
            _delete(name)


def _delete(name: str) -> None:
    """End whoever is in a namespace of ours, then remove it; its links go with it."""

    def pids() -> list[int]:
        return [int(pid) for pid in _run("ip", "netns", "pids", name).split()]

    left = pids()
    signal_all(left, signal.SIGKILL)
    if left:
        wait_until(lambda: not any(map(is_running, left)), f"the end of {name}", within_s=20)
    _run("ip", "netns", "del", name)


def _lines(blocks: Iterable[str]) -> list[str]:
    return [line for block in blocks for line in block.splitlines()]


def _run(*argv: str, stdin: str = "") -> str:
    done = subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(argv)}: {done.stderr.strip()}")
    return done.stdout
