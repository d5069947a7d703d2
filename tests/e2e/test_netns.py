"""The network that the other tests stand on does what they believe of it."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e.netns import HUB_IP, NAT_IP, PREFIX, Cut, Lab, sweep
from tests.e2e.processes import Process, is_running, wait_until

pytestmark = pytest.mark.netns

PORT = 9000  # namespaces are empty: nobody else can hold it
LISTEN = f"""
import socket
server = socket.create_server(("0.0.0.0", {PORT}))
print("listening", flush=True)
while True:
    connection, peer = server.accept()
    connection.sendall(peer[0].encode())
    connection.close()
"""
DIAL = f"""
import socket, sys
with socket.create_connection((sys.argv[1], {PORT}), timeout=float(sys.argv[2])) as dialled:
    print(dialled.recv(64).decode())
"""


def listen(lab: Lab, place: str, folder: Path) -> Process:
    """Start a server in *place* that tells each caller the caller's address."""
    log = folder / f"{place}.log"
    server = lab.start(place, f"server in {place}", [sys.executable, "-c", LISTEN], log=log)
    wait_until(lambda: b"listening" in log.read_bytes(), "listening", within_s=20)
    return server


def dial(lab: Lab, place: str, address: str, *, within_s: float = 10.0) -> str:
    """Return the address that a server sees of *place*; empty when it cannot be reached."""
    argv = lab.argv(place, [sys.executable, "-c", DIAL, address, str(within_s)])
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.strip()


def is_deaf(lab: Lab, place: str, address: str) -> bool:
    """Return whether *place* hears nothing from an address, for some times as long as it takes."""
    return not dial(lab, place, address, within_s=0.5)


def namespaces() -> str:
    """Return what the kernel lists."""
    return subprocess.run(
        ["ip", "netns", "list"], capture_output=True, text=True, check=True
    ).stdout


def test_nodes_dial_out_through_the_nat_and_cannot_be_dialled(lab: Lab, tmp_path: Path) -> None:
    """A node reaches the hub under the router's address; nothing reaches a node, route or not."""
    listen(lab, "hub", tmp_path)
    listen(lab, "n1", tmp_path)
    assert dial(lab, "n1", HUB_IP) == NAT_IP
    assert dial(lab, "n2", lab.address("n1")) == lab.address("n2")
    assert is_deaf(lab, "hub", lab.address("n1"))
    via_nat = ["ip", "route", "add", f"{lab.address('n1')}/32", "via", NAT_IP]
    assert lab.succeeds("hub", via_nat)
    assert is_deaf(lab, "hub", lab.address("n1"))


def test_a_partition_cuts_one_node_silently_and_heals(lab: Lab, tmp_path: Path) -> None:
    """Only the named node is cut, in each direction that is asked for, until it is healed."""
    listen(lab, "hub", tmp_path)
    for cut in Cut:
        lab.partition("n1", cut)
        assert is_deaf(lab, "n1", HUB_IP)
        assert dial(lab, "n2", HUB_IP) == NAT_IP
        lab.heal("n1")
        assert dial(lab, "n1", HUB_IP) == NAT_IP


def test_loss_of_one_node_leaves_the_other_alone(lab: Lab, tmp_path: Path) -> None:
    """Faults of different nodes are independent, and a lossy path still works."""
    listen(lab, "hub", tmp_path)
    lab.partition("n1")
    lab.loss("n2", 5)
    assert is_deaf(lab, "n1", HUB_IP)
    assert any(dial(lab, "n2", HUB_IP) == NAT_IP for _ in range(5))


def fail_in_a_lab(folder: Path) -> None:
    """Be interrupted while a server runs in a namespace; tell both in the exception."""
    with Lab(nodes=("n1",)) as lab:
        raise KeyboardInterrupt(listen(lab, "n1", folder).pid, lab.namespace(""))


def test_nothing_is_left_after_a_failure(tmp_path: Path) -> None:
    """Namespaces and the processes in them end with the test, also when it fails."""
    with pytest.raises(KeyboardInterrupt) as interrupted:
        fail_in_a_lab(tmp_path)
    pid, stem = interrupted.value.args
    assert stem not in namespaces()
    assert not is_running(pid)


def test_what_a_killed_run_left_is_swept() -> None:
    """The namespaces of a process that is gone are removed by the next run, and no others."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    orphan = f"{PREFIX}-{ended.pid}-0-hub"
    subprocess.run(["ip", "netns", "add", orphan], check=True)
    with Lab(nodes=()) as lab:
        assert lab.namespace("hub") in namespaces()
        assert orphan not in namespaces()
        sweep()
        assert lab.namespace("hub") in namespaces()
