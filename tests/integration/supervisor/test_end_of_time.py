"""`otela start` near the end of its time: what would not be finished is refused; ends move."""

import os
import signal
from pathlib import Path

import pytest
from tests.integration.supervisor.conftest import FAKE, Ask, Start, Witness

from opentela.core.record import Lifecycle
from opentela.supervisor import pod
from opentela.testing.waiting import until
from opentela.wire import frames
from opentela.wire.frames import FailKind

pytestmark = pytest.mark.nats

ENOUGH = 8
"""Answers from which the engine's pace is known."""


async def test_a_request_that_would_outlast_the_session_is_refused_and_a_shorter_one_served(
    start: Start, witness: Witness, ask: Ask
) -> None:
    """Surely not begun, and another session may do: its router tries one at once."""
    slow = (*FAKE, "--tokens", "4", "--tpot-ms", "10")
    await start(*slow, options=("--walltime", "60s"))
    serving = await witness.heard(Lifecycle.SERVING)
    early = await ask(serving, max_tokens=100_000)
    await early.finished()
    for _ in range(ENOUGH):
        await (await ask(serving, max_tokens=4)).finished()
    long = await ask(serving, max_tokens=100_000)
    fail = await long.got(frames.Fail)
    assert (fail.kind, fail.definite, fail.retryable) == (FailKind.REFUSED, True, True)
    assert "the session leaves in" in fail.message
    await (await ask(serving, max_tokens=4)).finished()


def informed(folder: Path, **files: str) -> dict[str, str]:
    """Write what a downward volume of a pod holds."""
    for name, text in files.items():
        (folder / name).write_text(text)
    return {pod.FOLDER_VARIABLE: str(folder)}


async def test_a_pods_deadline_is_offered_followed_and_left_before(
    start: Start, witness: Witness, tmp_path: Path
) -> None:
    """Counted from the pod's start, which was before ours, also after an edit."""
    file = tmp_path / "deadline_s"
    environ = informed(tmp_path, deadline_s="3600")
    began = file.stat().st_mtime - 1000.0
    os.utime(file, (began, began))
    quick = ("--set", "walltime.reserve_s=0.5", "--set", "walltime.margin_s=0.5")
    options = ("--set", "walltime.look_s=0.1", *quick)
    supervisor = await start(*FAKE, options=options, environ=environ)
    serving = await witness.heard(Lifecycle.SERVING)
    assert serving.offer.walltime_ends_at == pytest.approx(began + 3600.0)
    file.write_text("1800")
    await until(
        lambda: witness.claims[-1].offer.walltime_ends_at == pytest.approx(began + 1800.0),
        "the new end",
    )
    assert witness.claims[-1].lifecycle is Lifecycle.SERVING
    assert (await supervisor.event("walltime_moved"))["ends_at"]
    file.write_text("1000")
    assert (await witness.heard(Lifecycle.LEFT)).reason == "the walltime ends"
    assert await supervisor.ended() == 0


async def test_the_grace_of_a_pod_is_time_for_running_requests(
    start: Start, witness: Witness, ask: Ask, tmp_path: Path
) -> None:
    """After SIGTERM a long answer is finished; the engine's own end has its time, too."""
    slow = (*FAKE, "--tokens", "30", "--tpot-ms", "100")
    environ = informed(tmp_path, grace_s="60")
    brief = ("--set", "drain.limit_s=0.5")
    supervisor = await start(*slow, options=brief, environ=environ)
    asker = await ask(await witness.heard(Lifecycle.SERVING), stream=True)
    await asker.got(frames.Data)
    supervisor.process.send_signal(signal.SIGTERM)
    await asker.got(frames.End)
    assert await supervisor.ended() == 0


async def test_a_grace_that_is_too_short_is_refused_at_the_start(
    start: Start, tmp_path: Path
) -> None:
    """Not when it is too late."""
    supervisor = await start(*FAKE, environ=informed(tmp_path, grace_s="5"))
    assert await supervisor.ended() == 2
    assert "terminationGracePeriodSeconds" in supervisor.said()
