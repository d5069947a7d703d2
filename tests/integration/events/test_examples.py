"""The examples of docs/ do what they say, as processes on a real mesh."""

import asyncio
import json
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.integration.events.test_events import kept  # noqa: F401  a fixture
from tests.integration.registry.field import QUICK, Field, new_owner

from opentela.core.record import Lifecycle
from opentela.mesh import access as accesses
from opentela.registry.config import DetectorConfig
from opentela.testing.mesh import until

pytestmark = pytest.mark.nats

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
PATIENT = replace(QUICK, detector=DetectorConfig(grace_s=600.0))
"""What went down is not laid to rest while the example starts."""
NOTE = """\
import json, os, sys
told = {key: value for key, value in os.environ.items() if key.startswith("OTELA_")}
with open(sys.argv[1], "a") as file:
    file.write(json.dumps(told) + "\\n")
"""


async def test_a_command_runs_for_each_session_that_ends(
    kept: Field,  # noqa: F811
    tmp_path: Path,
) -> None:
    """With what happened in its environment; also for what happened before."""
    tool, notes = tmp_path / "tool.toml", tmp_path / "notes"
    accesses.write(tool, kept.mesh.access(role="tool"))
    notes.touch()

    def noted() -> list[dict[str, str]]:
        return [json.loads(line) for line in notes.read_text().splitlines()]

    async with kept.registry(config=PATIENT) as registry:
        await until(lambda: registry.status()["events_kept"] == "yes")
        before, after = new_owner(models=("m", "n")), new_owner()
        async with kept.session(before) as session:
            await session.say(Lifecycle.DOWN, reason="engine was ended")
            await until(lambda: registry.status()["sessions"] == 1)
            async with example("on_event.py", tool, notes):
                await until(lambda: len(noted()) == 1)
                async with kept.session(after) as other:
                    await other.say(Lifecycle.LEFT)
                    await until(lambda: len(noted()) == 2)
    first, second = noted()
    assert (first["OTELA_KIND"], first["OTELA_SESSION"]) == ("DOWN", before.claim.session)
    assert (first["OTELA_MODELS"], first["OTELA_REASON"]) == ("m,n", "engine was ended")
    assert (second["OTELA_KIND"], second["OTELA_SESSION"]) == ("LEFT", after.claim.session)


@asynccontextmanager
async def example(name: str, tool: Path, notes: Path):  # type: ignore[no-untyped-def]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(EXAMPLES / name), "--since-minutes", "60", str(tool)),
        *("--", sys.executable, "-c", NOTE, str(notes)),
    )
    try:
        yield
    finally:
        process.kill()
        await process.wait()


async def test_an_example_without_a_mesh_says_so(tmp_path: Path) -> None:
    """In one line."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(EXAMPLES / "on_event.py"), str(tmp_path / "none"), "true"),
        stderr=asyncio.subprocess.PIPE,
    )
    _, err = await process.communicate()
    assert process.returncode == 1
    assert err.decode().startswith("on_event: ")
    assert err.count(b"\n") == 1
