"""A real llama.cpp behind `otela start`, on a real mesh."""

import json
import sys

import pytest
from tests.integration.supervisor.conftest import Ask, Start, Witness

from opentela.core.record import Lifecycle
from opentela.testing.waiting import until
from opentela.wire import frames

pytestmark = [pytest.mark.nats, pytest.mark.engine]

LLAMA = (sys.executable, "-m", "opentela.testing.llama_engine", "--port", "{port}")


async def test_a_real_engine_is_read_asked_drained_and_left(
    start: Start, witness: Witness, ask: Ask
) -> None:
    """What is offered is what llama.cpp says of itself; its answer is finished before the end."""
    supervisor = await start(*LLAMA, "--alias", "tiny", "--threads", "1")
    joining = await witness.heard(Lifecycle.JOINING)
    assert [model.name for model in joining.offer.models] == ["tiny"]
    serving = await witness.heard(Lifecycle.SERVING, within_s=60.0)
    (model,) = serving.offer.models
    assert (model.name, model.context_max, model.quantisation) == ("tiny", 2048, "q4_1")
    assert len(model.fingerprint) == 32
    assert serving.offer.engine == "llamacpp"
    assert serving.offer.kv_tokens == 2048
    assert serving.offer.engine_version
    await supervisor.engine()
    asker = await ask(serving, stream=True, max_tokens=64, temperature=0)
    await asker.got(frames.Data)
    await until(lambda: any(beat.running == 1 for _, beat in witness.beats), "load in beats")
    supervisor.process.terminate()
    await witness.heard(Lifecycle.DRAINING)
    await asker.got(frames.End, within_s=30.0)
    assert await supervisor.ended() == 0, supervisor.said()
    await witness.heard(Lifecycle.LEFT)
    assert supervisor.alive() == []
    answer = b"".join(frame.data for frame in asker.frames if isinstance(frame, frames.Data))
    *chunks, done = [part.removeprefix(b"data: ") for part in answer.split(b"\n\n") if part]
    assert done == b"[DONE]"
    assert json.loads(chunks[-1])["choices"][0]["finish_reason"] in ("length", "stop")
    assert witness.lives() == {serving.session: ["JOINING", "SERVING", "DRAINING", "LEFT"]}
