"""The demonstration is the product's own acceptance test: real engines, real sites, one death."""

import asyncio
import os
import sys

import pytest

pytestmark = [pytest.mark.nats, pytest.mark.engine, pytest.mark.slow]

DEMO_S = 240.0


@pytest.mark.timeout(DEMO_S + 30)
async def test_the_demonstration_succeeds() -> None:
    """Both sites answer, the death of an engine costs no request, and no process is left."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "opentela.cli", "demo"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "COLUMNS": "120"},
    )
    async with asyncio.timeout(DEMO_S):
        out, err = (part.decode() for part in await process.communicate())
    assert process.returncode == 0, f"{out}\n{err}"
    assert err == ""
    for line in ("leaf of alps over TCP", "leaf of jura over websocket", "6 asked, 6 answered"):
        assert line in out
    assert "no process is left" in out
