"""Other systems as baselines, each installed by pip into an environment of its own.

They are no dependency of the project: what stands here runs only when it is asked for.
"""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

import uvloop
from tests.bench.engine import MODEL
from tests.bench.load import FailedRequestError, Target, chat_request
from tests.e2e.processes import Process, free_port

ENVIRONMENTS: Final = Path("build/peers")
SGLANG_ROUTER: Final = "sglang-router"
VLLM_ROUTER: Final = "vllm-router"
_VERSIONS: Final = {SGLANG_ROUTER: "0.3.2", VLLM_ROUTER: "0.1.17"}
_LAUNCHERS: Final = {
    SGLANG_ROUTER: "sglang_router.launch_router",
    VLLM_ROUTER: "vllm_router.launch_router",
}
_QUIETLY: Final = {SGLANG_ROUTER: "warn", VLLM_ROUTER: "warning"}
NAMES: Final = tuple(_VERSIONS)
UP_WITHIN_S: Final = 30.0


class Peer(NamedTuple):
    """Another system in front of the same engine."""

    name: str
    port: int
    pid: int


def install(name: str) -> Path:
    """Return the Python in which peer *name* is installed, at the version that is compared."""
    folder = (ENVIRONMENTS / name).absolute()
    python = folder / "bin" / "python"
    wanted = f"{name}=={_VERSIONS[name]}"
    stamp = folder / "installed"
    if not stamp.exists() or stamp.read_text() != wanted:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        subprocess.run(
            [python, "-m", "pip", "install", "--quiet", wanted], check=True, capture_output=True
        )
        stamp.write_text(wanted)
    return python


def start(name: str, engine_url: str, folder: Path) -> tuple[Process, int]:
    """Start peer *name* before one engine; return it and its port, not yet waited for."""
    port, metrics_port = free_port(), free_port()
    argv = [
        *(str(install(name)), "-m", _LAUNCHERS[name], "--host", "127.0.0.1"),
        *("--port", str(port), "--prometheus-port", str(metrics_port)),
        *("--worker-urls", engine_url, "--policy", "round_robin"),
        *("--log-level", _QUIETLY[name]),
    ]
    return Process(name, argv, log=folder / f"{name}.log"), port


def when_up(name: str, process: Process, port: int) -> Peer:
    """Return the peer once it answers a request.

    Raises:
        RuntimeError: It does not, for `UP_WITHIN_S`.
    """
    probe = Target(name, "127.0.0.1", port, chat_request(MODEL, stream=False))

    async def wait() -> None:
        async with asyncio.timeout(UP_WITHIN_S):
            while True:
                try:
                    await probe.once()
                except (OSError, FailedRequestError):
                    await asyncio.sleep(0.1)
                else:
                    return

    try:
        uvloop.run(wait())
    except TimeoutError:
        raise RuntimeError(process.tail()) from None
    return Peer(name, port, process.pid)
