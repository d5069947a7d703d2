"""An agent's decisions, step by step at literal times."""

import pytest
from tests.unit.supervisor.agent.parts import (
    TERM_S,
    WALL,
    Bench,
    announced,
    config,
    ended,
    only,
    spoke,
    start,
    stop,
    ulid,
)

from opentela.supervisor.actions import Exit
from opentela.supervisor.agent.actions import Answer, LaunchReplica, StopReplica
from opentela.supervisor.agent.events import Ended
from opentela.supervisor.agent.machine import STUCK_S
from opentela.supervisor.events import StopAsked, Warned
from opentela.supervisor.walltime import Walltime
from opentela.wire.command import Look, Start


class TestCommands:
    """Which are taken, and what is answered."""

    def test_a_look_changes_nothing(self) -> None:
        """It says what there is."""
        bench = Bench(gpus=2)
        told = bench.told(Look())
        assert (told.command, told.accepted, told.hardware) == ("", True, "cpu")
        assert (told.gpus, told.templates, told.replicas) == (("0", "1"), ("t",), ())

    def test_a_start_is_answered_with_what_is_held_then(self) -> None:
        """In our session's name, where the placer waits."""
        bench = Bench()
        answer = only(bench.do(start(1, term=7)), Answer)
        assert (answer.reply, answer.path, answer.kind) == ("to", bench.path, "start")
        assert (answer.holding.command, answer.holding.term) == (ulid(1), 7)
        (replica,) = answer.holding.replicas
        assert (replica.start, replica.state, replica.gpus) == (ulid(1), "launching", ("0",))

    def test_the_launch_says_which_agent_it_is_of(self) -> None:
        """And until when it may be."""
        bench = Bench(walltime=Walltime(WALL + 80, WALL + 90, WALL + 100))
        launch = only(bench.do(start(1), now=10.0), LaunchReplica)
        assert (launch.agent, launch.ends_at) == (bench.claim.session, WALL + 100)

    def test_a_repeated_command_is_done_once(self) -> None:
        """And answered as it was, with what is held now."""
        bench = Bench(gpus=1)
        bench.launch(start(1))
        refused = bench.told(start(2))
        actions = bench.do(start(1))
        assert [one for one in actions if isinstance(one, LaunchReplica)] == []
        assert only(actions, Answer).is_repeated
        assert only(actions, Answer).holding.accepted
        bench.at(1.0, ended(1, Ended.GAVE_UP))
        again = bench.told(start(2))
        assert (again.accepted, again.reason) == (False, refused.reason)
        assert bench.told(start(1)).accepted
        assert bench.replica(1).state == "failed"

    def test_who_leads_looks_first_and_voids_what_comes_late(self) -> None:
        """A command of the one before may be on its way for as long as its process was paused."""
        bench = Bench()
        assert bench.told(Look(term=6)).term == 6
        late = bench.told(start(1, term=5))
        assert (late.accepted, late.reason) == (False, "term 5 is over: 6 was heard of")
        assert bench.told(Look()).term == 6
        assert bench.told(start(2, term=6)).accepted

    def test_a_term_that_is_over_changes_nothing(self) -> None:
        """A placer that lost its lease may not know it yet."""
        bench = Bench()
        bench.launch(start(1, term=5))
        for late in (start(2, term=4), stop(3, of=1, term=4)):
            told = bench.told(late)
            assert (told.accepted, told.term) == (False, 5)
            assert told.reason == "term 4 is over: 5 was heard of"
        assert bench.replica(1).state == "launching"
        # The same words are taken from whoever leads now.
        assert bench.told(start(2, term=6)).accepted
        assert bench.told(start(1, term=4)).accepted

    @pytest.mark.parametrize(
        ("wrong", "reason"),
        [
            (start(1, template="x"), "there is no template 'x'; there are t"),
            (start(1, model="-m"), "not a model name"),
            (start(1, tp=0), "tp = 0 is not between"),
            (start(1, tp=5), "5 GPUs are asked for, and the allocation has 4"),
            (start(1, quantisation="fp8"), "cannot set quantisation"),
            (start(1, model="/etc/passwd"), "not allowed here"),
            (Start(command="x", term=1, template="t", model="m"), "no ULID"),
        ],
    )
    def test_what_cannot_be_done_is_refused_with_the_reason(
        self, wrong: Start, reason: str
    ) -> None:
        """And nothing is held for it."""
        bench = Bench()
        told = bench.told(wrong)
        assert not told.accepted
        assert reason in told.reason
        assert told.replicas == ()

    def test_the_provider_decides_which_models_run(self) -> None:
        """Whoever leads the placers."""
        bench = Bench(config(models=("Qwen/*",)))
        assert "not allowed" in bench.told(start(1)).reason
        assert bench.told(start(2, model="Qwen/Qwen3-8B")).accepted

    def test_a_stop_that_overtakes_its_start_wins(self) -> None:
        """The start comes too late then."""
        bench = Bench()
        assert bench.told(stop(2, of=1)).accepted
        told = bench.told(start(1))
        assert (told.accepted, told.reason) == (False, "it was stopped before it was started")

    def test_nonsense_to_stop_is_not_remembered(self) -> None:
        """It could be as long as a message."""
        bench = Bench(config(commands_kept=2))
        for number in range(1, 6):
            told = stop(number, of=1)
            bench.told(type(told)(command=ulid(number), term=1, start="Z" * 1000))
        assert bench.told(start(9)).accepted

    def test_a_stop_of_what_has_ended_is_done_already(self) -> None:
        """Twice makes no difference."""
        bench = Bench()
        bench.launch(start(1))
        bench.do(stop(2, of=1))
        assert [one for one in bench.do(stop(3, of=1)) if isinstance(one, StopReplica)] == []
        bench.at(1.0, ended(1, Ended.IN_ORDER))
        assert bench.told(stop(4, of=1)).accepted


class TestTheEnd:
    """Everything is drained first."""

    def test_an_idle_agent_leaves_at_once(self) -> None:
        """There is nothing to wait for."""
        bench = Bench()
        actions = bench.at(1.0, StopAsked("asked to stop"))
        assert announced(actions) == ["DRAINING", "LEFT"]
        assert only(actions, Exit).reason == ""
        assert bench.claim.reason == "asked to stop"

    def test_replicas_are_drained_before_it_leaves(self) -> None:
        """No further one is taken, and it goes when the last is gone."""
        bench = Bench()
        bench.launch(start(1))
        bench.launch(start(2))
        actions = bench.at(1.0, StopAsked("asked to stop"))
        assert announced(actions) == ["DRAINING"]
        stops = [one for one in actions if isinstance(one, StopReplica)]
        assert [(one.start, one.term_s) for one in stops] == [(ulid(1), TERM_S), (ulid(2), TERM_S)]
        assert bench.told(start(3)).reason == "the agent is leaving: asked to stop"
        bench.at(2.0, ended(1, Ended.IN_ORDER))
        assert bench.claim.lifecycle.name == "DRAINING"
        actions = bench.at(3.0, ended(2, Ended.IN_ORDER))
        assert (announced(actions), only(actions, Exit).reason) == (["LEFT"], "")

    def test_what_does_not_end_is_not_waited_for(self) -> None:
        """Guardians go on; whoever asked us to leave will not wait for ever."""
        bench = Bench()
        bench.launch(start(1))
        bench.at(1.0, StopAsked("asked to stop"))
        assert not [one for one in bench.at(TERM_S + STUCK_S) if isinstance(one, Exit)]
        assert only(bench.at(1.0 + TERM_S + STUCK_S), Exit).reason == "1 replicas do not end"

    def test_before_the_walltime_replicas_leave_by_their_own_plan(self) -> None:
        """They know it as well; only what has not left in time is stopped."""
        bench = Bench(walltime=Walltime(WALL + 60, WALL + 85, WALL + 100))
        bench.launch(start(1))
        bench.launch(start(2))
        bench.at(59.0)
        assert bench.due() == 60.0
        assert announced(actions := bench.at(60.0)) == ["DRAINING"]
        assert [one for one in actions if isinstance(one, StopReplica)] == []
        assert not bench.told(start(3)).accepted
        bench.at(70.0, ended(1, Ended.IN_ORDER, reason="the walltime ends"))
        bench.at(70.0)
        assert bench.due() <= 85.0
        assert only(bench.at(85.0), StopReplica) == StopReplica(ulid(2), 0, 11.0)
        actions = bench.at(86.0, ended(2, Ended.IN_ORDER))
        assert (announced(actions), only(actions, Exit).reason) == (["LEFT"], "")

    def test_a_command_that_comes_as_the_time_is_up_finds_it_leaving(self) -> None:
        """Also when no tick came before it."""
        bench = Bench(walltime=Walltime(WALL + 60, WALL + 85, WALL + 100))
        actions = bench.do(start(1), now=60.0)
        assert not only(actions, Answer).holding.accepted

    def test_a_signal_while_it_drains_for_the_walltime_hurries_it(self) -> None:
        """Whoever sends one wants it sooner."""
        bench = Bench(walltime=Walltime(WALL + 60, WALL + 85, WALL + 100))
        bench.launch(start(1))
        bench.at(60.0)
        assert only(bench.at(61.0, StopAsked("SIGTERM")), StopReplica).term_s == TERM_S

    def test_a_warning_of_an_end_that_is_known_changes_nothing(self) -> None:
        """Any other is a wish that we leave."""
        bench = Bench(walltime=Walltime(WALL + 60, WALL + 85, WALL + 100))
        bench.at(30.0, Warned("SIGUSR1"))
        assert bench.machine.leaving == ""
        bench = Bench()
        bench.at(1.0, Warned("SIGUSR1"))
        assert bench.machine.leaving == "SIGUSR1"

    def test_nothing_is_started_again_on_the_way_out(self) -> None:
        """Neither what is killed then, nor what was waiting."""
        bench = Bench(walltime=Walltime(WALL + 60, WALL + 85, WALL + 100))
        bench.launch(start(1))
        bench.launch(start(2))
        bench.at(59.0, ended(1, Ended.KILLED))
        bench.at(60.0)
        assert bench.replica(1).state == "stopped"
        actions = bench.at(61.0, ended(2, Ended.KILLED))
        assert only(actions, Exit).reason == ""

    def test_after_the_end_nothing_is_done(self) -> None:
        """Whatever comes late."""
        bench = Bench()
        bench.at(1.0, StopAsked("enough"))
        assert bench.do(start(1)) == []
        assert bench.at(2.0, spoke(1, "ready")) == []
