"""How every process of ours begins, is told to stop, and ends.

`run` owns the event loop, the signals and what is printed about a failure; a service is one
coroutine that gets a `Lifecycle` and returns when it is done.
"""

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import click
import uvloop

from opentela.explain import explain, warn
from opentela.telemetry import log as logs
from opentela.telemetry.config import LogConfig
from opentela.telemetry.health import HealthPage

log: Final = logs.get_logger()

_SIGNALLED: Final = 128
"""Shells report a process that a signal ended as 128 and the signal's number."""
ECHO_S: Final = 0.5
"""A signal so soon after another is the same one: `timeout` and `srun` pass on what the whole
process group has got already."""
HASTE_S: Final = 3.0
"""After a second signal, clean-up has this long before the process is ended under it."""


class SystemClock:
    """The clocks of this host."""

    # The functions themselves: a router asks ten times a request.
    now = staticmethod(time.monotonic)
    wall = staticmethod(time.time)


class Lifecycle:
    """What a running service and its surroundings tell each other.

    Attributes:
        stopping: Set when the service was asked to end: finish what runs, then return.
        health: The health page; not listening before `health.open(config)`.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.stopping = asyncio.Event()
        self.health = HealthPage(name)

    def ready(self, flag: bool, reason: str = "") -> None:  # noqa: FBT001 - reads as a fact
        """State whether the service takes work; shown by `/readyz`."""
        self.health.set_ready(flag, reason)


Main = Callable[[Lifecycle], Awaitable[None]]


def run(
    main: Main, *, name: str, log_config: LogConfig | None = None, tell: logs.Tell | None = None
) -> None:
    """Run *main* until it returns; the first SIGTERM or SIGINT asks it to, the second ends it.

    What is logged goes to *tell*, if that is given, and else to stderr.

    Raises:
        SystemExit: *main* failed as `OtelaError`s do: one line was printed, and this is the code.
    """
    logs.configure(service=name, config=log_config or LogConfig(), tell=tell)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            signalled = runner.run(_supervised(main, name))
    except BaseException as error:
        code = explain(error, _shown(name))
        if code is None:
            raise
        raise SystemExit(code) from None
    if signalled:
        raise SystemExit(signalled)


def run_for_people(main: Main, *, name: str) -> None:
    """Run *main* like `run`; of what is logged only warnings are told, in a line each.

    What a person asked for stands on stdout; only what is wrong is added.
    """

    def tell(event: Mapping[str, Any]) -> None:
        warn(event, _shown(name))

    run(main, name=name, log_config=LogConfig(level="warning"), tell=tell)


def _shown(name: str) -> str:
    """Return the command as it was typed, which need not be called as the service is."""
    context = click.get_current_context(silent=True)
    return context.command_path if context else name


async def _supervised(main: Main, name: str) -> int:
    """Return 0, or what to exit with when a second signal cut *main* short."""
    lifecycle = Lifecycle(name)
    task = asyncio.ensure_future(main(lifecycle))
    haste = 0
    heard_at = -ECHO_S

    def on_signal(number: int) -> None:
        nonlocal haste, heard_at
        if loop.time() < heard_at + ECHO_S:
            return
        heard_at = loop.time()
        if not lifecycle.stopping.is_set():
            log.info("stop_requested", signal=signal.Signals(number).name)
            lifecycle.stopping.set()
        elif not haste:
            haste = _SIGNALLED + number
            log.warning("stop_forced", signal=signal.Signals(number).name)
            task.cancel()
            loop.call_later(HASTE_S, os._exit, haste)
        else:
            os._exit(haste)

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    try:
        await task
    except asyncio.CancelledError:
        if not haste:
            raise
    finally:
        if lifecycle.health.is_ready:
            lifecycle.ready(flag=False, reason="stopped")
        await lifecycle.health.close()
    return haste
