"""Every checker can fail: with its machine broken on purpose, the run is found broken by it."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from opentela.core import refusal, session_map
from opentela.core.record import SessionRecord
from opentela.core.session_map import SessionMap
from opentela.registry.detector import Detector
from opentela.registry.peers import Peers
from opentela.router import choosing, directory
from opentela.router.attempt import Attempts
from opentela.router.attempt_events import Action, Finish
from opentela.router.directory import Directory
from opentela.router.outcomes import Outcomes
from opentela.router.policies.least_load import LeastLoad
from opentela.stream.caller import Caller
from opentela.stream.events import Consumed
from opentela.testing.sim import keys, nemesis
from opentela.testing.sim.catalogue import NAMED
from opentela.testing.sim.cluster import Cluster
from opentela.testing.sim.expecting import fixed
from opentela.testing.sim.run import Run, Scenario, SimFailedError
from opentela.testing.sim.scenarios import mesh
from opentela.view import exchange
from opentela.wire.control import Repair
from opentela.wire.frames import Data, End

Patch = pytest.MonkeyPatch
SEEDS = 6
"""A broken machine is found under one of so few seeds."""


def found(scenario: str | Scenario) -> str:
    """Return the first line of what the first broken run says is wrong."""
    chosen = NAMED[scenario] if isinstance(scenario, str) else scenario
    for seed in range(SEEDS):
        try:
            Run(chosen, seed).result()
        except SimFailedError as error:
            return str(error).splitlines()[1].strip()
    pytest.fail(f"{SEEDS} seeds of {chosen.name} held")


def returning(value: object) -> Callable[..., Any]:
    return lambda *_args, **_kwargs: value


def test_a_lifecycle_that_goes_back_is_found(monkeypatch: Patch) -> None:
    """As if the latest word counted, and not the greatest."""

    def latest(_mine: SessionRecord, theirs: SessionRecord) -> SessionRecord:
        return theirs

    monkeypatch.setattr(session_map, "merge", latest)
    assert found("repeated-claims-change-nothing").startswith(
        ("Violation: lattice:", "Violation: incarnation:", "Violation: suspicion:")
    )


def test_a_resurrection_is_found(monkeypatch: Patch) -> None:
    """As if nobody knew how far back memory goes."""
    monkeypatch.setattr(SessionMap, "_refusal_of_newcomer", returning(None))
    assert found("who-was-forgotten-does-not-rise").startswith("Violation: resurrection:")


def test_routing_to_the_ended_is_found(monkeypatch: Patch) -> None:
    """As if a directory never dropped anybody."""
    monkeypatch.setattr(directory, "is_routable", lambda _record: True)
    assert found("sessions-that-leave-in-order-lose-no-request").startswith("Violation: routing:")


def test_trying_twice_on_one_session_is_found(monkeypatch: Patch) -> None:
    """As if the sessions that were tried did not matter."""
    monkeypatch.setattr(choosing, "admitted", lambda pool, *_, **__: pool.candidates)
    monkeypatch.setattr(Outcomes, "ejected", returning(()))
    deaf = NAMED["a-site-that-is-heard-but-hears-nothing-is-avoided"]
    assert found(replace(deaf, expect=None)).startswith("Violation: attempts:")


def test_a_request_that_ends_twice_is_found(monkeypatch: Patch) -> None:
    """As if an answer could be finished again."""
    finish = Attempts._finish

    def twice(self: Attempts, *args: Any) -> list[Action]:
        return [*finish(self, *args), Finish()]

    monkeypatch.setattr(Attempts, "_finish", twice)
    assert found("sessions-that-leave-in-order-lose-no-request").startswith("Violation: ends:")


def test_a_request_that_does_not_end_is_found(monkeypatch: Patch) -> None:
    """As if the end of a stream could be overheard."""
    monkeypatch.setattr(Attempts, "_on_tick", returning([]))
    monkeypatch.setattr(Caller, "next_deadline", returning(None))
    assert found("a-half-open-link-is-routed-around").startswith(
        ("Violation: ends:", "Violation: expected: requests", "Violation: expected: q")
    )


def test_a_false_success_is_found(monkeypatch: Patch) -> None:
    """As if a gap in an answer were none."""

    def data(self: Caller, now: float, frame: Data) -> list[Any]:
        return [*self._hear(now), *([frame] if frame.data else [])]

    def end(self: Caller, now: float, frame: End) -> list[Any]:
        return [*self._hear(now), frame]

    handlers = {**Caller._HANDLERS, Data: data, End: end, Consumed: returning([])}
    monkeypatch.setattr(Caller, "_HANDLERS", handlers)
    assert found("a-third-of-all-messages-lost-evicts-nobody").startswith(
        "Violation: false success:"
    )


def test_a_model_that_is_denied_is_found(monkeypatch: Patch) -> None:
    """As if a router knew only of what it could use at the moment."""
    monkeypatch.setattr(Directory, "was_offered", lambda self, name: name in self._by_name)

    def harm(cluster: Cluster, _: Random) -> float:
        cluster.supervisors["gpu-0"].kill_engine()
        return 5.0

    alone = mesh(supervisors=("north",))
    scenario = Scenario(name="alone", form=fixed(alone), faults=harm)
    assert found(scenario).startswith("Violation: denied:")


def test_a_farewell_that_is_not_heard_is_found(monkeypatch: Patch) -> None:
    """As if who leaves in order might only be cut off."""
    monkeypatch.setattr(Peers, "left", returning(None))
    assert found("a-registry-that-leaves-in-order-is-not-waited-for").startswith(
        "Violation: expected: "
    )


def test_a_count_that_does_not_balance_is_found(monkeypatch: Patch) -> None:
    """As if an attempt could end without being counted out."""
    monkeypatch.setattr(LeastLoad, "on_request_end", returning(None))
    assert found("sessions-that-leave-in-order-lose-no-request").startswith("Violation: in flight:")


def test_views_that_differ_are_found(monkeypatch: Patch) -> None:
    """As if nobody repaired what was lost."""

    def harm(cluster: Cluster, rng: Random) -> float:
        nemesis.lose_deltas(cluster, rng, 10.0)
        nemesis.kill_engines(cluster, rng, 5.0)
        return 12.0

    monkeypatch.setattr(exchange, "answer", lambda _held, name, _ask: Repair(registry=name))
    scenario = Scenario(name="lost-deltas", form=fixed(mesh()), faults=harm)
    assert found(scenario).startswith("Violation: convergence:")


def test_a_ghost_is_found(monkeypatch: Patch) -> None:
    """As if no silence were ever long enough."""
    monkeypatch.setattr(Detector, "_has_failed", lambda *_: False)
    assert found("who-died-while-no-registry-knew-is-found").startswith(
        ("Violation: ghost:", "Violation: routing:")
    )


def test_an_eviction_of_the_living_is_found(monkeypatch: Patch) -> None:
    """As if no sign of life counted."""
    monkeypatch.setattr(Detector, "heard", returning(None))
    monkeypatch.setattr(Detector, "pardon", returning(None))
    assert found("a-stopped-process-is-not-evicted").startswith("Violation: eviction:")


def test_an_honest_record_that_is_refused_is_found(monkeypatch: Patch) -> None:
    """As if some signatures could not be verified."""
    monkeypatch.setattr(refusal, "SKEW_MS", 0)
    assert found("sessions-that-leave-in-order-lose-no-request").startswith(
        ("Violation: refused:", "Violation: start:")
    )


def test_what_grows_without_bound_is_found(monkeypatch: Patch) -> None:
    """As if a policy kept a note of each request."""
    start = LeastLoad.on_request_start

    def hoard(self: LeastLoad, call: Any, chosen: Any) -> None:
        start(self, call, chosen)
        self.__dict__.setdefault("hoard", []).append(call)

    monkeypatch.setattr(LeastLoad, "on_request_start", hoard)
    assert found("sessions-that-leave-in-order-lose-no-request").startswith("Violation: growth:")


def test_a_machine_that_never_rests_is_found(monkeypatch: Patch) -> None:
    """As if a deadline stayed where it is when it has passed."""
    monkeypatch.setattr(Detector, "due", returning([]))
    assert found("sessions-that-leave-in-order-lose-no-request").startswith("RunawayError:")


def test_a_machine_that_raises_is_found(monkeypatch: Patch) -> None:
    """A bug is a failed run, with its place."""

    def fall(*_: object) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(Outcomes, "end", fall)
    assert found("sessions-that-leave-in-order-lose-no-request").startswith("ZeroDivisionError")


def test_signatures_of_the_simulation_tell_true_from_false() -> None:
    """Or no lie in it would ever be refused."""
    one, other = (keys.FakeIdentity(Random(seed)) for seed in (1, 2))
    assert keys.verify(one.key, b"body", one.sign(b"body"))
    assert not keys.verify(one.key, b"body", other.sign(b"body"))
    assert not keys.verify(one.key, b"other", one.sign(b"body"))
