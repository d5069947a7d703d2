"""A supervisor's decisions, step by step at literal times."""

import math

import pytest
from msgspec.structs import replace

from opentela.core.ids import NodeId, ProviderId, SessionId, SiteId
from opentela.core.record import Claim, Lifecycle, ModelOffer
from opentela.supervisor.actions import (
    Action,
    Announce,
    AnswerProbe,
    AskEnd,
    CloseGateway,
    DrainGateway,
    Exit,
    LaunchEngine,
    MakeSession,
    OpenGateway,
    ProbeEngine,
    ReadOffer,
    RetireGateway,
    SendBeat,
    StopEngine,
    TellEnd,
    TellLeftOut,
)
from opentela.supervisor.claims import Place
from opentela.supervisor.config import (
    DrainConfig,
    EngineConfig,
    RestartConfig,
    SupervisorConfig,
    WatchConfig,
)
from opentela.supervisor.engine_state import EngineState
from opentela.supervisor.engines.base import EngineLoad, EngineOffer
from opentela.supervisor.events import (
    Carried,
    EndTold,
    EngineEnded,
    EngineExited,
    EngineSpawned,
    Event,
    LoadRead,
    MeshJoined,
    OfferRead,
    ProbeAnswered,
    ProbeArrived,
    ProbeFailed,
    SessionMade,
    StopAsked,
    Tick,
    VerdictArrived,
    Warned,
)
from opentela.supervisor.machine import Machine
from opentela.supervisor.offer import Terms
from opentela.supervisor.walltime import Walltime
from opentela.testing.sim.keys import said
from opentela.wire.control import Probe, Verdict
from opentela.wire.subjects import SessionPath

WALL = 1_800_000_000.0
CONFIG = SupervisorConfig(
    beat_s=2.0,
    engine=EngineConfig(stop_s=8.0, hung_stop_s=2.0),
    watch=WatchConfig(failures_max=1, load_stall_s=50.0, pause_s=1000.0),
    restart=RestartConfig(delay_s=4.0, unserved_max=2, failures_max=3, steady_s=100.0),
    drain=DrainConfig(limit_s=18.0, linger_s=0.5),
)
TINY = EngineOffer("openai", (ModelOffer(name="tiny"),), "1")


class Even:
    """Draws the middle, so that jitter is none and back-off takes a quarter off."""

    def random(self) -> float:
        return 0.5

    def randrange(self, stop: int, /) -> int:
        return stop // 2

    def randbytes(self, n: int, /) -> bytes:
        return b"\x07" * n


class Bench:
    """A machine under test, with the clock in the test's hand."""

    def __init__(
        self,
        config: SupervisorConfig = CONFIG,
        walltime: Walltime | None = None,
        *,
        can_end_move: bool = False,
    ) -> None:
        self.now = 0.0
        self.keys = 0
        self.machine = Machine(
            config,
            place=Place(ProviderId("p"), SiteId("s"), NodeId("n")),
            terms=Terms(engine="openai", expected=("promised",)),
            walltime=walltime,
            rng=Even(),
            now=0.0,
            can_end_move=can_end_move,
        )

    def at(self, now: float, event: Event | None = None) -> list[Action]:
        """Step at *now* and return the actions."""
        self.now = now
        return self.machine.step(now, WALL + now, Tick() if event is None else event)

    def born(self, now: float) -> list[Action]:
        """Give the machine the key that it asked for."""
        self.keys += 1
        return self.at(now, SessionMade(f"KEY{self.keys}"))

    def launched(self, now: float = 0.0) -> "Bench":
        """Go on until the engine's process runs."""
        self.at(now)
        self.born(now)
        self.at(now, EngineSpawned(self.launch))
        return self

    def serving(self, now: float = 1.0) -> "Bench":
        """Go on until it serves."""
        if self.machine.life is None or self.machine.state is EngineState.STOPPED:
            self.launched(now)
        self.at(now, ProbeAnswered(self.launch))
        self.at(now, OfferRead(self.launch, TINY))
        assert self.machine.state is EngineState.READY
        return self

    @property
    def launch(self) -> int:
        assert self.machine.life is not None
        return self.machine.life.launch

    @property
    def claim(self) -> Claim:
        assert self.machine.session is not None
        return self.machine.session.claim

    @property
    def word(self) -> tuple[Lifecycle, str]:
        """What we say of our session, and why."""
        return self.claim.lifecycle, self.claim.reason

    @property
    def path(self) -> SessionPath:
        return SessionPath(self.claim.provider, self.claim.site, self.claim.session)


def announced(actions: list[Action]) -> list[Lifecycle]:
    return [one.claim.lifecycle for one in actions if isinstance(one, Announce)]


def kinds(actions: list[Action]) -> list[type]:
    return [type(one) for one in actions]


def left_out(actions: list[Action]) -> list[tuple[str, ...]]:
    return [one.models for one in actions if isinstance(one, TellLeftOut)]


class TestTheFirstLife:
    """From the command to serving."""

    def test_a_session_is_made_and_announced_before_its_engine_starts(self) -> None:
        """JOINING promises what the command names."""
        bench = Bench()
        assert bench.at(0.0) == [MakeSession()]
        assert bench.at(0.0) == []
        actions = bench.born(0.1)
        assert kinds(actions) == [Announce, LaunchEngine]
        assert bench.claim.lifecycle is Lifecycle.JOINING
        assert bench.claim.incarnation == 1
        assert bench.claim.key == "KEY1"
        assert [model.name for model in bench.claim.offer.models] == ["promised"]
        assert bench.machine.state is EngineState.LAUNCHING

    def test_the_gateway_opens_before_anybody_is_told_to_come(self) -> None:
        """SERVING carries the offer that was read from the engine."""
        bench = Bench().launched()
        bench.at(1.0, ProbeAnswered(0))
        actions = bench.at(1.0, OfferRead(0, TINY))
        assert kinds(actions)[:2] == [OpenGateway, Announce]
        assert bench.claim.lifecycle is Lifecycle.SERVING
        assert bench.claim.incarnation == 2
        assert [model.name for model in bench.claim.offer.models] == ["tiny"]
        assert bench.machine.state is EngineState.READY

    def test_a_changed_offer_is_announced_and_an_equal_one_is_not(self) -> None:
        """The incarnation rises with the change."""
        bench = Bench().serving()
        assert announced(bench.at(11.0, OfferRead(0, TINY))) == []
        lora = TINY._replace(models=(*TINY.models, ModelOffer(name="lora")))
        assert announced(bench.at(21.0, OfferRead(0, lora))) == [Lifecycle.SERVING]
        assert bench.claim.incarnation == 3
        assert [model.name for model in bench.claim.offer.models] == ["tiny", "lora"]

    def test_an_engine_that_goes_silent_while_loading_is_given_up(self) -> None:
        """It is down for everybody, and stopped with little patience."""
        bench = Bench().launched()
        actions = bench.at(50.0)
        assert announced(actions) == [Lifecycle.DOWN]
        assert StopEngine(0, 2.0) in actions
        assert "silent for 50 s" in bench.claim.reason
        assert bench.machine.state is EngineState.DRAINING

    def test_questions_to_the_engine_are_passed_on(self) -> None:
        """The life decides what is due; the machine hands it on."""
        bench = Bench()
        bench.at(0.0)
        bench.born(0.0)
        assert bench.at(0.0, EngineSpawned(0)) == [ProbeEngine(0)]
        assert bench.at(0.5, ProbeAnswered(0)) == [ReadOffer(0)]

    def test_news_of_an_unknown_or_earlier_launch_is_ignored(self) -> None:
        """An answer may arrive after its engine is gone."""
        bench = Bench()
        assert bench.at(0.0, EngineSpawned(0)) == [MakeSession()]
        bench.born(0.0)
        bench.at(0.0, EngineSpawned(5))
        assert bench.machine.state is EngineState.LAUNCHING


class TestBeats:
    """The session's own voice."""

    def test_a_beat_tells_incarnation_load_and_when_the_next_one_comes(self) -> None:
        """The load is the engine's own count where it has one."""
        bench = Bench().serving(1.0)
        load = EngineLoad(running=3, waiting=4, kv_used=0.5, tokens=1.0)
        bench.at(1.0, LoadRead(0, load))
        (beat,) = [one for one in bench.at(3.0) if isinstance(one, SendBeat)]
        assert beat.path == bench.path
        assert (beat.beat.incarnation, beat.beat.running, beat.beat.waiting) == (2, 3, 4)
        assert (beat.beat.kv_used, beat.beat.every_s) == (0.5, 2.0)
        assert SendBeat not in kinds(bench.at(4.9))
        assert SendBeat in kinds(bench.at(5.0))

    def test_an_engine_that_does_not_count_is_counted_at_the_gateway(self) -> None:
        """Requests that we carry are the next best measure."""
        bench = Bench().serving(1.0)
        bench.at(1.5, Carried(running=6, received=0))
        (beat,) = [one for one in bench.at(3.0) if isinstance(one, SendBeat)]
        assert beat.beat.running == 6

    def test_a_dead_engine_still_has_a_voice_and_a_session_that_left_has_none(self) -> None:
        """DOWN is something that we say, not something that is found out."""
        bench = Bench().serving(1.0)
        bench.at(1.5, EngineEnded(0, "exit 1"))
        assert SendBeat in kinds(bench.at(3.0))
        bench.at(3.1, StopAsked("SIGTERM"))
        assert bench.at(5.0) == []

    def test_jitter_spreads_beats_by_a_tenth(self) -> None:
        """The interval that is announced is the one that is kept."""
        bench = Bench()
        draws = iter([0.0, 1.0, 0.5])
        bench.machine._rng.random = lambda: next(draws)  # type: ignore[method-assign]
        bench.at(0.0)
        bench.born(0.0)
        assert bench.machine.next_deadline(0.0, WALL) == pytest.approx(1.8)
        (beat,) = bench.at(1.8)
        assert isinstance(beat, SendBeat)
        assert beat.beat.every_s == pytest.approx(2.2)


class TestFailure:
    """An engine that ends, and the next one."""

    def test_a_dead_engine_is_down_at_once_and_followed_by_a_new_session(self) -> None:
        """The old session leaves once its successor is announced; nothing is reused."""
        bench = Bench().serving(1.0)
        first = bench.claim
        actions = bench.at(10.0, EngineEnded(0, "engine exited with status 1"))
        assert kinds(actions) == [Announce, CloseGateway, SendBeat]
        assert bench.claim.lifecycle is Lifecycle.DOWN
        assert bench.claim.reason == "engine exited with status 1"
        assert bench.machine.next_deadline(10.0, WALL + 10.0) == 12.0  # a beat
        assert MakeSession() not in bench.at(12.9)
        assert MakeSession() in bench.at(13.0)
        actions = bench.born(13.0)
        assert kinds(actions) == [Announce, Announce, LaunchEngine]
        joined, left = (one.claim for one in actions if isinstance(one, Announce))
        assert (left.session, left.lifecycle) == (first.session, Lifecycle.LEFT)
        assert left.reason == "engine exited with status 1"
        assert (joined.lifecycle, joined.incarnation) == (Lifecycle.JOINING, 1)
        assert joined.session != first.session
        assert joined.key != first.key
        assert bench.machine.restarts == 1
        bench.at(13.5, EngineSpawned(1))
        assert bench.serving(14.0).claim.lifecycle is Lifecycle.SERVING

    def test_the_next_session_promises_what_the_engine_served(self) -> None:
        """Also when its command names no model, so that routers let requests wait."""
        bench = Bench().serving(1.0)
        lora = ModelOffer(name="lora", aliases=("l",), fingerprint="abcd", context_max=9)
        bench.at(2.0, OfferRead(0, TINY._replace(models=(*TINY.models, lora))))
        bench.at(10.0, EngineEnded(0, "exit 1"))
        bench.launched(13.0)
        promised = (ModelOffer(name="tiny"), ModelOffer(name="lora", aliases=("l",)))
        assert (bench.claim.lifecycle, bench.claim.offer.models) == (Lifecycle.JOINING, promised)
        assert [model.name for model in bench.serving(14.0).claim.offer.models] == ["tiny"]

    def test_an_exit_is_told_before_the_last_child_is_gone(self) -> None:
        """Down at once; the next start waits until nothing is left."""
        bench = Bench().serving(1.0)
        actions = bench.at(2.0, EngineExited(0, "engine was ended by SIGKILL"))
        assert kinds(actions)[:2] == [Announce, CloseGateway]
        assert StopEngine not in kinds(actions)
        assert bench.word == (Lifecycle.DOWN, "engine was ended by SIGKILL")
        assert bench.machine.state is EngineState.DRAINING
        assert MakeSession() not in bench.at(20.0)
        assert announced(bench.at(21.0, EngineEnded(0, "the same, and more"))) == []
        assert MakeSession() in bench.at(24.0)

    def test_an_exit_on_request_is_no_failure(self) -> None:
        """It was asked to end; also when it had been given up before."""
        bench = Bench().serving(1.0)
        bench.at(2.0, Carried(running=1, received=1))
        bench.at(2.0, StopAsked("SIGTERM"))
        assert announced(bench.at(2.1, EngineExited(0, "exit 0"))) == []
        bench = Bench().serving(1.0)
        bench.at(2.0, ProbeFailed(0, "status 503"))
        assert announced(bench.at(2.1, EngineExited(0, "exit 0"))) == []

    def test_a_hung_engine_is_down_before_it_is_killed(self) -> None:
        """The reason of the death is the hang, not the signal that ended it."""
        bench = Bench().serving(1.0)
        actions = bench.at(2.0, ProbeFailed(0, "status 503"))
        assert kinds(actions)[:3] == [Announce, CloseGateway, StopEngine]
        assert StopEngine(0, 2.0) in actions
        assert bench.claim.lifecycle is Lifecycle.DOWN
        bench.at(3.0, EngineEnded(0, "engine was ended by SIGKILL"))
        assert bench.claim.reason == "unhealthy: 1 health probes in a row failed (status 503)"

    def test_a_command_that_never_serves_is_given_up(self) -> None:
        """The reason becomes the failure of the process."""
        bench = Bench().launched()
        assert Exit not in kinds(bench.at(1.0, EngineEnded(0, "exit 2")))
        bench.launched(5.0)
        actions = bench.at(6.0, EngineEnded(1, "exit 2"))
        assert announced(actions) == [Lifecycle.DOWN, Lifecycle.LEFT]
        assert actions[-1] == Exit("exit 2")

    def test_a_hopeless_command_is_not_tried_twice(self) -> None:
        """What does not exist will not exist in four seconds."""
        bench = Bench()
        bench.at(0.0)
        bench.born(0.0)
        actions = bench.at(0.0, EngineEnded(0, "vllm: not found", is_hopeless=True))
        assert actions[-1] == Exit("vllm: not found")
        assert bench.at(9.0) == []
        assert bench.machine.state is EngineState.STOPPED

    def test_too_many_failures_end_the_supervisor(self) -> None:
        """The third within the window is the last."""
        bench = Bench()
        exits = []
        for launch, now in enumerate((1.0, 21.0, 41.0)):
            bench.serving(now)
            exits.append(Exit("exit 1") in bench.at(now + 1, EngineEnded(launch, "exit 1")))
        assert exits == [False, False, True]
        assert bench.claim.lifecycle is Lifecycle.LEFT


class TestLeaving:
    """Asked to go, or out of time."""

    def test_running_requests_finish_before_the_engine_is_stopped(self) -> None:
        """DRAINING, then LEFT, then the engine's end, then ours."""
        bench = Bench().serving(1.0)
        bench.at(2.0, Carried(running=2, received=10))
        actions = bench.at(5.0, StopAsked("SIGTERM"))
        assert kinds(actions)[:2] == [Announce, DrainGateway]
        assert bench.word == (Lifecycle.DRAINING, "SIGTERM")
        assert CloseGateway not in kinds(bench.at(9.0, Carried(running=1, received=20)))
        actions = bench.at(9.5, Carried(running=0, received=30))
        assert kinds(actions) == [CloseGateway, Announce, StopEngine]
        assert actions[-1] == StopEngine(0, 8.0)
        assert bench.word == (Lifecycle.LEFT, "SIGTERM")
        assert bench.at(11.0, EngineEnded(0, "exit 0")) == [Exit("")]

    def test_an_idle_session_lingers_to_refuse_what_is_under_way(self) -> None:
        """Routers hear of the drain a moment after we say it."""
        bench = Bench().serving(1.0)
        bench.at(5.0, StopAsked("SIGTERM"))
        assert bench.machine.next_deadline(5.0, WALL + 5.0) == pytest.approx(5.1)
        assert CloseGateway not in kinds(bench.at(5.4))
        assert CloseGateway in kinds(bench.at(5.5))
        assert bench.machine.next_deadline(5.5, WALL + 5.5) > 5.6

    def test_requests_that_do_not_finish_are_broken_off_at_the_limit(self) -> None:
        """The scheduler would kill us a little later."""
        bench = Bench().serving(1.0)
        bench.at(2.0, Carried(running=1, received=10))
        bench.at(5.0, StopAsked("SIGTERM"))
        assert CloseGateway not in kinds(bench.at(22.9))
        assert CloseGateway in kinds(bench.at(23.0))

    def test_an_engine_that_still_loads_is_stopped_at_once(self) -> None:
        """There is nothing to finish; also when its start has not been confirmed."""
        for spawned in (True, False):
            bench = Bench()
            bench.at(0.0)
            bench.born(0.0)
            if spawned:
                bench.at(0.0, EngineSpawned(0))
            actions = bench.at(1.0, StopAsked("SIGTERM"))
            assert kinds(actions) == [Announce, StopEngine]
            assert bench.claim.lifecycle is Lifecycle.LEFT
            if not spawned:
                assert bench.at(1.1, EngineSpawned(0)) == []
            assert bench.at(2.0, EngineEnded(0, "SIGTERM")) == [Exit("")]

    def test_without_an_engine_we_just_leave(self) -> None:
        """Between two lives, or before the first."""
        assert Bench().at(0.0, StopAsked("SIGTERM")) == [Exit("")]
        bench = Bench().serving(1.0)
        bench.at(2.0, EngineEnded(0, "exit 1"))
        actions = bench.at(3.0, StopAsked("SIGTERM"))
        assert announced(actions) == [Lifecycle.LEFT]
        assert actions[-1] == Exit("")

    def test_a_failed_engine_that_is_being_stopped_ends_us_when_it_is_gone(self) -> None:
        """It is stopped once, and not started again."""
        bench = Bench().serving(1.0)
        bench.at(2.0, ProbeFailed(0, "status 503"))
        assert bench.at(2.5, StopAsked("SIGTERM")) == []
        actions = bench.at(4.0, EngineEnded(0, "SIGKILL"))
        assert Exit("") in actions

    def test_an_engine_that_ends_while_draining_is_no_failure(self) -> None:
        """Slurm signals every process of a step, the engine too."""
        bench = Bench().serving(1.0)
        bench.at(2.0, Carried(running=1, received=10))
        bench.at(5.0, StopAsked("SIGTERM"))
        actions = bench.at(6.0, EngineEnded(0, "SIGTERM"))
        assert kinds(actions) == [CloseGateway, Announce, Exit]
        assert actions[-1] == Exit("")
        assert bench.claim.lifecycle is Lifecycle.LEFT

    def test_a_key_that_comes_too_late_starts_nothing(self) -> None:
        """Asked to stop between the question and the answer, with an engine to stop first."""
        bench = Bench().serving(1.0)
        bench.at(2.0, VerdictArrived(evicted(bench)))
        assert MakeSession() in bench.at(6.0)
        bench.at(6.1, StopAsked("SIGTERM"))
        before = bench.claim.session
        assert LaunchEngine not in kinds(bench.born(6.2))
        assert bench.claim.session == before


class TestWalltime:
    """The end of the allocation is known."""

    def test_it_drains_before_the_end_and_leaves_in_time(self) -> None:
        """No signal is waited for."""
        ends = Walltime(WALL + 100.0, WALL + 160.0, WALL + 175.0)
        bench = Bench(walltime=ends).serving(1.0)
        bench.at(90.0, Carried(running=1, received=1))
        assert bench.machine.next_deadline(90.0, WALL + 90.0) < 100.0
        actions = bench.at(100.0)
        assert announced(actions) == [Lifecycle.DRAINING]
        assert bench.claim.reason == "the walltime ends"
        assert CloseGateway not in kinds(bench.at(159.0))
        assert CloseGateway in kinds(bench.at(160.0))
        assert bench.claim.lifecycle is Lifecycle.LEFT

    def test_it_wakes_for_the_end_even_when_nothing_else_happens(self) -> None:
        """Also by a wall clock that runs differently from ours."""
        ends = Walltime(WALL + 100.0, WALL + 160.0, WALL + 175.0)
        machine = Bench(walltime=ends).machine
        machine._launch_at = math.inf
        assert machine.next_deadline(50.0, WALL + 60.0) == 90.0
        assert machine.next_deadline(50.0, WALL + 600.0) == 50.0

    def test_a_warning_of_the_planned_end_changes_nothing(self) -> None:
        """The plan has time for long answers, and for a successor; a warning has not."""
        bench = Bench(walltime=Walltime(WALL + 300.0, WALL + 360.0, WALL + 375.0)).serving(1.0)
        assert Announce not in kinds(bench.at(200.0, Warned("SIGUSR1")))
        assert bench.claim.lifecycle is Lifecycle.SERVING
        assert bench.machine.story[-1][1] == "warned of an end that is planned for: SIGUSR1"
        bench.at(300.0)
        assert bench.word == (Lifecycle.DRAINING, "the walltime ends")

    def test_who_repeats_a_warning_means_it(self) -> None:
        """A scheduler warns of an end once; a successor that waits for us repeats it."""
        bench = Bench(walltime=Walltime(WALL + 300.0, WALL + 360.0, WALL + 375.0)).serving(1.0)
        bench.at(200.0, Warned("SIGHUP"))
        bench.at(200.1, Warned("SIGHUP"))
        assert bench.claim.lifecycle is Lifecycle.SERVING
        bench.at(210.0, Warned("SIGHUP"))
        assert bench.word == (Lifecycle.DRAINING, "SIGHUP")

    @pytest.mark.parametrize("walltime", [None, Walltime(WALL + 300.0, WALL + 360.0, WALL + 375.0)])
    def test_a_warning_of_anything_else_is_a_wish_to_leave(self, walltime: Walltime | None) -> None:
        """The allocation is taken back, or its end was never known."""
        bench = Bench(walltime=walltime).serving(1.0)
        bench.at(20.0, Warned("SIGUSR1"))
        assert bench.word == (Lifecycle.DRAINING, "SIGUSR1")

    def test_a_prolonged_end_is_offered_and_drained_for_later(self) -> None:
        """Slurm was asked at its time; what routers know and what we do move together."""
        ends = Walltime(WALL + 100.0, WALL + 160.0, WALL + 175.0)
        bench = Bench(walltime=ends, can_end_move=True).serving(1.0)
        assert AskEnd() not in bench.at(59.9)
        assert AskEnd() in bench.at(60.0)
        actions = bench.at(61.0, EndTold(WALL + 3600.0))
        assert TellEnd(WALL + 3600.0) in actions
        assert announced(actions) == [Lifecycle.SERVING]
        assert bench.claim.offer.walltime_ends_at == WALL + 3600.0
        assert announced(bench.at(170.0)) == []
        bench.at(3600.0 - 15.0 - 120.0)
        assert bench.word == (Lifecycle.DRAINING, "the walltime ends")

    def test_an_end_cut_short_is_drained_for_at_once(self) -> None:
        """As far as there is time."""
        bench = Bench(can_end_move=True).serving(1.0)
        bench.at(60.0, Carried(running=1, received=1))
        bench.at(61.0, EndTold(WALL + 80.0))
        assert bench.claim.offer.walltime_ends_at == WALL + 80.0
        bench.at(65.0 - 0.2 * 4.0)
        assert bench.word == (Lifecycle.DRAINING, "the walltime ends")
        assert CloseGateway not in kinds(bench.at(64.9))
        assert CloseGateway in kinds(bench.at(65.0))

    def test_a_drain_is_hurried_by_an_earlier_end_and_not_called_back_by_a_later(self) -> None:
        """In the mesh nothing comes back."""
        ends = Walltime(WALL + 100.0, WALL + 160.0, WALL + 175.0)
        bench = Bench(walltime=ends, can_end_move=True).serving(1.0)
        bench.at(90.0, Carried(running=1, received=1))
        bench.at(100.0)
        bench.at(105.0, EndTold(WALL + 3600.0))
        assert bench.claim.lifecycle is Lifecycle.DRAINING
        bench.at(110.0, EndTold(WALL + 150.0))
        assert CloseGateway not in kinds(bench.at(134.9))
        assert CloseGateway in kinds(bench.at(135.0))

    def test_a_signal_during_the_drain_shortens_it(self) -> None:
        """Whoever signals means it; a second signal that would lengthen it does not."""
        ends = Walltime(WALL + 100.0, WALL + 160.0, WALL + 175.0)
        bench = Bench(walltime=ends).serving(1.0)
        bench.at(90.0, Carried(running=1, received=1))
        bench.at(100.0)
        bench.at(110.0, StopAsked("SIGTERM"))
        bench.at(115.0, StopAsked("SIGTERM"))
        assert CloseGateway not in kinds(bench.at(127.9))
        assert CloseGateway in kinds(bench.at(128.0))
        assert bench.at(128.5, StopAsked("SIGTERM")) == []


def evicted(bench: Bench) -> Verdict:
    ending = said(bench.claim, "r1", "r2", ended_at_ms=1)
    return Verdict(registry="r1", session=bench.claim.session, ending=ending)


def suspected(bench: Bench, incarnation: int) -> Verdict:
    witnesses = said(bench.claim, "r1", incarnation=incarnation)
    return Verdict(registry="r1", session=bench.claim.session, witnesses=witnesses)


class TestTheMesh:
    """What registries say, and what we answer."""

    def test_a_probe_is_answered_with_the_claim(self) -> None:
        """Also when we are on our way out."""
        bench = Bench().serving(1.0)
        actions = bench.at(1.1, ProbeArrived(Probe(sequence=9), "reply.to"))
        assert actions == [AnswerProbe(bench.path, 9, "reply.to")]

    def test_before_there_is_a_session_nobody_is_answered(self) -> None:
        """There is nothing to say yet."""
        bench = Bench()
        bench.at(0.0)
        assert bench.at(0.1, ProbeArrived(Probe(sequence=9), "reply.to")) == []
        assert bench.at(0.1, MeshJoined()) == []
        assert bench.at(0.1, Carried(running=0, received=0)) == []

    def test_a_probe_that_carries_a_suspicion_is_refuted_first(self) -> None:
        """The answer then carries the greater incarnation."""
        bench = Bench().serving(1.0)
        probe = Probe(sequence=9, suspected=2)
        assert kinds(bench.at(1.1, ProbeArrived(probe, "r"))) == [Announce, AnswerProbe]
        assert bench.claim.incarnation == 3

    def test_a_suspicion_is_refuted_under_a_greater_incarnation(self) -> None:
        """Unless it is of somebody else, or of a past that is over."""
        bench = Bench().serving(1.0)
        other = replace(suspected(bench, 2), session=SessionId("other"))
        assert bench.at(1.1, VerdictArrived(other)) == []
        assert bench.at(1.2, VerdictArrived(suspected(bench, 1))) == []
        assert announced(bench.at(1.3, VerdictArrived(suspected(bench, 2)))) == [Lifecycle.SERVING]
        assert bench.claim.incarnation == 3

    def test_whoever_joins_the_mesh_again_says_again_what_it_is(self) -> None:
        """What was said in between is lost."""
        bench = Bench().serving(1.0)
        assert bench.at(1.1, MeshJoined()) == [Announce(bench.claim)]

    def test_an_evicted_session_is_followed_by_a_new_one_of_the_same_engine(self) -> None:
        """The engine goes on; running requests of the old session may finish."""
        bench = Bench().serving(1.0)
        old = bench.claim
        old_path = bench.path
        assert announced(bench.at(2.0, VerdictArrived(evicted(bench)))) == []
        assert bench.at(2.1, VerdictArrived(evicted(bench))) == []
        assert MakeSession() not in bench.at(4.9)
        assert MakeSession() in bench.at(5.0)
        assert MakeSession() not in bench.at(5.05, VerdictArrived(evicted(bench)))
        actions = bench.born(5.1)
        assert announced(actions) == [Lifecycle.JOINING, Lifecycle.LEFT, Lifecycle.SERVING]
        assert kinds(actions)[2:5] == [OpenGateway, RetireGateway, Announce]
        assert RetireGateway(old_path, 18.0) in actions
        assert LaunchEngine not in kinds(actions)
        assert bench.claim.session != old.session
        assert bench.claim.offer == old.offer
        assert bench.machine.restarts == 0
        assert MakeSession() not in bench.at(30.0, ProbeAnswered(0))

    def test_evictions_in_a_row_are_followed_more_and_more_slowly(self) -> None:
        """Somebody does not want us; a session that lasted starts the count again."""
        bench = Bench().serving(1.0)
        waits = []
        now = 2.0
        for _ in range(3):
            bench.at(now, VerdictArrived(evicted(bench)))
            waits.append(bench.machine._renew_at - now)
            bench.at(bench.machine._renew_at)
            bench.born(bench.now)
            now = bench.now + 1.0
        bench.at(bench.now + 100.0, VerdictArrived(evicted(bench)))
        waits.append(bench.machine._renew_at - bench.now)
        assert waits == [3.0, 6.0, 12.0, 3.0]

    def test_a_session_evicted_while_its_engine_loads_is_followed_too(self) -> None:
        """There is no gateway to move."""
        bench = Bench().launched()
        bench.at(1.0, VerdictArrived(evicted(bench)))
        bench.at(4.0)
        actions = bench.born(4.0)
        assert announced(actions) == [Lifecycle.JOINING, Lifecycle.LEFT]
        assert OpenGateway not in kinds(actions)
        assert [model.name for model in bench.claim.offer.models] == ["promised"]

    def test_an_eviction_of_what_has_ended_changes_nothing(self) -> None:
        """A new session comes anyway, or none shall."""
        bench = Bench().serving(1.0)
        bench.at(2.0, EngineEnded(0, "exit 1"))
        bench.at(2.5, VerdictArrived(evicted(bench)))
        assert math.isinf(bench.machine._renew_at)
        bench = Bench().serving(1.0)
        bench.at(2.0, Carried(running=1, received=1))
        bench.at(2.0, StopAsked("SIGTERM"))
        bench.at(2.5, VerdictArrived(evicted(bench)))
        assert math.isinf(bench.machine._renew_at)

    def test_an_engine_that_dies_before_its_new_session_is_born_starts_again(self) -> None:
        """One new session is enough for both reasons."""
        bench = Bench().serving(1.0)
        bench.at(2.0, VerdictArrived(evicted(bench)))
        bench.at(3.0, EngineEnded(0, "exit 1"))
        assert bench.at(6.0).count(MakeSession()) == 1
        assert LaunchEngine in kinds(bench.born(6.0))


def test_models_that_are_left_out_are_told_once_until_they_change() -> None:
    """The list is read again and again; the log says it once."""
    bench = Bench().launched()
    many = tuple(ModelOffer(name=f"{number:04}-" + "x" * 200) for number in range(200))
    bench.at(1.0, ProbeAnswered(0))
    (told,) = left_out(bench.at(1.0, OfferRead(0, EngineOffer("vllm", many))))
    assert told[-1] == many[-1].name
    assert len(told) + len(bench.claim.offer.models) == len(many)
    assert left_out(bench.at(11.0, OfferRead(0, EngineOffer("vllm", many)))) == []
    (told,) = left_out(bench.at(21.0, OfferRead(0, EngineOffer("vllm", many[:-1]))))
    assert told[-1] == many[-2].name


def test_time_never_goes_back() -> None:
    """A shell that mixes clocks up is found at once."""
    bench = Bench()
    bench.at(5.0)
    with pytest.raises(AssertionError, match="time went back"):
        bench.at(4.0)


def test_the_story_tells_what_happened() -> None:
    """For the status page, in words."""
    bench = Bench().serving(1.0)
    bench.at(2.0, StopAsked("SIGTERM"))
    words = [text for _, text in bench.machine.story]
    assert words[1:] == ["SERVING", "leaving: SIGTERM", "DRAINING SIGTERM"]
    assert words[0].startswith("session ")
