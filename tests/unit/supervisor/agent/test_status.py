"""What the health page tells of an agent."""

from tests.unit.supervisor.agent.parts import Bench, spoke, start, ulid

from opentela.supervisor.agent import status
from opentela.supervisor.events import StopAsked


def test_readiness_is_that_commands_are_taken() -> None:
    """With the reason why not."""
    bench = Bench(serves=False)
    bench.at(0.0)
    assert status.readiness(bench.machine, is_connected=True) == (False, "starting")
    bench = Bench()
    assert status.readiness(bench.machine, is_connected=True) == (True, "")
    told = status.readiness(bench.machine, is_connected=False)
    assert told == (False, "no connection to the mesh")
    bench.launch(start(1))
    bench.at(1.0, StopAsked("enough"))
    assert status.readiness(bench.machine, is_connected=True) == (False, "leaving: enough")


def test_the_page_tells_who_has_which_gpus() -> None:
    """And what happened."""
    bench = Bench()
    bench.launch(start(1, tp=2, term=3))
    bench.at(1.0, spoke(1, "ready", session="s"))
    page = status.document(bench.machine, {ulid(1): 7})
    assert (page["lifecycle"], page["term"], page["gpus_free"]) == ("SERVING", 3, ["2", "3"])
    (replica,) = page["replicas"]
    assert (replica["gpus"], replica["state"], replica["pid"]) == (["0", "1"], "ready", 7)
    assert page["story"][-1]["what"] == f"start {ulid(1)}: done"
