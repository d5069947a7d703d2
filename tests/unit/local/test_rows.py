"""What a person is told of sessions."""

import msgspec
import pytest
from tests.unit.local.records import BORN_MS, record

from opentela.core.errors import ConfigError
from opentela.core.record import Lifecycle, ModelOffer, Parallelism, claim_of
from opentela.local import rows

HOUR_MS = 3_600_000


def test_a_row_tells_age_and_remaining_time() -> None:
    """Both are worked out at the moment of asking."""
    ends_at = (BORN_MS + 3 * HOUR_MS) / 1000
    one = rows.row(record(Lifecycle.SERVING, "m", ends_at=ends_at), BORN_MS + HOUR_MS)
    assert (one.state, one.routable, one.age_s, one.left_s) == ("SERVING", True, 3600, 7200)
    assert (one.models, one.context_max, one.ended_s) == (("m",), 2048, None)


def test_a_living_session_under_suspicion_says_so() -> None:
    """Its lifecycle alone would look well."""
    one = rows.row(record(Lifecycle.SERVING, "m", suspected=3), BORN_MS)
    assert (one.state, one.routable) == ("SUSPECTED", False)


def test_an_ended_session_tells_since_when_and_why() -> None:
    """A suspicion of something that ended is of no interest."""
    ended = record(
        Lifecycle.LEFT, "m", ended_ms=BORN_MS + 5000, suspected=3, reason="walltime is over"
    )
    one = rows.row(ended, BORN_MS + 8000)
    assert (one.state, one.ended_s, one.reason) == ("LEFT", 3.0, "walltime is over")


def test_a_clock_that_is_behind_shows_no_negative_age() -> None:
    """Clocks of nodes differ by minutes."""
    assert rows.row(record(), BORN_MS - HOUR_MS).age_s == 0


def test_the_list_leaves_out_what_ended_unless_asked() -> None:
    """Living ones come first, then by model and age."""
    records = [
        record(Lifecycle.LEFT, "a", born_ms=BORN_MS, ended_ms=BORN_MS),
        record(Lifecycle.SERVING, "b", born_ms=BORN_MS + 2),
        record(Lifecycle.SERVING, "a", born_ms=BORN_MS + 3),
    ]
    living = rows.listed(records, BORN_MS)
    assert [one.models for one in living] == [("a",), ("b",)]
    every = rows.listed(records, BORN_MS, with_ended=True)
    assert [one.state for one in every] == ["SERVING", "SERVING", "LEFT"]
    assert [one.models for one in rows.listed(records, BORN_MS, model="b")] == [("b",)]


def test_an_agent_is_no_session_to_send_requests_to() -> None:
    """It serves, without a model; those that have some are listed before it."""
    listed = rows.listed(
        [record(Lifecycle.SERVING), record(Lifecycle.SERVING, "z", born_ms=BORN_MS + 1)], BORN_MS
    )
    assert [(one.models, one.routable) for one in listed] == [(("z",), True), ((), False)]


def test_models_are_counted_over_living_sessions() -> None:
    """What matters is how many may be routed to, and where."""
    records = [
        record(Lifecycle.SERVING, "a", "b", site="z"),
        record(Lifecycle.JOINING, "a", born_ms=BORN_MS + 1, site="y"),
        record(Lifecycle.DOWN, "c", born_ms=BORN_MS + 2, ended_ms=BORN_MS + 2),
    ]
    made = rows.models(rows.listed(records, BORN_MS, with_ended=True))
    assert [(one.name, one.routable, one.sessions, one.sites) for one in made] == [
        ("a", 1, 2, ("y", "z")),
        ("b", 1, 1, ("z",)),
    ]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (59.9, "59s"), (60, "1m"), (3720, "1h 2m"), (90_061, "1d 1h"), (86_401, "1d 1s")],
)
def test_lengths_of_time_are_short(seconds: float, text: str) -> None:
    """Two units are enough for people."""
    assert rows.duration(seconds) == text


def test_a_row_is_json() -> None:
    """`--json` prints the same facts."""
    assert b'"state":"SERVING"' in msgspec.json.encode(rows.row(record(), BORN_MS))


@pytest.mark.parametrize("ends_at", [float("inf"), float("nan"), 1e308, -1.0])
def test_an_end_that_no_allocation_has_is_none(ends_at: float) -> None:
    """One provider's claim must not take the list from everybody."""
    assert rows.row(record(Lifecycle.SERVING, "m", ends_at=ends_at), BORN_MS).left_s is None


def test_a_session_is_named_by_the_end_of_its_id() -> None:
    """In any case; none, or several, is a mistake that says what to do."""
    one, other = record(), record(born_ms=BORN_MS + 1)
    session = claim_of(one).session
    assert rows.named([one, other], session[-6:].lower()) is one
    for end in ("", "zzzzzz"):
        with pytest.raises(ConfigError, match="no session"):
            rows.named([one, other], end)
    with pytest.raises(ConfigError, match="2 sessions"):
        rows.named([one, one], session)


def test_what_an_engine_holds_and_how_it_uses_gpus_is_told() -> None:
    """Zero where it does not say; each quantisation once."""
    plain = rows.row(record(Lifecycle.SERVING, "m"), BORN_MS)
    assert (plain.kv_tokens, plain.parallelism, plain.quantisations) == (0, Parallelism(), ())
    before = record(Lifecycle.SERVING)
    claim = claim_of(before)
    offer = msgspec.structs.replace(
        claim.offer,
        models=tuple(ModelOffer(name=name, quantisation="fp8") for name in ("a", "b")),
        kv_tokens=4096,
        parallelism=Parallelism(tensor=2),
    )
    body = msgspec.msgpack.encode(msgspec.structs.replace(claim, offer=offer))
    signed = msgspec.structs.replace(before.signed, body=body)
    told = rows.row(msgspec.structs.replace(before, signed=signed), BORN_MS)
    assert (told.kv_tokens, told.quantisations) == (4096, ("fp8",))
    assert b'"parallelism":{"tensor":2,"pipeline":0,"data":0}' in msgspec.json.encode(told)
