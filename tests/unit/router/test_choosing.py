"""Directory, wishes, ejections and policy each have their say, in that order."""

from tests.unit.router.parts import Dice, record, session_of

from opentela.core.pieces import Text
from opentela.core.record import Lifecycle, ModelOffer
from opentela.router.choosing import LASTS_MAX_S, SILENT_S, Chooser, Held, Lasts
from opentela.router.config import EjectionConfig, WaitConfig
from opentela.router.directory import Candidate, Directory
from opentela.router.fault import RETRY_AFTER_S, Fault, FaultKind
from opentela.router.matching import NO_WISH, Wish
from opentela.router.outcomes import Outcomes, Result
from opentela.router.policies.base import Call
from opentela.router.policies.round_robin import RoundRobin
from opentela.router.waiting import Waiting


class Bench:
    """A chooser among three sessions; the third ends soon."""

    def __init__(self) -> None:
        self.directory = Directory()
        self.directory.is_complete = True
        self.directory.apply([record(0), record(1, site="jura"), record(2, walltime_ends_at=5000)])
        self.outcomes = Outcomes(EjectionConfig())
        policy = RoundRobin(Dice())
        self.waiting = Waiting(WaitConfig(session_requests_max=2, depth_max=2, full_s=9.0))
        self.chooser = Chooser(
            self.directory,
            self.outcomes,
            policy,
            walltime_margin_s=100.0,
            waiting=self.waiting,
        )

    def choose(
        self, model: str = "m", wish: Wish = NO_WISH, tried: tuple[int, ...] = (), wall: float = 0.0
    ) -> Candidate | Fault | Held:
        """Choose at monotonic time 0."""
        sessions = [session_of(number) for number in tried]
        return self.chooser.choose(Call(model, "r"), wish, sessions, now=0.0, wall=wall)

    def chosen(self, **asked: object) -> str:
        """Return the session that is chosen."""
        choice = self.choose(**asked)  # type: ignore[arg-type]
        assert isinstance(choice, Candidate)
        return choice.session

    def fault(self, **asked: object) -> Fault:
        """Return why none is."""
        choice = self.choose(**asked)  # type: ignore[arg-type]
        assert isinstance(choice, Fault)
        return choice


def test_the_policy_picks_among_all() -> None:
    """When nothing speaks against any."""
    bench = Bench()
    assert [bench.chosen() for _ in range(3)] == [session_of(n) for n in range(3)]


def test_what_was_tried_is_not_tried_again() -> None:
    """Until none is left."""
    bench = Bench()
    assert bench.chosen(tried=(0, 2)) == session_of(1)
    assert bench.fault(tried=(0, 1, 2)).kind is FaultKind.NO_LIVE_SESSION


def test_wishes_are_kept_or_refused() -> None:
    """The error names the wish."""
    bench = Bench()
    assert bench.chosen(wish=Wish(sites=("jura",))) == session_of(1)
    fault = bench.fault(wish=Wish(sites=("etna",)))
    assert fault.kind is FaultKind.NO_MATCHING_SESSION
    assert "at site etna" in fault.message
    assert fault.param == "otela.site"


def test_an_allocation_about_to_end_is_a_last_resort() -> None:
    """Wall-clock time decides it, with the margin."""
    bench = Bench()
    assert {bench.chosen(wall=4899.0) for _ in range(3)} == {session_of(n) for n in range(3)}
    assert {bench.chosen(wall=4901.0) for _ in range(4)} == {session_of(0), session_of(1)}
    assert bench.chosen(wall=4901.0, tried=(0, 1)) == session_of(2)


def test_an_ejected_session_is_passed_over() -> None:
    """And still taken when it is the only one."""
    bench = Bench()
    bench.outcomes.end(0.0, session_of(1), Result.FAILED)
    assert {bench.chosen() for _ in range(4)} == {session_of(0), session_of(2)}
    assert bench.chosen(wish=Wish(sites=("jura",))) == session_of(1)


def test_the_first_tier_is_taken_while_it_is_sound() -> None:
    """Then the next one, and a retry goes on there."""
    bench = Bench()
    bench.directory.apply([record(3, labels={"tier": "gold"}), record(4, labels={"tier": "iron"})])
    wish = Wish(tiers=("gold", "iron"))
    assert {bench.chosen(wish=wish) for _ in range(3)} == {session_of(3)}
    assert bench.chosen(wish=wish, tried=(3,)) == session_of(4)
    bench.outcomes.end(0.0, session_of(3), Result.FAILED)
    assert bench.chosen(wish=wish) == session_of(4)


def test_what_is_behind_an_at_sign_may_belong_to_the_name() -> None:
    """If such a model is known it is no pin; nor if nothing is known before the sign."""
    bench = Bench()
    bench.directory.apply([record(5, models=[ModelOffer(name="m@main")])])
    said = {name: bench.chooser.is_pinned(name) for name in ("m@abcdef", "m@main", "x@abcdef", "@")}
    assert said == {"m@abcdef": True, "m@main": False, "x@abcdef": False, "@": False}


def test_walltime_that_is_left_counts_from_now() -> None:
    """By the wall clock."""
    bench = Bench()
    wish = Wish(walltime_min_s=1000.0, sites=("alps",))
    assert {bench.chosen(wish=wish, wall=4000.0) for _ in range(3)} == {
        session_of(0),
        session_of(2),
    }
    assert {bench.chosen(wish=wish, wall=4001.0) for _ in range(3)} == {session_of(0)}


def test_unknown_and_absent_models_differ() -> None:
    """Nobody ever offered the one; the other may be back in a minute."""
    bench = Bench()
    assert bench.fault(model="x").kind is FaultKind.MODEL_NOT_FOUND
    gone = [record(n, lifecycle=Lifecycle.LEFT, incarnation=2) for n in range(3)]
    bench.directory.apply(gone)
    absent = bench.fault()
    assert absent.kind is FaultKind.NO_LIVE_SESSION
    assert absent.retry_after_s > 0


def test_a_session_that_will_not_see_the_end_of_the_answer_is_a_last_resort() -> None:
    """What the request will take counts on top of the margin; how long is not asked in vain."""
    asked: list[float] = []

    def lasts(seconds: float) -> Lasts:
        def answer(_model: str, _body: Text) -> float:
            asked.append(seconds)
            return seconds

        return answer

    bench = Bench()

    def chosen(seconds: float, wall: float) -> set[str]:
        call = Call("m", "r")
        found: set[str] = set()
        for _ in range(3):
            choice = bench.chooser.choose(
                call, NO_WISH, (), now=0.0, wall=wall, lasts=lasts(seconds)
            )
            assert isinstance(choice, Candidate)
            found.add(choice.session)
        return found

    everybody, lasting = {session_of(n) for n in range(3)}, {session_of(n) for n in range(2)}
    assert chosen(100.0, wall=4800.0) == everybody
    assert chosen(100.5, wall=4800.0) == lasting
    assert chosen(1e9, wall=5000.0 - 100.0 - LASTS_MAX_S) == everybody
    asked.clear()
    assert chosen(1e9, wall=0.0) == everybody
    assert not asked


def test_the_last_resort_is_taken_when_nobody_else_is_there() -> None:
    """The supervisor itself knows best whether it still fits."""
    bench = Bench()
    tried = [session_of(0), session_of(1)]
    choice = bench.chooser.choose(
        Call("m", "r"), NO_WISH, tried, now=0.0, wall=4990.0, lasts=lambda *_: 60.0
    )
    assert isinstance(choice, Candidate)
    assert choice.session == session_of(2)


class Someone:
    """A request that waits."""

    wants = ()

    def recheck(self) -> None:
        """Do nothing."""


def fill(bench: Bench, *numbers: int) -> None:
    """Give sessions as much as they may have."""
    for number in numbers:
        for _ in range(bench.waiting.config.session_requests_max):
            bench.waiting.started(session_of(number))


def test_full_sessions_are_passed_over() -> None:
    """However the policy would choose."""
    bench = Bench()
    fill(bench, 0, 2)
    assert {bench.chosen() for _ in range(3)} == {session_of(1)}


def test_when_all_are_full_a_request_waits() -> None:
    """Those count that could serve it and were not tried."""
    bench = Bench()
    fill(bench, 0, 2)
    held = bench.choose(wish=Wish(sites=("alps",)))
    assert isinstance(held, Held)
    assert (held.wait_s, held.fault.kind) == (9.0, FaultKind.MODEL_BUSY)
    assert "All 2 sessions" in held.fault.message
    assert isinstance(bench.choose(tried=(1,)), Held)


def test_a_full_line_is_told_how_long_it_is() -> None:
    """By the places there are, and by what a request takes."""
    bench = Bench()
    fill(bench, 0, 1, 2)
    for _ in range(2):
        bench.waiting.join("m", Someone())
    call = Call("m", "r")
    held = bench.chooser.choose(call, NO_WISH, (), now=0.0, wall=0.0, lasts=lambda *_: 60.0)
    assert isinstance(held, Held)
    assert not held.has_room
    assert held.fault.kind is FaultKind.MODEL_BUSY
    assert held.fault.retry_after_s == 30


def test_a_model_that_is_loading_is_waited_for() -> None:
    """With what is known of when it will be there; nobody waits where none may."""
    bench = Bench()
    bench.directory.apply([record(0, lifecycle=Lifecycle.LEFT, incarnation=2)])
    x = [ModelOffer(name="x")]
    bench.directory.apply([record(5, models=x, lifecycle=Lifecycle.JOINING)], wall=1000.0)
    held = bench.choose(model="x")
    assert isinstance(held, Held)
    assert (held.wait_s, held.fault.kind) == (60.0, FaultKind.MODEL_LOADING)
    assert (held.fault.retry_after_s, held.fault.param) == (RETRY_AFTER_S, "model")
    bench.directory.apply([record(5, models=x, incarnation=2)], wall=1090.0)
    assert bench.chosen(model="x") == session_of(5)
    bench.directory.apply([record(5, models=x, incarnation=3, lifecycle=Lifecycle.LEFT)])
    bench.directory.apply([record(6, models=x, lifecycle=Lifecycle.JOINING)], wall=1000.0)
    again = bench.choose(model="x", wall=1030.5)
    assert isinstance(again, Held)
    assert again.fault.retry_after_s == 60
    assert "in about 60 s" in again.fault.message


def test_sessions_that_are_all_suspected_are_waited_for_shortly() -> None:
    """They may only have stood still; one that serves is taken, and the gone are given up."""
    bench = Bench()
    x = [ModelOffer(name="x")]
    bench.directory.apply([record(5, models=x, suspected=1)])
    held = bench.choose(model="x")
    assert isinstance(held, Held)
    assert (held.wait_s, held.fault.kind) == (SILENT_S, FaultKind.NO_LIVE_SESSION)
    bench.directory.apply([record(5, models=x, suspected=1, incarnation=2)])
    assert bench.chosen(model="x") == session_of(5)
    bench.directory.apply([record(5, models=x, lifecycle=Lifecycle.LEFT, incarnation=3)])
    assert isinstance(bench.choose(model="x"), Fault)


def test_who_waits_for_no_load_waits_for_the_suspected_no_longer() -> None:
    """One knob says how long clients may be kept at all."""
    bench = Bench()
    x = [ModelOffer(name="x")]
    bench.directory.apply([record(5, models=x, suspected=1)])
    bench.waiting.config = WaitConfig(loading_s=1.0)
    held = bench.choose(model="x")
    assert isinstance(held, Held)
    assert held.wait_s == 1.0
    bench.waiting.config = WaitConfig(loading_s=0.0)
    assert isinstance(bench.choose(model="x"), Fault)


def test_a_router_that_lets_nobody_wait_says_so_at_once() -> None:
    """As the ones of the simulation."""
    bench = Bench()
    policy = RoundRobin(Dice())
    chooser = Chooser(bench.directory, bench.outcomes, policy, walltime_margin_s=0.0)
    bench.directory.apply([record(5, models=[ModelOffer(name="x")], lifecycle=Lifecycle.JOINING)])
    fault = chooser.choose(Call("x", "r"), NO_WISH, (), now=0.0, wall=0.0)
    assert isinstance(fault, Fault)
    assert fault.kind is FaultKind.MODEL_LOADING


def test_who_serves_what_is_known() -> None:
    """For who offers a session's room to those who wait."""
    bench = Bench()
    assert bench.chooser.serves(session_of(0), "m")
    assert not bench.chooser.serves(session_of(0), "x")
    assert not bench.chooser.serves(session_of(9), "m")
