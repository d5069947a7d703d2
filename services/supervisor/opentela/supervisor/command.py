"""The engine's command: checked before anything else, and passed on word by word.

No shell reads it: quotes, blanks, dollar signs and braces reach the engine as they were given.
Only the word `{port}` in it is replaced.
"""

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from opentela.core.errors import EngineError, UsageError
from opentela.supervisor.engines.base import EngineAdapter, option

PORT_WORD: Final = "{port}"
_LOOPBACK: Final = "127.0.0.1,localhost,::1"


def check(argv: Sequence[str], environ: Mapping[str, str]) -> None:
    """Check that *argv* names a program that can be run.

    Raises:
        UsageError: There is no command.
        EngineError: There is no such program, or it may not be run.
    """
    if not argv:
        raise UsageError(
            "no command", remedy="write it after --, as in: otela start -- vllm serve …"
        )
    program = argv[0]
    if shutil.which(program, path=environ.get("PATH", os.defpath)):
        return
    if os.sep not in program:
        raise EngineError(
            f"{program}: command not found",
            remedy="load the module or activate the environment that has it, or give its full path",
        )
    if Path(program).exists():
        raise EngineError(f"{program}: not an executable file", remedy=f"chmod +x {program}")
    raise EngineError(f"{program}: no such file", remedy="check the path")


def fixed_port(argv: Sequence[str], configured: int, adapter: EngineAdapter) -> int:
    """Return the port that the command insists on; 0 when it takes the one that we pick."""
    if any(PORT_WORD in word for word in argv):
        return 0
    given = option(argv, "--port")
    if given.isdecimal():
        return int(given)
    if configured:
        return configured
    # Without a word about it, an engine uses its usual port, unless a variable can move it.
    return 0 if adapter.port_variables else adapter.port


def with_port(argv: Sequence[str], port: int) -> list[str]:
    """Return *argv* with the port in place of `{port}`, everything else as it is."""
    return [word.replace(PORT_WORD, str(port)) for word in argv]


def environment(
    environ: Mapping[str, str],
    *,
    adapter: EngineAdapter,
    port: int,
    key: str,
    caches: Mapping[str, str],
) -> dict[str, str]:
    """Return the engine's environment: ours, and what we add.

    Args:
        environ: Ours.
        adapter: Knows by which variables the engine takes port and key.
        port: Offered as `$OTELA_PORT` and `$PORT` too.
        key: The API key; empty for none.
        caches: Variables of caches; those that are set already stay as they are.
    """
    added = {"OTELA_PORT": str(port), "PORT": str(port)}
    added.update(dict.fromkeys(adapter.port_variables, str(port)))
    if key:
        added[adapter.key_variable] = key
    # A progress that sits in a buffer is none.
    defaults = {"PYTHONUNBUFFERED": "1", **caches}
    return {**defaults, **environ, **added, **_direct(environ)}


def _direct(environ: Mapping[str, str]) -> dict[str, str]:
    """Return variables that keep proxies out of conversations on this host."""
    return {
        name: ",".join(filter(None, (environ.get(name, ""), _LOOPBACK)))
        for name in ("no_proxy", "NO_PROXY")
        if name in environ
        or any(word in environ for word in ("http_proxy", "HTTP_PROXY", "all_proxy"))
    }
