"""Reads every packet of an interface and tells whether words crossed it in the clear.

`python -m tests.e2e.sniffer DEVICE WORD…` runs until SIGTERM, then prints one JSON object:
`bytes` that passed, and for each word how many packets held it. Needs root.
"""

import json
import signal
import socket
import sys
from typing import Final

_ALL_PROTOCOLS: Final = 0x0003
_FRAME_BYTES_MAX: Final = 65536
_WAKE_S: Final = 0.1


def main() -> None:
    """Count until asked to stop."""
    device, *words = sys.argv[1:]
    seen, total, is_stopping = dict.fromkeys(words, 0), 0, False

    def stop(_signal: int, _frame: object) -> None:
        nonlocal is_stopping
        is_stopping = True

    signal.signal(signal.SIGTERM, stop)
    with socket.socket(
        socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_PROTOCOLS)
    ) as everything:
        everything.bind((device, 0))
        everything.settimeout(_WAKE_S)
        sys.stdout.write("sniffing\n")
        sys.stdout.flush()
        while not is_stopping:
            try:
                frame = everything.recv(_FRAME_BYTES_MAX)
            except TimeoutError:
                continue
            total += len(frame)
            for word in words:
                seen[word] += word.encode() in frame
    json.dump({"bytes": total, "words": seen}, sys.stdout)


if __name__ == "__main__":
    main()
