"""Names and session ids."""

import pytest

from opentela.core import ids
from opentela.core.errors import ConfigError
from opentela.core.ids import SessionId

KEY = "UAH2P6TRYQ5SFPLGHJ7TBSBNWWFZ3F5QPQSC4JBGJ2QVWBS5WAVQHTQ7"
NONCE = bytes(range(8))


def test_a_session_id_is_a_ulid_that_sorts_by_birth() -> None:
    """26 characters, and a later birth is a greater id."""
    ids_in_order = [ids.session_id(ms, KEY, NONCE) for ms in (0, 1, 1_700_000_000_000, 2**48 - 1)]
    assert all(len(session) == 26 for session in ids_in_order)
    assert sorted(ids_in_order) == ids_in_order


def test_the_birth_is_read_back_from_the_id() -> None:
    """Compaction decides by age without holding the record."""
    assert ids.born_at_ms(ids.session_id(1_700_000_000_123, KEY, NONCE)) == 1_700_000_000_123


@pytest.mark.parametrize(
    ("key", "nonce", "born"),
    [(KEY + "X", NONCE, 5), (KEY, b"12345678", 5), (KEY, NONCE, 6)],
    ids=["key", "nonce", "birth"],
)
def test_another_owner_cannot_have_the_same_id(key: str, nonce: bytes, born: int) -> None:
    """The id follows from key, nonce and birth together."""
    assert ids.session_id(born, key, nonce) != ids.session_id(5, KEY, NONCE)


@pytest.mark.parametrize("bad", ["", "short", "0" * 25 + "U", "0" * 27])
def test_what_is_no_ulid_has_no_birth(bad: str) -> None:
    """A wrong length or a character outside Crockford's alphabet is an error, not a date."""
    with pytest.raises(ValueError, match=r"session id|substring not found"):
        ids.born_at_ms(SessionId(bad))


@pytest.mark.parametrize("good", ["a", "site-a", "n0_1", "0", "x" * 63])
def test_a_plain_name_is_taken(good: str) -> None:
    """Lower-case letters, digits, dash and underscore."""
    assert ids.name(good, field="site") == good


@pytest.mark.parametrize("bad", ["", "A", "a.b", "a b", "*", ">", "-a", "x" * 64, "é", "a\n"])
def test_a_name_that_could_break_a_subject_is_refused_with_its_field(bad: str) -> None:
    """The error names the field and says what a name may hold."""
    with pytest.raises(ConfigError, match="site = ") as caught:
        ids.name(bad, field="site")
    assert "a-z" in caught.value.remedy


def test_what_is_older_than_a_horizon_is_told_by_its_id() -> None:
    """And what is no id is not older than anything."""
    session = ids.session_id(1_000, "U" * 56, bytes(8))
    assert ids.is_older(session, 1_000)
    assert not ids.is_older(session, 999)
    assert not ids.is_older(ids.SessionId("unlikely"), 1 << 60)


def test_a_ulid_tells_its_moment_and_sorts_by_it() -> None:
    """Whatever is drawn beside it."""
    first, second = ids.ulid(1, b"\xff" * ids.NOISE_BYTES), ids.ulid(2, bytes(ids.NOISE_BYTES))
    assert first < second
    assert [ids.born_at_ms(SessionId(one)) for one in (first, second)] == [1, 2]
