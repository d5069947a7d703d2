"""Progress is what counts: while loading, while serving, and beside an engine that has ended."""

import contextlib
import os
import signal
from typing import Final

import pytest
from tests.integration.supervisor.conftest import FAKE, Ask, Start, Supervisor, Witness
from tests.integration.supervisor.test_start import steer

from opentela.core.record import Claim, Lifecycle
from opentela.testing.waiting import until
from opentela.wire import frames

pytestmark = pytest.mark.nats

# A quarter of an hour becomes two seconds.
STALL: Final = ("--set", "watch.load_stall_s=2")


class TestLoading:
    """It may take an hour, but not be silent for a quarter of one."""

    async def test_an_engine_may_load_for_many_times_the_limit_while_it_says_how_far_it_is(
        self, start: Start, witness: Witness
    ) -> None:
        """Nothing is restarted, and the way there can be watched."""
        loading = ("--load-ms", "5000", "--load-steps", "25")
        supervisor = await start(*FAKE, *loading, options=STALL)
        await supervisor.event("engine_started")
        shares: list[float] = []

        async def is_serving() -> bool:
            _, page = await supervisor.page("/status")
            if page.get("engine", {}).get("progress"):
                shares.append(page["engine"]["progress"]["share"])
            return page.get("lifecycle") == "SERVING"

        await until(is_serving, "a serving session")
        assert len(set(shares)) > 5
        assert shares == sorted(shares)
        assert len(supervisor.events("engine_started")) == 1
        assert len(witness.lives()) == 1

    async def test_an_engine_that_falls_silent_while_loading_is_replaced_and_then_given_up(
        self, start: Start, witness: Witness
    ) -> None:
        """Its process lives and holds its port and memory: nobody else would notice."""
        options = (*STALL, "--set", "watch.load_stall_s=1", "--set", "restart.unserved_max=2")
        supervisor = await start(*FAKE, "--load-ms", "60000", "--load-steps", "1", options=options)
        down = await witness.heard(Lifecycle.DOWN)
        assert down.reason.startswith("unhealthy: loading, and silent for 1 s (no connection:")
        supervisor.remember()
        assert await supervisor.ended() == 1
        assert len(supervisor.events("engine_started")) == 2
        assert supervisor.alive() == []
        assert "silent for 1 s" in supervisor.said().strip().splitlines()[-1]


class TestServing:
    """Tokens are proof of work; a good health page is none."""

    async def test_a_stalled_engine_is_found_although_clients_give_up_and_come_again(
        self, start: Start, witness: Witness, ask: Ask
    ) -> None:
        """Each of them waits for less than the limit; together they show that nothing comes."""
        options = ("--set", "watch.stall_s=2")
        supervisor = await start(*FAKE, "--owned-by", "vllm", options=options)
        serving = await witness.heard(Lifecycle.SERVING)
        assert serving.offer.engine == "vllm"
        _, url = await supervisor.engine()
        await steer(url, answer="hang")
        given_up = 0
        while not is_down(witness):
            asker = await ask(serving, stream=True)
            with contextlib.suppress(AssertionError):
                await until(lambda: is_down(witness), "its end", within_s=0.5)
            await asker.cancel()
            witness.beats.clear()
            await until(lambda: is_down(witness) or is_idle(witness), "an idle engine")
            given_up += 1
            assert given_up < 40, "it was never found"
        down = await witness.heard(Lifecycle.DOWN)
        assert down.reason.startswith("hung: no token for 2 s with")
        await witness.heard(Lifecycle.SERVING, not_of=serving.session)

    async def test_tokens_that_the_engine_counts_itself_are_progress_too(
        self, start: Start, witness: Witness, ask: Ask
    ) -> None:
        """An answer in one piece shows nothing until it is complete; the metrics do."""
        options = ("--set", "watch.stall_s=1")
        engine = (*FAKE, "--owned-by", "vllm", "--tokens", "30", "--tpot-ms", "100")
        supervisor = await start(*engine, options=options)
        serving = await witness.heard(Lifecycle.SERVING)
        await (await ask(serving, stream=False)).finished()
        assert witness.lives() == {serving.session: ["JOINING", "SERVING"]}
        assert len(supervisor.events("engine_started")) == 1


class TestTheOthersOfAJob:
    """Several engines in one allocation, each under a supervisor of its own."""

    async def test_when_one_engine_ends_for_good_the_others_go_on_serving(
        self, start: Start, witness: Witness, ask: Ask
    ) -> None:
        """Neither its end, nor its cleaning up, nor the next one that starts touches them."""
        job = {"SLURM_JOB_ID": "7", "SLURM_PROCID": "0"}

        async def engine(node: str) -> Supervisor:
            options = ("--node", node, "--set", "restart.failures_max=0")
            return await start(*FAKE, "--spawn", "session", options=options, environ=job)

        started = {node: await engine(node) for node in ("a", "b", "c")}
        await until(lambda: len(serving(witness)) == 3, "three serving sessions")
        before = serving(witness)
        pid, _ = await started["a"].engine()
        for node in ("b", "c"):
            await started[node].engine()
        families = {node: started[node].alive() for node in ("b", "c")}
        os.kill(pid, signal.SIGKILL)
        assert await started["a"].ended() == 1
        await engine("d")
        await until(lambda: "d" in serving(witness), "a new one beside them")
        after = serving(witness)
        assert set(after) == {"b", "c", "d"}
        for node in ("b", "c"):
            assert after[node] == before[node]
            assert started[node].alive() == families[node]
            assert (await (await ask(last(witness, after[node]))).got(frames.Head)).status == 200


def is_down(witness: Witness) -> bool:
    """Return whether any session is."""
    return any(claim.lifecycle is Lifecycle.DOWN for claim in witness.claims)


def is_idle(witness: Witness) -> bool:
    """Return whether its supervisor has noticed that nothing runs."""
    return any(beat.running == 0 for _, beat in witness.beats)


def last(witness: Witness, session: str) -> Claim:
    """Return the latest claim of a session."""
    return [claim for claim in witness.claims if claim.session == session][-1]


def serving(witness: Witness) -> dict[str, str]:
    """Return the serving session of each node."""
    sessions = {claim.session: claim for claim in witness.claims}
    return {
        claim.node: session
        for session, claim in sessions.items()
        if claim.lifecycle is Lifecycle.SERVING
    }
