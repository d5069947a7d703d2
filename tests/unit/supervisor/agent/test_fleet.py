"""What becomes of replicas, and who holds which GPUs."""

import pytest
from tests.unit.supervisor.agent.parts import (
    TERM_S,
    Bench,
    config,
    ended,
    only,
    spoke,
    start,
    stop,
    ulid,
)

from opentela.supervisor.agent.actions import LaunchReplica, StopReplica, TellEnded, TellRelaunch
from opentela.supervisor.agent.events import Ended, ReplicaStuck
from opentela.supervisor.agent.fleet import ENDED_MAX, Fleet
from opentela.wire import command
from opentela.wire.command import COMMAND_BYTES_MAX, Look


def test_a_replica_holds_its_gpus_from_the_command_on() -> None:
    """Before its process runs, and as long as any process of it does."""
    bench = Bench()
    assert isinstance(bench.machine.fleet, Fleet)
    launch = bench.launch(start(1, tp=2))
    assert (launch.gpus, launch.launch, launch.argv[-2:]) == (("0", "1"), 0, ("--tp", "2"))
    assert bench.launch(start(2)).gpus == ("2",)
    bench.do(stop(3, of=1))
    assert not bench.told(start(4, tp=2)).accepted
    bench.at(5.0, ended(1, Ended.IN_ORDER))
    assert bench.launch(start(5, tp=2)).gpus == ("0", "1")


def test_its_state_is_that_of_its_engine() -> None:
    """An engine that is down while its supervisor is not is about to be launched again."""
    bench = Bench()
    bench.launch(start(1))
    for said, told in (
        ("launching", "launching"),
        ("loading", "loading"),
        ("ready", "ready"),
        ("draining", "draining"),
        ("stopped", "launching"),
    ):
        bench.at(1.0, spoke(1, said, session=said, reason="why"))
        replica = bench.replica(1)
        assert (replica.state, replica.session, replica.reason) == (told, said, "why")


def test_what_is_said_of_another_launch_is_late() -> None:
    """Or of nobody."""
    bench = Bench()
    bench.launch(start(1))
    bench.at(1.0, spoke(1, "ready", launch=1))
    bench.at(1.0, spoke(9, "ready"))
    bench.at(1.0, ended(1, Ended.KILLED, launch=1))
    assert bench.replica(1).state == "launching"


def test_a_stopped_replica_drains_and_is_then_told_of_for_a_while() -> None:
    """Without GPUs, and with the reason that the placer gave."""
    bench = Bench(config(ended_s=60.0))
    bench.launch(start(1))
    bench.at(1.0, spoke(1, "ready"))
    assert only(bench.do(stop(2, of=1, reason="idle")), StopReplica) == StopReplica(
        ulid(1), 0, TERM_S
    )
    bench.at(2.0, spoke(1, "ready", session="t"))
    replica = bench.replica(1)
    assert (replica.state, replica.reason, replica.session) == ("draining", "idle", "t")
    assert only(bench.at(3.0, ended(1, Ended.IN_ORDER)), TellEnded).state == "stopped"
    replica = bench.replica(1)
    assert (replica.state, replica.reason, replica.gpus) == ("stopped", "idle", ())
    bench.at(62.0)
    assert len(bench.told(Look()).replicas) == 1
    bench.at(63.0)
    assert bench.told(Look()).replicas == ()


def test_an_engine_that_failed_for_good_is_told_as_failed() -> None:
    """Its supervisor knows the rule by which it gave up."""
    bench = Bench()
    bench.launch(start(1))
    bench.at(1.0, ended(1, Ended.GAVE_UP, reason="no such model"))
    replica = bench.replica(1)
    assert (replica.state, replica.reason, replica.gpus) == ("failed", "no such model", ())


def test_a_supervisor_that_leaves_by_itself_has_stopped() -> None:
    """Such as at the end of the walltime."""
    bench = Bench()
    bench.launch(start(1))
    bench.at(1.0, ended(1, Ended.IN_ORDER, reason="the walltime ends"))
    assert bench.replica(1).state == "stopped"


def test_a_killed_supervisor_is_started_again_on_the_same_gpus() -> None:
    """After a wait that doubles, and not for ever; nobody else gets them in between."""
    bench = Bench(gpus=1)
    bench.launch(start(1))
    told = only(bench.at(1.0, ended(1, Ended.KILLED, reason="SIGKILL")), TellRelaunch)
    assert told.delay_s == 3.0
    assert not bench.told(start(2)).accepted
    assert bench.replica(1).state == "launching"
    again = only(bench.at(4.0), LaunchReplica)
    assert (again.launch, again.gpus) == (1, ("0",))
    assert only(bench.at(5.0, ended(1, Ended.KILLED, launch=1)), TellRelaunch).delay_s == 6.0
    assert only(bench.at(11.0), LaunchReplica).launch == 2
    assert only(bench.at(12.0, ended(1, Ended.KILLED, launch=2)), TellEnded).state == "failed"
    assert bench.launch(start(3)).gpus == ("0",)


def test_a_replica_that_waits_for_its_next_launch_is_stopped_at_once() -> None:
    """There is no process to wait for."""
    bench = Bench(gpus=1)
    bench.launch(start(1))
    bench.at(1.0, ended(1, Ended.KILLED))
    assert only(bench.do(stop(2, of=1)), TellEnded).state == "stopped"
    assert [one for one in bench.at(60.0) if isinstance(one, LaunchReplica)] == []
    assert bench.launch(start(3)).gpus == ("0",)


def test_gpus_of_what_does_not_end_stay_held() -> None:
    """The reason is told; they are free when it has ended after all."""
    bench = Bench(gpus=1)
    bench.launch(start(1))
    bench.at(1.0, ReplicaStuck(ulid(1), 0, "pid 7 hangs"))
    replica = bench.replica(1)
    assert (replica.state, replica.reason, replica.gpus) == ("draining", "pid 7 hangs", ("0",))
    assert not bench.told(start(2)).accepted
    bench.at(9.0, ended(1, Ended.GAVE_UP, reason="pid 7 hung"))
    assert bench.launch(start(3)).gpus == ("0",)


def test_replicas_are_bounded() -> None:
    """However many GPUs there are."""
    bench = Bench(config(replicas_max=2))
    bench.launch(start(1))
    bench.launch(start(2))
    assert bench.told(start(3)).reason == "2 replicas run here, and no more may"


def test_only_the_latest_that_ended_are_told_of() -> None:
    """An answer has room for them and for all that live."""
    bench = Bench()
    for number in range(ENDED_MAX + 5):
        bench.launch(start(number))
        bench.at(1.0, ended(number, Ended.GAVE_UP))
    bench.at(1.0)
    told = bench.told(Look()).replicas
    assert [one.start for one in told] == [ulid(number) for number in range(5, ENDED_MAX + 5)]


@pytest.mark.parametrize("gpus", [64])
def test_an_answer_of_all_that_can_run_fits(gpus: int) -> None:
    """With names and reasons as long as they may be, in whatever script."""
    bench = Bench(gpus=gpus)
    model, reason = "m" * 256, "\U0001f600" * 500
    for number in range(ENDED_MAX):
        bench.launch(start(number, model=model))
        bench.at(1.0, ended(number, Ended.GAVE_UP, reason=reason))
    for number in range(gpus):
        bench.launch(start(100 + number, model=model))
        bench.at(1.0, spoke(100 + number, "launching", session="s" * 26, reason=reason))
    told = bench.told(Look())
    assert len(told.replicas) == ENDED_MAX + gpus
    assert len(command.encode(told)) < COMMAND_BYTES_MAX
