"""Counts what crosses loopback between servers and clients of a mesh, by connection and kind.

`python -m tests.bench.registry_tap PORT…` reads every packet from or to these ports; at each
SIGUSR1 it prints what it counted since the last, as one JSON line. Bytes are those of IP packets.
What NATS says in the clear is told apart by the conversation that its subject belongs to. Needs
root, and must run before the connections are made.
"""

import signal
import socket
import struct
import sys
import time
from collections import Counter
from typing import Final, NamedTuple

import msgspec

HEADERS: Final = "TCP/IP headers"
ENCRYPTED: Final = "encrypted"
_ALL_PROTOCOLS: Final = 0x0003
_TCP: Final = 6
_OUTGOING: Final = 4
_FRAME_BYTES_MAX: Final = 65_600
_BUFFER_BYTES: Final = 64 * 1024 * 1024
_SOL_PACKET: Final = 263
_PACKET_STATISTICS: Final = 6
_SO_RCVBUFFORCE: Final = 33
_WAKE_S: Final = 0.1
_SIZED: Final = frozenset((b"PUB", b"HPUB", b"MSG", b"HMSG", b"LMSG", b"RMSG"))
_INTEREST: Final = frozenset((b"SUB", b"UNSUB", b"LS+", b"LS-"))
_PINGS: Final = frozenset((b"PING", b"PONG"))
_ROOT: Final = b"otela.v1."
_LINE_BYTES_MAX: Final = 65_536
"""No line of NATS is longer: what is, is no NATS."""


class Segment(NamedTuple):
    """A TCP segment."""

    source: int
    target: int
    length: int
    payload: bytes


class Direction:
    """One direction of a connection, cut into NATS's messages."""

    def __init__(self) -> None:
        self._rest = b""
        self._is_encrypted = False

    def kinds(self, data: bytes) -> Counter[str]:
        """Return how many bytes of which kind are complete with *data*."""
        counted: Counter[str] = Counter()
        if self._is_encrypted:
            counted[ENCRYPTED] = len(data)
            return counted
        self._rest += data
        while True:
            line, found, after = self._rest.partition(b"\r\n")
            if not found:
                break
            words = line.split()
            size = int(words[-1]) + 2 if words and words[0].upper() in _SIZED else 0
            if len(after) < size:
                break
            counted[_kind(words)] += len(line) + 2 + size
            self._rest = after[size:]
        if self._rest[:1] in (b"\x16", b"\x17") or len(self._rest) > _LINE_BYTES_MAX:
            self._is_encrypted = True
            counted[ENCRYPTED] += len(self._rest)
            self._rest = b""
        return counted


class Tap:
    """What crossed since the last report."""

    def __init__(self, ports: frozenset[int]) -> None:
        self._ports = ports
        self._directions: dict[tuple[int, int], Direction] = {}
        self._counted: dict[str, Counter[str]] = {}
        self._since = time.monotonic()

    def take(self, packet: bytes) -> None:
        """Count an IP packet."""
        segment = _segment(packet)
        if segment is None:
            return
        source, target = segment.source, segment.target
        is_to_server = target in self._ports
        if not is_to_server and source not in self._ports:
            return
        server, client = (target, source) if is_to_server else (source, target)
        counted = self._counted.setdefault(f"{server} {client}", Counter())
        counted[HEADERS] += segment.length - len(segment.payload)
        if segment.payload:
            direction = self._directions.setdefault((source, target), Direction())
            counted.update(direction.kinds(segment.payload))

    def report(self, dropped: int) -> dict[str, object]:
        """Return what was counted, and begin anew."""
        now = time.monotonic()
        report = {
            "event": "counted",
            "at": now,
            "seconds": now - self._since,
            "dropped": dropped,
            "flows": self._counted,
        }
        self._counted, self._since = {}, now
        return report


def _kind(words: list[bytes]) -> str:
    verb = words[0].upper() if words else b""
    if verb in _SIZED:
        subject = words[1]
        if subject.startswith(_ROOT):
            return subject[len(_ROOT) :].partition(b".")[0].decode()
        return "accounts" if subject.startswith(b"$SYS") else "other"
    if verb in _INTEREST:
        return "interest"
    return "pings" if verb in _PINGS else "handshake"


def _segment(packet: bytes) -> Segment | None:
    if packet[9] != _TCP:
        return None
    header = (packet[0] & 15) * 4
    length = struct.unpack_from("!H", packet, 2)[0]
    source, target = struct.unpack_from("!HH", packet, header)
    begin = header + (packet[header + 12] >> 4) * 4
    return Segment(source, target, length, packet[begin:length])


def main() -> None:
    """Count until SIGTERM."""
    tap = Tap(frozenset(map(int, sys.argv[1:])))
    wanted: list[int] = []
    for number in (signal.SIGUSR1, signal.SIGTERM):
        signal.signal(number, lambda number, _frame: wanted.append(number))
    with socket.socket(
        socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_ALL_PROTOCOLS)
    ) as everything:
        everything.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
        everything.bind(("lo", 0))
        everything.settimeout(_WAKE_S)
        _tell({"event": "tapping", "at": time.monotonic()})
        while signal.SIGTERM not in wanted:
            try:
                packet, (_, _, kind, *_) = everything.recvfrom(_FRAME_BYTES_MAX)
            except TimeoutError:
                packet, kind = b"", _OUTGOING
            if kind != _OUTGOING:
                tap.take(packet)
            if signal.SIGUSR1 in wanted:
                wanted.remove(signal.SIGUSR1)
                _tell(tap.report(_dropped(everything)))


def _dropped(everything: socket.socket) -> int:
    _, dropped = struct.unpack("II", everything.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8))
    return int(dropped)


def _tell(line: dict[str, object]) -> None:
    sys.stdout.write(f"{msgspec.json.encode(line).decode()}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
