"""Usage records are read for ever as they were written once."""

import msgspec
import pytest

from opentela.core.errors import WireError
from opentela.core.ids import ProviderId, SessionId, SiteId
from opentela.wire.usage import RECORD_BYTES_MAX, UsageRecord, encode, read_usage

RECORD = UsageRecord(
    id="i",
    request="r",
    at_ms=1,
    router="one",
    model="m",
    session=SessionId("s"),
    provider=ProviderId("p"),
    site=SiteId("a"),
    path="/v1/completions",
    status=200,
    outcome="ok",
    attempts=2,
    streamed=True,
    tokens_in=3,
    tokens_cached=2,
    tokens_out=4,
    ttft_s=0.5,
    duration_s=1.5,
)
GOLDEN = bytes.fromhex(
    "de0012a26964a169a772657175657374a172a561745f6d7301a6726f75746572a36f6e65a56d6f64656ca16da7"
    "73657373696f6ea173a870726f7669646572a170a473697465a161a470617468af2f76312f636f6d706c657469"
    "6f6e73a6737461747573ccc8a76f7574636f6d65a26f6ba8617474656d70747302a873747265616d6564c3a974"
    "6f6b656e735f696e03ad746f6b656e735f63616368656402aa746f6b656e735f6f757404a6747466745f73cb3f"
    "e0000000000000aa6475726174696f6e5f73cb3ff8000000000000"
)


def test_a_record_is_the_bytes_that_others_have_stored() -> None:
    """Books are kept for years."""
    assert encode(RECORD) == GOLDEN
    assert read_usage(GOLDEN) == RECORD


def test_fields_of_newer_routers_are_ignored() -> None:
    """And fields that older ones lack have defaults."""
    newer = {**msgspec.msgpack.decode(GOLDEN), "region": "north"}
    assert read_usage(msgspec.msgpack.encode(newer)) == RECORD
    del newer["tokens_cached"], newer["ttft_s"]
    older = read_usage(msgspec.msgpack.encode(newer))
    assert (older.tokens_cached, older.ttft_s) == (0, -1.0)


@pytest.mark.parametrize("payload", [b"", b"\xc1", b"\x80", b"\x00" * (RECORD_BYTES_MAX + 1)])
def test_what_is_no_record_is_refused(payload: bytes) -> None:
    """Anybody's bytes may arrive on a subject."""
    with pytest.raises(WireError):
        read_usage(payload)
