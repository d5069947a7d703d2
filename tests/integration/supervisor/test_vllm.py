"""A real vLLM, alone and behind `otela start`; `make engines` makes the environment that it needs.

The contract of `test_engine_contract.py` is run on it too; where vLLM differs, a test says how.
"""

import asyncio
import os
import random
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest
from tests.integration.supervisor.conftest import Ask, Asker, Start, Supervisor, Witness
from tests.integration.supervisor.test_engine_contract import (
    KEY,
    chat,
    running_requests,
    test_a_body_that_is_no_json_is_the_callers_fault,
    test_a_chat_answer_in_one_piece_carries_its_usage,
    test_a_chat_stream_ends_with_its_reason_its_usage_and_done,
    test_a_text_completion_answers_whole_and_streamed,
    test_an_engine_that_loses_its_client_stops_computing,
    test_models_are_listed_under_the_name_that_was_given,
)

from opentela.core.record import Claim, Lifecycle, Parallelism
from opentela.supervisor import ports, proctree
from opentela.testing.waiting import until
from opentela.wire import frames

VLLM = Path(os.environ.get("OTELA_TEST_VLLM", ""))
STARTED_WITHIN_S = 300.0
OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "OMP_NUM_THREADS": "1",
}
OPTIONS = (
    "--served-model-name=tiny",
    "--dtype=bfloat16",
    "--max-model-len=1024",
    "--max-num-seqs=8",
    "--enforce-eager",
    "--kv-cache-memory-bytes=67108864",
)
# It shares two cores with the tests, and is given more time than the fake.
PATIENT = ("--set", "watch.probe_timeout_s=5", "--set", "watch.hang_s=20")

pytestmark = [
    pytest.mark.nats,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not VLLM.name, reason="OTELA_TEST_VLLM names no environment: make engines"),
]

__all__ = [
    "test_a_body_that_is_no_json_is_the_callers_fault",
    "test_a_chat_answer_in_one_piece_carries_its_usage",
    "test_a_chat_stream_ends_with_its_reason_its_usage_and_done",
    "test_a_text_completion_answers_whole_and_streamed",
    "test_an_engine_that_loses_its_client_stops_computing",
    "test_models_are_listed_under_the_name_that_was_given",
]


def command(port: str) -> list[str]:
    program, model = str(VLLM / "bin" / "vllm"), str(VLLM / "tiny")
    return [program, "serve", model, "--host", "127.0.0.1", "--port", port, *OPTIONS]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One engine for the whole contract: it takes a minute to start."""
    log = tmp_path_factory.mktemp("vllm") / "log"
    with ports.pick(20000, 32767, random.SystemRandom()) as held:
        port = held.number
    with log.open("wb") as output:
        process = subprocess.Popen(
            command(str(port)),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, **OFFLINE, "VLLM_API_KEY": KEY},
            start_new_session=True,
        )

    def is_up() -> bool:
        assert process.poll() is None, log.read_text()
        return b"Application startup complete" in log.read_bytes()

    try:
        asyncio.run(until(is_up, "vLLM", within_s=STARTED_WITHIN_S))
        yield f"http://127.0.0.1:{port}"
        process.terminate()
        assert process.wait(30) == 0, log.read_text()
    finally:
        for one in proctree.descendants(process.pid):
            proctree.send(one, signal.SIGKILL)
        process.kill()
        process.wait()


@pytest.fixture
async def http(url: str) -> AsyncIterator[aiohttp.ClientSession]:
    headers = {"Authorization": f"Bearer {KEY}"}
    timeout = aiohttp.ClientTimeout(total=60)
    async with aiohttp.ClientSession(url, headers=headers, timeout=timeout) as session:
        yield session


async def test_the_key_guards_what_lies_under_v1_and_little_else(url: str) -> None:
    """Anybody on the host reads metrics and has answers by another path: SECURITY.md says so."""
    async with aiohttp.ClientSession(url) as stranger:
        for path in ("/health", "/metrics", "/version"):
            async with stranger.get(path) as answer:
                assert answer.status == 200, path
        async with stranger.post("/invocations", json=chat(max_tokens=2)) as answer:
            assert answer.status == 200
        async with stranger.get("/v1/models") as answer:
            assert answer.status == 401
        async with stranger.post("/v1/chat/completions", json=chat(max_tokens=2)) as answer:
            assert answer.status == 401


async def asked(ask: Ask, serving: Claim, **fields: object) -> Asker:
    return await ask(serving, temperature=0, ignore_eos=True, **fields)


async def test_vllm_is_loaded_read_asked_cancelled_replaced_drained_and_left(
    start: Start, witness: Witness, ask: Ask, tmp_path: Path
) -> None:
    """One life of each kind, since each start takes a minute."""
    token = tmp_path / "token"
    token.touch(0o600)
    token.write_text("t0ken")
    options = (*PATIENT, "--set", f"health.token_file={token}")
    supervisor = await start(*command("{port}"), options=options, environ=OFFLINE)
    joining = await witness.heard(Lifecycle.JOINING)
    assert [model.name for model in joining.offer.models] == ["tiny"]
    assert joining.offer.engine == "vllm"
    serving = await witness.heard(Lifecycle.SERVING, within_s=STARTED_WITHIN_S)
    (model,) = serving.offer.models
    assert (model.name, model.context_max) == ("tiny", 1024)
    assert len(model.fingerprint) == 32
    assert serving.offer.engine_version == "0.32.0"
    assert serving.offer.kv_tokens > 0
    assert serving.offer.parallelism == Parallelism(tensor=1, pipeline=1, data=1)
    _, page = await supervisor.page("/status", token="t0ken")
    assert page["engine"]["progress"], page["log"]
    pid, url = await supervisor.engine()

    answered = await asked(ask, serving, max_tokens=8)
    await answered.finished()
    (head,) = [one for one in answered.frames if isinstance(one, frames.Head)]
    assert head.status == 200

    await cancels(ask, serving, witness, url)
    second = await replaces(supervisor, serving, witness)
    assert pid not in supervisor.alive()
    assert second.offer.models == serving.offer.models

    # What runs is finished before the engine is stopped.
    last = await asked(ask, second, stream=True, max_tokens=400)
    await last.got(frames.Data)
    supervisor.process.terminate()
    await witness.heard(Lifecycle.DRAINING)
    await last.got(frames.End, within_s=30.0)
    assert await supervisor.ended(60.0) == 0, supervisor.said()
    await witness.heard(Lifecycle.LEFT, not_of=serving.session)
    await until(lambda: supervisor.alive() == [], "the end of all")


async def cancels(ask: Ask, serving: Claim, witness: Witness, url: str) -> None:
    """A cancelled request stops computing; only then is the engine idle again."""
    witness.beats.clear()
    endless = await asked(ask, serving, stream=True, max_tokens=1000)
    await endless.got(frames.Data)
    await until(lambda: any(beat.running == 1 for _, beat in witness.beats), "load in beats")
    assert any(beat.kv_used >= 0 for _, beat in witness.beats)
    await endless.cancel()
    async with aiohttp.ClientSession(url) as http:

        async def is_idle() -> bool:
            return await running_requests(http) == 0

        await until(is_idle, "an idle engine", within_s=2.0)


async def replaces(supervisor: Supervisor, serving: Claim, witness: Witness) -> Claim:
    """The process that computes dies; the one that answers HTTP lives on for a while."""
    supervisor.remember()
    before = supervisor.alive()
    core = next(one for one in supervisor.family if b"EngineCore" in comm(one.pid))
    proctree.send(core, signal.SIGKILL)
    down = await witness.heard(Lifecycle.DOWN, within_s=60.0)
    assert down.session == serving.session
    second = await witness.heard(
        Lifecycle.SERVING, not_of=serving.session, within_s=STARTED_WITHIN_S
    )
    supervisor.remember()
    assert set(supervisor.alive()) & set(before) == set()
    return second


def comm(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
