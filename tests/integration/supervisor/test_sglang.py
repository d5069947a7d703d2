"""A real SGLang on a CPU, alone and behind `otela start`; `make engines` makes its environment.

The contract of `test_engine_contract.py` is run on it too; where SGLang differs, a test says how.
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
from tests.integration.supervisor.conftest import Ask, Start, Witness
from tests.integration.supervisor.test_engine_contract import (
    chat,
    running_requests,
    test_a_chat_answer_in_one_piece_carries_its_usage,
    test_a_chat_stream_ends_with_its_reason_its_usage_and_done,
    test_a_text_completion_answers_whole_and_streamed,
    test_models_are_listed_under_the_name_that_was_given,
)

from opentela.core.record import Lifecycle, Parallelism
from opentela.supervisor import ports, proctree
from opentela.testing.waiting import until
from opentela.wire import frames

SGLANG = Path(os.environ.get("OTELA_TEST_SGLANG", ""))
MODEL = Path(os.environ.get("OTELA_TEST_VLLM", "")) / "tiny"
STARTED_WITHIN_S = 300.0
VERSION = "0.5.23"
KV_TOKENS = 4096
OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
OPTIONS = (
    "--served-model-name=tiny",
    "--device=cpu",
    "--attention-backend=torch_native",
    "--cuda-graph-backend-decode=disabled",
    "--disable-overlap-schedule",
    "--mem-fraction-static=0.05",
    f"--max-total-tokens={KV_TOKENS}",
    "--decode-log-interval=1",
    "--enable-metrics",
)
# It shares two cores with the tests, and is given more time than the fake.
PATIENT = ("--set", "watch.probe_timeout_s=5", "--set", "watch.hang_s=20")

pytestmark = [
    pytest.mark.nats,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        not SGLANG.name, reason="OTELA_TEST_SGLANG names no environment: make engines"
    ),
]

__all__ = [
    "test_a_chat_answer_in_one_piece_carries_its_usage",
    "test_a_chat_stream_ends_with_its_reason_its_usage_and_done",
    "test_a_text_completion_answers_whole_and_streamed",
    "test_models_are_listed_under_the_name_that_was_given",
]


def command(port: str) -> list[str]:
    python = str(SGLANG / "bin" / "python")
    where = ["--model-path", str(MODEL), "--host", "127.0.0.1", "--port", port]
    return [python, "-m", "sglang.launch_server", *where, *OPTIONS]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One engine for the whole contract: it takes a minute to start."""
    log = tmp_path_factory.mktemp("sglang") / "log"
    with ports.pick(20000, 32767, random.SystemRandom()) as held:
        port = held.number
    with log.open("wb") as output:
        process = subprocess.Popen(
            command(str(port)),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, **OFFLINE},
            start_new_session=True,
        )
    family = []

    def is_up() -> bool:
        assert process.poll() is None, log.read_text()
        return b"ready to roll" in log.read_bytes()

    try:
        asyncio.run(until(is_up, "SGLang", within_s=STARTED_WITHIN_S))
        family = proctree.descendants(process.pid)
        yield f"http://127.0.0.1:{port}"
    finally:
        for one in (*family, *proctree.descendants(process.pid)):
            proctree.send(one, signal.SIGKILL)
        process.kill()
        process.wait()


@pytest.fixture
async def http(url: str) -> AsyncIterator[aiohttp.ClientSession]:
    timeout = aiohttp.ClientTimeout(total=60)
    async with aiohttp.ClientSession(url, timeout=timeout) as session:
        yield session


async def test_it_says_what_the_adapter_reads(http: aiohttp.ClientSession) -> None:
    """Under the names that the adapter looks for; a release that renames one is noticed here."""
    async with http.get("/server_info") as answer:
        info = await answer.json()
    assert (info["version"], info["max_total_num_tokens"]) == (VERSION, KV_TOKENS)
    assert {"tp_size", "pp_size", "dp_size", "quantization", "model_path"} <= set(info)
    async with http.get("/v1/models") as answer:
        (model,) = (await answer.json())["data"]
    assert (model["owned_by"], model["max_model_len"]) == ("sglang", 2048)
    async with http.get("/health") as answer:
        assert answer.status == 200


async def test_a_body_that_is_no_json_is_the_callers_fault(http: aiohttp.ClientSession) -> None:
    """SGLang's error is no object of OpenAI's, as the others' are: routers pass it on all the
    same."""
    async with http.post("/v1/chat/completions", data=b"{nonsense") as answer:
        assert 400 <= answer.status < 500


async def test_an_engine_that_loses_its_client_stops_computing(
    http: aiohttp.ClientSession,
) -> None:
    """An abandoned stream frees the engine within seconds, seen in its own metrics."""
    asked = chat(max_tokens=1500, stream=True, ignore_eos=True)
    answer = await http.post("/v1/chat/completions", json=asked)
    await answer.content.readany()

    async def has(count: int) -> bool:
        return await running_requests(http) == count

    await until(lambda: has(1), "a busy engine", within_s=5.0)
    answer.close()
    await until(lambda: has(0), "an idle engine", within_s=5.0)


async def test_sglang_is_loaded_read_asked_cancelled_drained_and_left(
    start: Start, witness: Witness, ask: Ask
) -> None:
    """What is offered is what it says of itself; nothing of it is left."""
    supervisor = await start(*command("{port}"), options=PATIENT, environ=OFFLINE)
    joining = await witness.heard(Lifecycle.JOINING)
    assert ([one.name for one in joining.offer.models], joining.offer.engine) == (
        ["tiny"],
        "sglang",
    )
    serving = await witness.heard(Lifecycle.SERVING, within_s=STARTED_WITHIN_S)
    (model,) = serving.offer.models
    assert (model.name, model.context_max) == ("tiny", 2048)
    assert len(model.fingerprint) == 32
    assert serving.offer.engine_version == VERSION
    assert serving.offer.kv_tokens == KV_TOKENS
    assert serving.offer.parallelism == Parallelism(tensor=1, pipeline=1, data=1)
    _, url = await supervisor.engine()
    answered = await ask(serving, max_tokens=8, temperature=0)
    await answered.finished(60.0)

    witness.beats.clear()
    endless = await ask(serving, stream=True, max_tokens=1500, ignore_eos=True)
    await endless.got(frames.Data)
    await until(lambda: any(beat.running == 1 for _, beat in witness.beats), "load in beats")
    await endless.cancel()
    async with aiohttp.ClientSession(url) as http:

        async def is_idle() -> bool:
            return await running_requests(http) == 0

        await until(is_idle, "an idle engine", within_s=5.0)

    last = await ask(serving, stream=True, max_tokens=100, ignore_eos=True)
    await last.got(frames.Data)
    supervisor.remember()
    supervisor.process.terminate()
    await witness.heard(Lifecycle.DRAINING)
    await last.got(frames.End, within_s=30.0)
    assert await supervisor.ended(60.0) == 0, supervisor.said()
    await witness.heard(Lifecycle.LEFT)
    await until(lambda: supervisor.alive() == [], "the end of all")
