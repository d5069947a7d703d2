"""What the health page says of a supervisor."""

import pytest
from tests.unit.supervisor.test_machine import TINY, Bench

from opentela.core.record import ModelOffer
from opentela.supervisor import status
from opentela.supervisor.engines.base import EngineOffer, LoadProgress
from opentela.supervisor.events import (
    EngineEnded,
    EngineWrote,
    OfferRead,
    OfferUnread,
    ProbeAnswered,
    StopAsked,
)
from opentela.telemetry import metrics


@pytest.fixture
def bench() -> Bench:
    return Bench()


def told(bench: Bench, *, is_connected: bool = True) -> tuple[bool, str]:
    return status.readiness(bench.machine, is_connected=is_connected)


def test_readiness_follows_the_life_of_the_engine(bench: Bench) -> None:
    """Each time it is not ready the reason is the nearest one."""
    assert told(bench) == (False, "starting")
    bench.launched()
    assert told(bench) == (False, "loading")
    bench.at(0.1, EngineWrote(0, LoadProgress("shards", 0.5)))
    assert told(bench) == (False, "loading: shards")
    bench.serving(1.0)
    assert told(bench) == (True, "")
    assert told(bench, is_connected=False) == (False, "no connection to the mesh")
    bench.at(2.0, EngineEnded(0, "exit 1"))
    assert told(bench) == (False, "stopped: exit 1")
    bench.at(3.0, StopAsked("SIGTERM"))
    assert told(bench) == (False, "leaving: SIGTERM")


def test_a_session_that_does_not_serve_is_not_ready(bench: Bench) -> None:
    """Such as in the moment between two sessions of one engine."""
    bench.launched()
    bench.at(0.1, ProbeAnswered(0))
    bench.at(0.1, OfferRead(0, TINY))
    assert bench.machine.session is not None
    claim = bench.machine.session.claim
    bench.machine.session.claim = type(claim)(
        **{name: getattr(claim, name) for name in claim.__struct_fields__ if name != "lifecycle"},
        lifecycle=type(claim.lifecycle).JOINING,
    )
    assert told(bench) == (False, "joining")


def test_the_document_names_session_engine_and_story(bench: Bench) -> None:
    """Empty before anything has happened, and complete afterwards."""
    empty = status.document(bench.machine, pid=0, address="", running=0, tail=[])
    assert (empty["session"], empty["models"], empty["engine"]["state"]) == ("", [], "stopped")
    bench.launched()
    offer = EngineOffer("vllm", (ModelOffer(name="tiny"),), "0.32")
    bench.at(1.0, EngineWrote(0, LoadProgress("shards", 0.5)))
    bench.at(1.0, ProbeAnswered(0))
    bench.at(1.0, OfferRead(0, offer))
    full = status.document(bench.machine, pid=5, address="h:1", running=2, tail=["last"])
    assert full["session"] == bench.claim.session
    assert (full["lifecycle"], full["models"], full["running"]) == ("SERVING", ["tiny"], 2)
    assert full["engine"] == {
        "kind": "vllm",
        "version": "0.32",
        "state": "ready",
        "pid": 5,
        "address": "h:1",
        "progress": {"stage": "shards", "share": 0.5},
        "offer_failure": "",
    }
    assert full["story"][-1] == {"at": "2027-01-15T08:00:01.000+00:00", "what": "SERVING"}
    assert full["log"] == ["last"]
    assert full["walltime_ends_at"] == ""


def test_models_that_cannot_be_read_are_what_a_loading_session_waits_for(bench: Bench) -> None:
    """The page says so while it is tried again and again."""
    bench.launched()
    bench.at(0.1, ProbeAnswered(0))
    bench.at(0.1, OfferUnread(0, "/v1/models answered 500"))
    words = "loading: its models cannot be read: /v1/models answered 500"
    assert told(bench) == (False, words)
    bench.at(1.0, OfferRead(0, TINY))
    assert told(bench) == (True, "")


def test_models_without_room_in_the_claim_are_named(bench: Bench) -> None:
    """Whoever misses an adapter finds it here."""
    bench.launched()
    many = tuple(ModelOffer(name=f"{number:04}-" + "x" * 200) for number in range(200))
    bench.at(1.0, ProbeAnswered(0))
    bench.at(1.0, OfferRead(0, EngineOffer("vllm", many)))
    page = status.document(bench.machine, pid=0, address="", running=0, tail=[])
    assert page["models"] + page["models_left_out"] == [model.name for model in many]
    assert page["models_left_out"]


def test_metrics_show_one_state(bench: Bench) -> None:
    """And how many requests and restarts there are."""
    bench.serving(1.0)
    status.measure(bench.machine, 3, 4096)
    lines = metrics.render().decode().splitlines()
    states = [line for line in lines if line.startswith("otela_supervisor_engine_state{")]
    assert [line for line in states if line.endswith(" 1.0")] == [
        'otela_supervisor_engine_state{state="ready"} 1.0'
    ]
    assert "otela_supervisor_requests_running 3.0" in lines
    assert "otela_supervisor_output_dropped_bytes 4096.0" in lines
    assert "otela_supervisor_engine_restarts 0.0" in lines
