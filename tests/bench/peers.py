"""Other systems as baselines, each installed by pip into an environment of its own.

They are no dependency of the project: what stands here runs only when it is asked for.
"""

import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.e2e.processes import Process, free_port

ENVIRONMENTS: Final = Path("build/peers")
SGLANG_ROUTER: Final = "sglang-router"
_VERSIONS: Final = {SGLANG_ROUTER: "0.3.2"}
NAMES: Final = tuple(_VERSIONS)


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
    assert name == SGLANG_ROUTER, name
    port, metrics_port = free_port(), free_port()
    argv = [
        *(str(install(name)), "-m", "sglang_router.launch_router", "--host", "127.0.0.1"),
        *("--port", str(port), "--prometheus-port", str(metrics_port)),
        *("--worker-urls", engine_url, "--policy", "round_robin", "--log-level", "warn"),
    ]
    return Process(name, argv, log=folder / f"{name}.log"), port
