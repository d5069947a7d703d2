"""`otela agent` from a placer's first word to the end of the last process."""

import os
import signal
import time

import pytest
from tests.integration.supervisor.agent.conftest import (
    Agent,
    Placer,
    StartAgent,
    of_start,
)
from tests.integration.supervisor.conftest import Ask, Witness

from opentela.core.record import Claim, Lifecycle
from opentela.supervisor import proctree
from opentela.testing.waiting import until
from opentela.wire import command, frames, subjects
from opentela.wire.command import AGENT, COMMAND, TEMPLATES, Look, Replica, Start

pytestmark = pytest.mark.nats


def latest(witness: Witness, session: str) -> Claim:
    return [one for one in witness.claims if one.session == session][-1]


async def gone(agent: Agent, *starts: str) -> None:
    await until(lambda: not any(map(agent.born, starts)), "the end of every process")


async def test_a_placer_finds_an_agent_and_runs_a_replica(
    agent: StartAgent, placer: Placer, witness: Witness, ask: Ask
) -> None:
    """It joins without models, runs what it is told, and the engine serves as any other does."""
    one = await agent("--label", "tier=a", "--node", "n1")
    offer = latest(witness, one.path.session).offer
    assert (offer.models, offer.hardware, offer.gpus) == ((), "cpu", 0)
    assert offer.labels == {"tier": "a", TEMPLATES: "fake,long,broken"}
    told = await placer.say(one.path, Look())
    assert (told.gpus, told.hardware, told.replicas) == (("0", "1", "2", "3"), "cpu", ())

    told = await placer.start(one, tp=2, context_max=512)
    assert told.accepted, told.reason
    (replica,) = told.replicas
    assert (replica.state, replica.gpus) == ("launching", ("0", "1"))
    ready = await placer.wait_for(one, replica.start, "ready")
    claim = latest(witness, ready.session)
    assert claim.lifecycle is Lifecycle.SERVING
    assert claim.node == "n1"
    (model,) = claim.offer.models
    assert (model.name, model.context_max) == ("tiny", 512)
    assert claim.offer.labels == {"tier": "a", COMMAND: replica.start, AGENT: one.path.session}
    assert one.told_of(replica.start, "TOLD") == "by the template"
    await (await ask(claim)).finished()

    assert (await placer.stop(one, replica.start)).accepted
    stopped = await placer.wait_for(one, replica.start, "stopped")
    assert (stopped.gpus, stopped.reason) == ((), "stopped by the placer")
    assert one.born(replica.start) == []
    await witness.lived(ready.session, "JOINING", "SERVING", "DRAINING", "LEFT")
    one.process.terminate()
    assert await one.ended() == 0, one.said()
    await witness.lived(one.path.session, "JOINING", "SERVING", "DRAINING", "LEFT")


async def test_two_commands_never_share_a_gpu(agent: StartAgent, placer: Placer) -> None:
    """What does not fit is refused by name, until what holds it is gone to the last process."""
    one = await agent()
    first = (await placer.start(one, tp=2)).replicas[0]
    second = (await placer.start(one, tp=2)).replicas[1]
    assert (first.gpus, second.gpus) == (("0", "1"), ("2", "3"))
    refused = await placer.start(one)
    assert refused.reason == "1 GPUs are asked for, and 0 of 4 are free"
    await placer.wait_for(one, first.start, "ready")
    await placer.stop(one, first.start)
    while not (told := await placer.start(one, tp=2)).accepted:
        assert told.replicas[0].gpus == ("0", "1")
    assert one.born(first.start) == []
    assert told.replicas[-1].gpus == ("0", "1")


async def test_a_repeated_command_is_done_once_and_a_late_term_not_at_all(
    agent: StartAgent, placer: Placer
) -> None:
    """Answers get lost, and placers lose their lease without knowing it."""
    one = await agent()
    placer.term = 5
    said = placer.ulid()
    for _ in range(3):
        told = await placer.say(
            one.path, Start(command=said, term=5, template="fake", model="tiny")
        )
        assert told.accepted
        assert len(told.replicas) == 1
    placer.term = 4
    late = await placer.stop(one, said)
    assert (late.accepted, late.reason) == (False, "term 4 is over: 5 was heard of")
    assert (await placer.replica(one, said)).state != "draining"
    unwanted = await placer.start(one, model="other", term=5)
    assert unwanted.reason.startswith("model other is not allowed here")
    assert len(one.events("replica_started")) <= 1


async def test_an_engine_that_cannot_run_is_told_as_failed(
    agent: StartAgent, placer: Placer
) -> None:
    """With its GPUs free and the reason told."""
    one = await agent()
    start = (await placer.start(one, template="broken")).replicas[0].start
    failed = await placer.wait_for(one, start, "failed")
    assert (failed.gpus, failed.reason) == ((), "engine exited with status 3")


async def test_what_is_killed_is_started_again_as_another_session(
    agent: StartAgent, placer: Placer, witness: Witness
) -> None:
    """An engine by its supervisor, that or its guardian by the agent, each on the same GPUs.

    Of a supervisor that was killed, the engine goes first: two of them would share the GPUs.
    """
    one = await agent()
    start = (await placer.start(one)).replicas[0].start
    replicas = [await placer.wait_for(one, start, "ready")]
    os.kill(one.engine_of(start), signal.SIGKILL)
    await until(lambda: latest(witness, replicas[0].session).lifecycle is Lifecycle.DOWN, "its end")
    replicas.append(await followed(one, placer, replicas[0]))
    for launches in (1, 2):
        before = [proctree.read(pid) for pid in one.born(start)]
        supervisor = proctree.read(one.events("replica_started")[-1]["pid"])
        assert supervisor is not None
        os.kill(supervisor.pid if launches == 1 else supervisor.parent, signal.SIGKILL)
        replicas.append(await followed(one, placer, replicas[-1]))
        assert [old for old in before if old and proctree.is_same(old)] == []
        assert len(one.events("replica_relaunched")) == launches
    assert {one.gpus for one in replicas} == {("0",)}
    assert len({claim.session for claim in of_start(witness, start)}) == 4


async def followed(agent: Agent, placer: Placer, old: Replica) -> Replica:
    """Return a replica once another session of it serves."""

    async def is_other() -> bool:
        return (await placer.replica(agent, old.start)).session != old.session

    await until(is_other, "another session")
    return await placer.wait_for(agent, old.start, "ready")


async def test_the_end_of_an_agent_that_is_killed_is_that_of_its_engines(
    agent: StartAgent, placer: Placer
) -> None:
    """Nobody is left to ask them, and still nothing holds a GPU."""
    one = await agent()
    starts = [(await placer.start(one)).command for _ in range(2)]
    for start in starts:
        await placer.wait_for(one, start, "ready")
    assert all(map(one.born, starts))
    one.remember()
    one.process.kill()
    await one.process.wait()
    await gone(one, *starts)
    await until(lambda: one.alive() == [], "the end of guardians, too")


async def test_an_agent_that_is_asked_to_stop_drains_everything(
    agent: StartAgent, placer: Placer, witness: Witness, ask: Ask
) -> None:
    """Running answers are finished, and its own session is the last to leave."""
    one = await agent()
    start = (await placer.start(one, template="long")).replicas[0].start
    ready = await placer.wait_for(one, start, "ready")
    asker = await ask(latest(witness, ready.session), stream=True)
    await asker.got(frames.Data)
    one.process.terminate()
    await until(
        lambda: latest(witness, one.path.session).lifecycle is Lifecycle.DRAINING, "draining"
    )
    await asker.got(frames.End)
    assert await one.ended() == 0, one.said()
    assert one.born(start) == []
    await witness.lived(one.path.session, "JOINING", "SERVING", "DRAINING", "LEFT")
    await witness.lived(ready.session, "JOINING", "SERVING", "DRAINING", "LEFT")
    assert witness.claims[-1].session == one.path.session


async def test_everything_has_left_before_the_walltime(
    agent: StartAgent, placer: Placer, witness: Witness
) -> None:
    """Replicas as well as the agent, and nobody is asked to; they know the very same end."""
    ends_at = time.time() + 25
    options = ("supervisor.walltime.reserve_s=8", "supervisor.walltime.margin_s=3")
    settings = (word for one in options for word in ("--set", one))
    one = await agent("--walltime", f"@{ends_at:.0f}", *settings)
    start = (await placer.start(one)).command
    await until(lambda: bool(of_start(witness, start)), "its session")
    assert {of_start(witness, start)[0].offer.walltime_ends_at, latest(witness, one.path.session)
            .offer.walltime_ends_at} == {round(ends_at)}  # fmt: skip
    assert await one.ended() == 0, one.said()
    assert time.time() < ends_at
    assert one.born(start) == []
    await until(lambda: of_start(witness, start)[-1].lifecycle is Lifecycle.LEFT, "its farewell")
    await until(
        lambda: latest(witness, one.path.session).lifecycle is Lifecycle.LEFT, "the agent's"
    )
    assert latest(witness, one.path.session).reason == "the walltime ends"


async def test_rubbish_is_logged_seldom_and_ends_nothing(agent: StartAgent, placer: Placer) -> None:
    """Whoever plays with an agent fills no disk, and a placer is answered as before."""
    one = await agent()
    answers = subjects.reply("placer1", one.path.provider, "i", "t")
    for reply in (answers, "", "elsewhere", "otela.v1.reply.placer1.i.stranger.t"):
        for payload in (b"", b"\xc1", b"\x91" * 5000, b"\x81\xa4kind\xa5start"):
            for _ in range(20):
                await placer.shout(one, payload, reply)
        await placer.shout(one, command.encode(Look()), reply)
    endless = Start(command="x" * 60_000, term=1, template="fake", model="tiny")
    await placer.shout(one, command.encode(endless), answers)
    stopped = await placer.stop(one, start := placer.ulid())
    assert stopped.accepted
    late = await placer.say(one.path, Start(command=start, term=1, template="fake", model="tiny"))
    assert late.reason == "it was stopped before it was started"
    assert len(one.events("command_rejected")) == 1
    assert max(map(len, one.log.read_text().splitlines())) < 1000


async def test_an_agent_kills_nothing_of_another_on_its_host(
    agent: StartAgent, placer: Placer
) -> None:
    """Be it started by the very same command, as by a placer that asked both."""
    one, other = await agent(), await agent()
    said = placer.ulid()
    for each in (one, other):
        await placer.say(each.path, Start(command=said, term=1, template="fake", model="tiny"))
    await placer.wait_for(one, said, "ready")
    ready = await placer.wait_for(other, said, "ready")
    born = other.born(said)
    await placer.stop(one, said)
    await placer.wait_for(one, said, "stopped")
    assert one.born(said) == []
    assert await placer.replica(other, said) == ready
    assert other.born(said) == born
