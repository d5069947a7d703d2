"""What JetStream answers is understood, as it answers it."""

import base64

import msgspec
import pytest

from opentela.core.errors import WireError
from opentela.wire import lease
from opentela.wire.lease import Entry, Held

ENTRY = Entry(placer="one", instance="i", lease_s=3.0)


def stored(data: bytes, seq: int = 7) -> bytes:
    """Return the answer that holds *data*."""
    message = {"subject": "s", "seq": seq, "data": base64.b64encode(data).decode(), "time": "t"}
    return msgspec.json.encode({"type": "t", "message": message})


def fault(code: int) -> bytes:
    """Return the answer that refuses for *code*."""
    return msgspec.json.encode({"error": {"code": 400, "err_code": code, "description": "no"}})


def test_who_holds_it_is_read_with_its_revision() -> None:
    """The next write names that revision."""
    assert lease.read(stored(lease.written(ENTRY))) == Held(revision=7, entry=ENTRY)


def test_a_bucket_without_entry_is_held_by_nobody() -> None:
    """The first write replaces nothing."""
    assert lease.read(fault(10037)) == Held()


def test_a_bucket_that_is_not_there_is_told_apart() -> None:
    """It is made then."""
    assert lease.read(fault(10059)) is None


@pytest.mark.parametrize("payload", [b"", b"{}", fault(1), stored(b"no json"), stored(b"[]")])
def test_what_is_no_lease_is_refused(payload: bytes) -> None:
    """Nobody leads by a misunderstanding."""
    with pytest.raises(WireError):
        lease.read(payload)


def test_a_write_is_taken_or_came_too_late() -> None:
    """Anything else is a failure that says nothing of who holds it."""
    assert lease.revision(b'{"stream": "s", "seq": 9}') == 9
    assert lease.revision(fault(10071)) == 0
    with pytest.raises(WireError, match="no"):
        lease.revision(fault(10077))


def test_a_bucket_that_is_there_is_as_good_as_made() -> None:
    """It began at another time, hence has other settings."""
    assert lease.made_fault(fault(10058)) == ""
    assert lease.made_fault(b'{"type": "t"}') == ""
    assert lease.made_fault(fault(10047)) == "no"


def test_revisions_begin_at_the_time_of_day() -> None:
    """A bucket that was lost and made again has greater ones than before."""
    assert msgspec.json.decode(lease.settings(now_ms=5))["first_seq"] == 5
