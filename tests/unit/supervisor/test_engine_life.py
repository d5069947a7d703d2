"""One launch: what is asked when, and what the answers make of it."""

import math

import pytest

from opentela.core.record import ModelOffer
from opentela.supervisor.actions import ProbeEngine, ReadLoad, ReadOffer, TellUnread
from opentela.supervisor.config import WatchConfig
from opentela.supervisor.engine_life import EngineLife
from opentela.supervisor.engine_state import EngineState, Signal
from opentela.supervisor.engines.base import EngineLoad, EngineOffer, LoadProgress
from opentela.supervisor.events import (
    EngineSpawned,
    EngineWrote,
    LoadRead,
    OfferRead,
    OfferUnread,
    ProbeAnswered,
    ProbeFailed,
    ProbeTimedOut,
)
from opentela.supervisor.health import Condition

CONFIG = WatchConfig(
    probe_s=1.0,
    loading_probe_s=0.25,
    offer_s=10.0,
    offer_retry_s=2.0,
    load_s=3.0,
    stall_s=60.0,
    failures_max=1,
    timeouts_max=1,
    hang_s=5.0,
    pause_s=1000.0,
)
TINY = EngineOffer("openai", (ModelOffer(name="tiny"),))
NOTHING = EngineOffer("openai", ())


def loading() -> EngineLife:
    life = EngineLife(7, CONFIG, 0.0)
    life.observe(1.0, EngineSpawned(7))
    return life


def ready(now: float = 2.0) -> EngineLife:
    life = loading()
    life.asks(1.0)
    life.observe(now, ProbeAnswered(7))
    life.asks(now)
    life.observe(now, OfferRead(7, TINY))
    life.move(Signal.SERVED)
    return life


def test_a_launched_process_is_probed_at_once_and_nothing_else() -> None:
    """Before it runs there is nobody to ask."""
    life = EngineLife(7, CONFIG, 0.0)
    assert life.asks(100.0) == []
    assert math.isinf(life.next_deadline())
    life.observe(1.0, EngineSpawned(7))
    assert life.state is EngineState.LOADING
    assert life.next_deadline() == 1.0
    assert life.asks(1.0) == [ProbeEngine(7)]


def test_no_question_is_repeated_before_its_answer() -> None:
    """A slow engine is not asked more for being slow."""
    life = loading()
    life.asks(1.0)
    assert life.asks(500.0) == []
    life.observe(500.0, ProbeTimedOut(7))
    assert life.next_deadline() == 500.25


def test_a_loading_engine_is_probed_often_and_a_ready_one_less() -> None:
    """The interval counts from the answer."""
    life = loading()
    life.asks(1.0)
    life.observe(1.5, ProbeFailed(7, "connection refused"))
    assert life.next_deadline() == 1.75
    life = ready(2.0)
    life.asks(2.25)
    life.observe(2.5, ProbeAnswered(7))
    assert life.asks(3.4) == []
    assert ProbeEngine(7) in life.asks(3.5)


def test_the_offer_is_read_once_the_engine_answers_and_then_again_and_again() -> None:
    """One read is outstanding at most, however often the engine is probed meanwhile."""
    life = loading()
    life.asks(1.0)
    life.observe(2.0, ProbeAnswered(7))
    assert life.asks(2.0) == [ReadOffer(7)]
    life.asks(2.25)
    life.observe(2.25, ProbeAnswered(7))
    assert ReadOffer(7) not in life.asks(2.5)
    assert life.judge(2.5).condition is Condition.UNKNOWN
    life.observe(3.0, OfferRead(7, TINY))
    assert life.judge(3.0).condition is Condition.HEALTHY
    assert ReadOffer(7) not in life.asks(12.9)
    assert ReadOffer(7) in life.asks(13.0)


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (OfferUnread(7, "status 500"), "status 500"),
        (OfferRead(7, NOTHING), "it lists no model"),
    ],
)
def test_an_offer_that_could_not_be_read_is_read_again_soon(
    event: OfferRead | OfferUnread, reason: str
) -> None:
    """Until then the engine is not ready, and the reason is known."""
    life = loading()
    life.asks(1.0)
    life.observe(2.0, ProbeAnswered(7))
    life.asks(2.0)
    life.observe(2.0, event)
    assert life.judge(2.0) == (Condition.UNKNOWN, reason)
    assert ReadOffer(7) in life.asks(4.0)
    life.observe(4.0, OfferRead(7, TINY))
    assert (life.offer, life.offer_failure) == (TINY, "")


def unread(life: EngineLife, now: float, reason: str = "status 500") -> list[TellUnread]:
    life.observe(now, OfferUnread(7, reason))
    return [one for one in life.asks(now) if isinstance(one, TellUnread)]


def test_an_offer_that_stays_unreadable_is_told_at_once_and_then_ever_less() -> None:
    """With its reason and its count: a session that loads for ever is no riddle."""
    life = loading()
    told = [one for now in range(2, 3602, 2) for one in unread(life, float(now))]
    assert told[0] == TellUnread(7, "status 500", 1)
    assert [one.failures for one in told] == [1, 6, 16, 36, 76, 156, 316, 616, 916, 1216, 1516]


def test_another_reason_is_told_sooner_but_no_flood_of_reasons_is() -> None:
    """Whatever an engine answers, the log is not filled."""
    life = loading()
    assert unread(life, 2.0)
    assert unread(life, 100.0)
    assert unread(life, 105.0, "no JSON") == []
    assert unread(life, 110.0, "no JSON") == [TellUnread(7, "no JSON", 4)]
    told = [unread(life, 110.0 + now / 10, f"byte {now}") for now in range(1, 1000)]
    assert sum(map(len, told)) == 9


def test_an_offer_that_is_read_at_last_is_told_anew_when_it_fails_again() -> None:
    """The count is of reads in a row."""
    life = loading()
    assert unread(life, 2.0)
    life.observe(4.0, OfferRead(7, TINY))
    assert unread(life, 20.0) == [TellUnread(7, "status 500", 1)]


def test_an_engine_that_goes_silent_with_an_unreadable_offer_ends_with_that_reason() -> None:
    """Not merely for being silent."""
    life = loading()
    life.observe(2.0, ProbeAnswered(7))
    unread(life, 2.0)
    finding = life.judge(1.0 + CONFIG.load_stall_s)
    assert finding.condition is Condition.UNHEALTHY
    assert finding.reason.endswith("and its models cannot be read: status 500")


def test_a_ready_engine_keeps_its_offer_when_a_read_fails_and_follows_when_it_changes() -> None:
    """An error says nothing about the models; an empty list does."""
    life = ready()
    life.observe(12.0, OfferUnread(7, "status 500"))
    assert life.offer == TINY
    assert life.judge(12.0).condition is Condition.HEALTHY
    life.observe(14.0, OfferRead(7, NOTHING))
    assert life.offer == NOTHING


def test_metrics_are_read_from_the_first_offer_on() -> None:
    """They tell how busy it is, and whether tokens are made."""
    life = ready(2.0)
    assert ReadLoad(7) in life.asks(2.0)
    life.observe(2.1, LoadRead(7, EngineLoad(running=3, tokens=10.0)))
    assert life.load.running == 3
    assert ReadLoad(7) not in life.asks(5.0)
    assert ReadLoad(7) in life.asks(5.1)
    life.observe(5.2, LoadRead(7, None))
    assert life.load == EngineLoad()


def test_tokens_and_bytes_reach_the_judgement() -> None:
    """A ready engine that makes no token while requests run is hung."""
    life = ready(2.0)
    life.observe(2.0, LoadRead(7, EngineLoad(tokens=1.0)))
    life.carried(2.0, running=1, received=0)
    life.observe(60.0, ProbeAnswered(7))
    assert life.judge(61.9).condition is Condition.HEALTHY
    assert life.judge(62.0).condition is Condition.HUNG


def test_output_moves_the_progress_of_loading() -> None:
    """A line without a stage keeps the last one."""
    life = loading()
    life.observe(2.0, EngineWrote(7, LoadProgress("shards", 0.5)))
    life.observe(3.0, EngineWrote(7))
    assert life.progress == LoadProgress("shards", 0.5)


def test_what_a_ready_engine_prints_is_no_progress_of_loading() -> None:
    """Its log has percentages of other things."""
    life = ready()
    life.observe(3.0, EngineWrote(7, LoadProgress("cache usage", 0.1)))
    assert life.progress is None


def test_failed_probes_make_a_ready_engine_ill() -> None:
    """Refusals and silence both count."""
    life = ready()
    life.observe(3.0, ProbeFailed(7, "status 503"))
    assert life.judge(3.0).condition is Condition.UNHEALTHY
    life = ready(2.0)
    life.observe(7.0, ProbeTimedOut(7))
    assert life.judge(7.0).condition is Condition.HUNG


def test_an_engine_on_its_way_out_is_neither_asked_nor_judged() -> None:
    """Its end is all that is awaited."""
    life = ready()
    life.observe(3.0, ProbeFailed(7, "status 503"))
    life.move(Signal.LEFT)
    assert life.asks(1e6) == []
    assert math.isinf(life.next_deadline())
    assert life.judge(90.0).condition is Condition.UNKNOWN
