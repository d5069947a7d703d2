#!/usr/bin/env python3
"""Run a command whenever a session goes down, leaves or is suspected.

    python docs/examples/on_event.py mesh/access/tool.toml -- ./notify.sh

The command finds the event in its environment: OTELA_KIND, OTELA_SESSION, OTELA_PROVIDER,
OTELA_SITE, OTELA_NODE, OTELA_MODELS (with commas) and OTELA_REASON. One runs at a time, in order.
With --since-minutes 60 it first makes up for what happened while it did not run.
"""

import argparse
import asyncio
import os
import sys
from contextlib import aclosing
from datetime import timedelta

from opentela import events
from opentela.core.errors import OtelaError

KINDS: tuple[events.Kind, ...] = ("DOWN", "LEFT", "SUSPECTED")


async def react(access: str, since: timedelta | None, command: list[str]) -> None:
    """Run *command* for each event that matters, for ever."""
    async with aclosing(events.subscribe(access, since=since, kinds=KINDS)) as stream:
        async for event in stream:
            process = await asyncio.create_subprocess_exec(
                *command, env={**os.environ, **variables(event)}
            )
            if status := await process.wait():
                sys.stderr.write(f"{command[0]} ended with {status} for {event.id}\n")


def variables(event: events.LifecycleEvent) -> dict[str, str]:
    """Return *event* as environment variables."""
    return {
        "OTELA_KIND": event.kind,
        "OTELA_SESSION": event.session,
        "OTELA_PROVIDER": event.provider,
        "OTELA_SITE": event.site,
        "OTELA_NODE": event.node,
        "OTELA_MODELS": ",".join(event.models),
        "OTELA_REASON": event.reason,
    }


def main() -> int:
    """Read the arguments and react until interrupted."""
    parser = argparse.ArgumentParser(description="Run a command for lifecycle events.")
    parser.add_argument("access", help="access file of a tool")
    parser.add_argument("--since-minutes", type=float, default=0.0)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    minutes = options.since_minutes
    since = timedelta(minutes=minutes) if minutes else None
    try:
        asyncio.run(react(options.access, since, options.command))
    except KeyboardInterrupt:
        return 0
    except OtelaError as error:
        sys.stderr.write(f"on_event: {error.line()}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
