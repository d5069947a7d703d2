"""Other systems as baselines, each installed by pip into an environment of its own.

They are no dependency of the project: what stands here runs only when it is asked for.

Each runs as it comes, with the policy and the log of its defaults, because so does ours: a line of
log a request is a third of what sglang-router costs. What it costs without stands beside it.
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
SILENT_SGLANG: Final = "silent sglang-router"
"""Without a log of its requests, and with round robin instead of a tree of prompts."""
VLLM_ROUTER: Final = "vllm-router"


class Setup(NamedTuple):
    """What is installed and how it is started."""

    package: str
    version: str
    launcher: str
    options: tuple[str, ...] = ()


SETUPS: Final = {
    SGLANG_ROUTER: Setup("sglang-router", "0.3.2", "sglang_router.launch_router"),
    SILENT_SGLANG: Setup(
        *("sglang-router", "0.3.2", "sglang_router.launch_router"),
        ("--policy", "round_robin", "--log-level", "warn"),
    ),
    VLLM_ROUTER: Setup("vllm-router", "0.1.17", "vllm_router.launch_router"),
}
NAMES: Final = tuple(SETUPS)
UP_WITHIN_S: Final = 30.0


class Peer(NamedTuple):
    """Another system in front of the same engine."""

    name: str
    port: int
    pid: int


def install(name: str) -> Path:
    """Return the Python in which peer *name* is installed, at the version that is compared."""
    setup = SETUPS[name]
    folder = (ENVIRONMENTS / setup.package).absolute()
    python = folder / "bin" / "python"
    wanted = f"{setup.package}=={setup.version}"
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
        *(str(install(name)), "-m", SETUPS[name].launcher, "--host", "127.0.0.1"),
        *("--port", str(port), "--prometheus-port", str(metrics_port)),
        *("--worker-urls", engine_url, *SETUPS[name].options),
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
