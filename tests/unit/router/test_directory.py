"""Names lead to the sessions that serve them now."""

import pytest
from tests.unit.router.parts import NEVER, record, session_of

from opentela.core.record import Lifecycle, ModelOffer, SessionRecord
from opentela.router import directory as module
from opentela.router.directory import EMPTY, Directory, Loading


def made() -> Directory:
    """Return a directory that has taken in the whole mesh."""
    directory = Directory()
    directory.is_complete = True
    return directory


def sessions(directory: Directory, name: str) -> list[str]:
    """Return who serves *name*, in order."""
    return [one.session for one in directory.pool(name).candidates]


def test_no_name_is_unknown_before_the_map_is_complete() -> None:
    """A router that has just started answers "try again", not "does not exist"."""
    directory = made()
    directory.is_complete = False
    assert directory.was_offered("m")
    directory.is_complete = True
    assert not directory.was_offered("m")


def test_live_sessions_are_found_in_order_of_id() -> None:
    """Whatever order they came in."""
    directory = made()
    directory.apply([record(2), record(0)])
    directory.apply([record(1)])
    assert sessions(directory, "m") == [session_of(0), session_of(1), session_of(2)]
    one = directory.pool("m").candidates[0]
    assert (one.site, one.provider, one.ends_at) == ("alps", "cscs", NEVER)


def test_a_pool_is_built_once() -> None:
    """Requests find it ready."""
    directory = made()
    directory.apply([record(0)])
    assert directory.pool("m") is directory.pool("m")


@pytest.mark.parametrize(
    "lifecycle", [Lifecycle.JOINING, Lifecycle.DRAINING, Lifecycle.DOWN, Lifecycle.LEFT]
)
def test_only_serving_sessions_are_candidates(lifecycle: Lifecycle) -> None:
    """What they offer was offered all the same."""
    directory = made()
    assert directory.apply([record(0, lifecycle=lifecycle)]) == []
    assert directory.pool("m") is EMPTY
    assert directory.was_offered("m")
    assert not directory.was_offered("x")


def test_a_session_that_ends_is_gone_at_once_and_named() -> None:
    """What is remembered of it elsewhere can be dropped."""
    directory = made()
    directory.apply([record(0), record(1)])
    gone = directory.apply([record(0, lifecycle=Lifecycle.DOWN, incarnation=2)])
    assert gone == [session_of(0)]
    assert sessions(directory, "m") == [session_of(1)]
    assert directory.session_count == 1


def test_a_suspected_session_is_no_candidate_until_it_refutes() -> None:
    """Routing stops with the suspicion and begins again with the greater incarnation."""
    directory = made()
    directory.apply([record(0)])
    directory.apply([record(0, suspected=1)])
    assert sessions(directory, "m") == []
    assert (directory.silent("m"), directory.silent("n")) == (1, 0)
    directory.apply([record(0, suspected=1, incarnation=2)])
    assert sessions(directory, "m") == [session_of(0)]


def test_a_changed_offer_changes_the_names() -> None:
    """An adapter that is unloaded is not routed to."""
    directory = made()
    directory.apply([record(0, models=[ModelOffer(name="m"), ModelOffer(name="lora")])])
    assert sessions(directory, "lora") == [session_of(0)]
    directory.apply([record(0, models=[ModelOffer(name="m")], incarnation=2)])
    assert sessions(directory, "lora") == []
    assert sessions(directory, "m") == [session_of(0)]
    assert directory.was_offered("lora")


def test_adapters_lead_only_to_sessions_that_hold_them() -> None:
    """The base model is served by both."""
    directory = made()
    lora = [ModelOffer(name="m"), ModelOffer(name="lora")]
    directory.apply([record(0), record(1, models=lora)])
    assert sessions(directory, "lora") == [session_of(1)]
    assert sessions(directory, "m") == [session_of(0), session_of(1)]


def test_aliases_lead_to_the_model_but_are_not_listed() -> None:
    """One model is one entry."""
    directory = made()
    directory.apply([record(0, models=[ModelOffer(name="a/b", aliases=("b", "best"))])])
    assert sessions(directory, "best") == [session_of(0)]
    assert directory.pool("b").candidates[0].offer.name == "a/b"
    assert list(directory.models()) == ["a/b"]
    assert directory.was_offered("best")


def test_a_models_own_name_beats_an_alias() -> None:
    """Also when the alias comes later, and within one session."""
    directory = made()
    clash = [ModelOffer(name="x"), ModelOffer(name="y", aliases=("x", "z")), ModelOffer(name="z")]
    directory.apply([record(0, models=clash)])
    assert directory.pool("x").candidates[0].offer.name == "x"
    assert directory.pool("z").candidates[0].offer.name == "z"
    assert list(directory.models()) == ["x", "y", "z"]


def test_a_listed_model_counts_only_who_bears_the_name() -> None:
    """Who knows it as an alias of something else serves something else."""
    directory = made()
    directory.apply([record(0), record(1, models=[ModelOffer(name="n", aliases=("m",))])])
    assert sessions(directory, "m") == [session_of(0), session_of(1)]
    assert [one.session for one in directory.models()["m"].candidates] == [session_of(0)]


def test_the_first_end_of_a_pool_is_known() -> None:
    """It saves looking at each candidate."""
    directory = made()
    directory.apply([record(0), record(1, walltime_ends_at=500.0)])
    directory.apply([record(2, walltime_ends_at=900.0)])
    assert directory.pool("m").ends_first_at == 500.0


def test_names_once_offered_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest are forgotten; what lives is known whatever its age."""
    monkeypatch.setattr(module, "NAMES_MAX", 2)
    directory = made()
    directory.apply([record(0, models=[ModelOffer(name="old")])])
    gone = Lifecycle.LEFT
    directory.apply([record(1, models=[ModelOffer(name="a")], lifecycle=gone)])
    directory.apply([record(2, models=[ModelOffer(name="b")], lifecycle=gone)])
    directory.apply([record(3, models=[ModelOffer(name="a")], lifecycle=gone)])
    directory.apply([record(4, models=[ModelOffer(name="c")], lifecycle=gone)])
    assert directory.was_offered("old")
    assert not directory.was_offered("b")
    assert directory.was_offered("a")
    assert directory.was_offered("c")


def test_only_sessions_of_allowed_providers_are_taken_in() -> None:
    """The others' models do not exist for this router."""
    directory = Directory(["epfl"])
    directory.apply([record(0), record(1, provider="epfl", models=[ModelOffer(name="x")])])
    assert sessions(directory, "x") == [session_of(1)]
    assert (sessions(directory, "m"), directory.was_offered("m")) == ([], False)
    assert list(directory.models()) == ["x"]


def test_what_starts_is_known_by_what_it_promises() -> None:
    """Until it serves, or never will."""
    directory = Directory()
    offers = [ModelOffer(name="m", aliases=("n",))]
    directory.apply([record(n, models=offers, lifecycle=Lifecycle.JOINING) for n in range(3)])
    assert directory.loading("m", 0.0) == directory.loading("n", 0.0) == Loading(3, 0.0)
    assert directory.loading("x", 0.0) is None
    assert sessions(directory, "m") == []
    directory.apply([record(0, models=offers, incarnation=2)])
    directory.apply([record(1, models=offers, incarnation=2, lifecycle=Lifecycle.DOWN)])
    assert directory.loading("m", 0.0) == Loading(1, 0.0)
    suspected = record(2, models=offers, lifecycle=Lifecycle.JOINING, suspected=1)
    directory.apply([suspected])
    assert directory.loading("m", 0.0) is None


def test_a_session_whose_engine_failed_is_followed_by_another() -> None:
    """Until its supervisor gives up, or nobody hears of it; nothing is sent there."""

    def down(number: int, suspected: int = 0) -> SessionRecord:
        return record(number, incarnation=2, lifecycle=Lifecycle.DOWN, suspected=suspected)

    directory = Directory()
    directory.apply([record(0)])
    assert directory.apply([down(0)]) == [session_of(0)]
    assert directory.loading("m", 0.0) == Loading(1, 0.0)
    assert sessions(directory, "m") == []
    directory.apply([down(0), record(1, lifecycle=Lifecycle.JOINING)])
    assert directory.loading("m", 0.0) == Loading(2, 0.0)
    directory.apply([record(0, incarnation=3, lifecycle=Lifecycle.LEFT)])
    assert directory.loading("m", 0.0) == Loading(1, 0.0)
    directory.apply([down(1)])
    assert directory.loading("m", 0.0) is None
    directory.apply([record(2, suspected=1)])
    directory.apply([down(2)])
    assert directory.loading("m", 0.0) == Loading(1, 0.0)
    directory.apply([down(2, suspected=2)])
    assert directory.loading("m", 0.0) is None


def test_what_comes_back_should_take_as_long_as_the_last_load() -> None:
    """From now on: its engine starts about now."""
    directory = Directory()
    directory.apply([record(0, lifecycle=Lifecycle.JOINING)], wall=1000.0)  # born then
    directory.apply([record(0, incarnation=2)], wall=1090.0)
    directory.apply([record(0, incarnation=3, lifecycle=Lifecycle.DOWN)], wall=5000.0)
    known = directory.loading("m", 5000.0)
    assert known is not None
    assert known.ready_in_s == pytest.approx(90.0, abs=0.1)


def test_how_long_a_model_loads_is_learnt() -> None:
    """From the one that was seen to begin and to end, to the ones that began since."""
    directory = Directory()
    begins = [record(n, lifecycle=Lifecycle.JOINING) for n in range(2)]
    directory.apply(begins, wall=1000.0)  # born then
    directory.apply([record(0, incarnation=2)], wall=1090.0)
    known = directory.loading("m", 1050.0)
    assert known is not None
    assert known.sessions == 1
    assert known.ready_in_s == pytest.approx(40, abs=0.1)
    assert directory.loading("m", 2000.0) == Loading(1, 1.0)
    directory.apply([record(1, incarnation=2, lifecycle=Lifecycle.DOWN)], wall=1100.0)
    assert directory._load_s == {"m": 90.0}


def test_load_times_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The longest unheard of are forgotten."""
    monkeypatch.setattr(module, "NAMES_MAX", 2)
    directory = Directory()
    for number, name in enumerate("xyz"):
        models = [ModelOffer(name=name)]
        directory.apply([record(number, models=models, lifecycle=Lifecycle.JOINING)], wall=1000.0)
        directory.apply([record(number, models=models, incarnation=2)], wall=1010.0)
    assert list(directory._load_s) == ["y", "z"]


@pytest.mark.parametrize("odd", ["", "abc", "ABCDEF", "abcdef\r\nx: y", "z" * 8])
def test_an_odd_fingerprint_is_none(odd: str) -> None:
    """It goes into a header."""
    directory = made()
    directory.apply([record(8, models=[ModelOffer(name="odd", fingerprint=odd)])])
    assert [one.fingerprint for one in directory.pool("odd").candidates] == [""]


def test_a_candidate_knows_its_terms() -> None:
    """Labels and hardware are the session's, whatever the model."""
    directory = Directory()
    offers = [ModelOffer(name="m", fingerprint="0123abcd")]
    directory.apply([record(0, models=offers, labels={"tier": "a"})])
    (one,) = directory.pool("m").candidates
    assert (one.fingerprint, one.terms.labels) == ("0123abcd", {"tier": "a"})
