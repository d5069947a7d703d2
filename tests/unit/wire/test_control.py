"""Control messages: frozen bytes, and one way to refuse what is none."""

import pytest

from opentela.core.errors import WireError
from opentela.core.ids import SessionId
from opentela.core.record import Lifecycle, SessionRecord, SignedClaim, Statement, Warrant
from opentela.wire import control
from opentela.wire.control import (
    CONTROL_BYTES_MAX,
    Advice,
    Beat,
    Delta,
    DigestAsk,
    Leaves,
    Page,
    PageAsk,
    Presence,
    Probe,
    ProbeReply,
    Reader,
    Records,
    Repair,
    Sighting,
    Verdict,
)

SIGNED = SignedClaim(body=b"b", signature=b"s")
SAID = Statement(
    registry="r",
    key="U",
    warrant=Warrant(site="s", signature=b"w"),
    lifecycle=Lifecycle.SERVING,
    incarnation=2,
    quorum=2,
    sites=1,
    ended_at_ms=5,
    signature=b"x",
)
RECORD = SessionRecord(signed=SIGNED, witnesses=(SAID,), ending=(SAID,))
SESSION = SessionId("01")

# Frozen for ever: a peer of any later version must read what this one sends.
GOLDEN = [
    (
        Delta(signed=SIGNED),
        control.read_delta,
        "82a46b696e64a564656c7461a67369676e656492c40162c40173",
    ),
    (
        Beat(incarnation=3, running=1, waiting=2, kv_used=0.5, every_s=2.0),
        control.read_beat,
        "95030102cb3fe0000000000000cb4000000000000000",
    ),
    (
        Probe(sequence=7, suspected=2),
        control.read_probe,
        "83a46b696e64a570726f6265a873657175656e636507a973757370656374656402",
    ),
    (
        ProbeReply(sequence=7, signed=SIGNED),
        control.read_probe_reply,
        ("83a46b696e64ab70726f62655f7265706c79a873657175656e636507a67369676e656492c40162c40173"),
    ),
    (
        Advice(alive=False, reason="over"),
        control.read_advice,
        "83a46b696e64a6616476696365a5616c697665c2a6726561736f6ea46f766572",
    ),
    (
        Sighting(router="r"),
        control.read_sighting,
        "82a46b696e64a87369676874696e67a6726f75746572a172",
    ),
    (
        Verdict(registry="r", session=SESSION, witnesses=(SAID,), ending=(SAID,)),
        control.read_verdict,
        (
            "85a46b696e64a776657264696374a87265676973747279a172a773657373696f6ea23031a7616761"
            "696e73749199a172a15593a17300c401770202020105c40178a6656e64696e679199a172a15593a1"
            "7300c401770202020105c40178"
        ),
    ),
    (
        PageAsk(after=SESSION),
        control.read_snapshot_ask,
        "82a46b696e64a8706167655f61736ba56166746572a23031",
    ),
    (
        Page(registry="r", records=(RECORD,), more=True, cut_ms=1, horizon_ms=2),
        control.read_page,
        (
            "86a46b696e64a470616765a87265676973747279a172a77265636f7264739183a67369676e656492"
            "c40162c40173a7616761696e73749199a172a15593a17300c401770202020105c40178a6656e6469"
            "6e679199a172a15593a17300c401770202020105c40178a46d6f7265c3a66375745f6d7301aa686f"
            "72697a6f6e5f6d7302"
        ),
    ),
    (
        DigestAsk(asker="a", prefix=b"\x03", hashes=(0, 2**64 - 1), cut_ms=1),
        control.read_gossip,
        (
            "85a46b696e64aa6469676573745f61736ba561736b6572a161a6707265666978c40103a668617368"
            "65739200cfffffffffffffffffa66375745f6d7301"
        ),
    ),
    (
        Leaves(asker="a", prefix=b"\x03", hashes={SESSION: 9}, cut_ms=1),
        control.read_gossip,
        (
            "85a46b696e64a66c6561766573a561736b6572a161a6707265666978c40103a668617368657381a2"
            "303109a66375745f6d7301"
        ),
    ),
    (
        Repair(registry="r", records=(RECORD,), descend=(b"\x03",), wanted=(SESSION,), cut_ms=1),
        control.read_repair,
        (
            "86a46b696e64a6726570616972a87265676973747279a172a77265636f7264739183a67369676e65"
            "6492c40162c40173a7616761696e73749199a172a15593a17300c401770202020105c40178a6656e"
            "64696e679199a172a15593a17300c401770202020105c40178a764657363656e6491c40103a67761"
            "6e74656491a23031a66375745f6d7301"
        ),
    ),
    (
        Records(sender="a", records=(RECORD,)),
        control.read_gossip,
        (
            "83a46b696e64a77265636f726473a673656e646572a161a77265636f7264739183a67369676e6564"
            "92c40162c40173a7616761696e73749199a172a15593a17300c401770202020105c40178a6656e64"
            "696e679199a172a15593a17300c401770202020105c40178"
        ),
    ),
    (
        Presence(registry="r"),
        control.read_presence,
        "82a46b696e64a870726573656e6365a87265676973747279a172",
    ),
    (
        Presence(registry="r", instance="i", leaving=True),
        control.read_presence,
        (
            "84a46b696e64a870726573656e6365a87265676973747279a172"
            "a8696e7374616e6365a169a76c656176696e67c3"
        ),
    ),
]


@pytest.mark.parametrize(("message", "read", "golden"), GOLDEN, ids=lambda one: type(one).__name__)
def test_the_bytes_of_a_message_never_change(message: object, read: object, golden: str) -> None:
    """Both directions, so that neither end of an upgrade misreads the other."""
    assert control.encode(message).hex() == golden  # type: ignore[arg-type]
    assert read(bytes.fromhex(golden)) == message  # type: ignore[operator]


def test_a_bare_message_of_an_older_peer_is_read() -> None:
    """Every field that came later has a default."""
    assert control.read_beat(bytes.fromhex("9103")) == Beat(incarnation=3)


def test_a_message_of_a_newer_peer_is_read() -> None:
    """Fields and elements that we do not know are passed over."""
    longer = bytes.fromhex("960301 02cb bfe0000000000000 cb3ff0000000000000 07")
    assert control.read_beat(longer).waiting == 2
    probe = bytes.fromhex("83" + "a46b696e64a570726f6265" + "a873657175656e636507" + "a16101")
    assert control.read_probe(probe) == Probe(sequence=7)


@pytest.mark.parametrize(
    "payload",
    [b"", b"\xc1", control.encode(Presence(registry="r")), bytes(CONTROL_BYTES_MAX + 1)],
    ids=["empty", "rubbish", "unknown kind", "too large"],
)
@pytest.mark.parametrize(
    "read",
    [
        control.read_delta,
        control.read_beat,
        control.read_probe,
        control.read_probe_reply,
        control.read_verdict,
        control.read_snapshot_ask,
        control.read_snapshot_answer,
        control.read_page,
        control.read_repair,
        control.read_gossip,
    ],
)
def test_what_is_no_message_is_refused_in_one_way(read: Reader[object], payload: bytes) -> None:
    """Receivers count and drop; they never crash."""
    with pytest.raises(WireError):
        read(payload)


def test_a_beat_is_small() -> None:
    """A thousand nodes send one each second."""
    beat = Beat(incarnation=2**31, running=10_000, waiting=10_000, kv_used=0.987654, every_s=1.0)
    assert len(control.encode(beat)) <= 100


def test_a_bottomless_field_that_nobody_knows_is_no_message() -> None:
    """It is skipped, and only so deep."""
    head = control.encode(control.Presence(registry="r"))
    payload = bytes([head[0] + 1]) + head[1:] + b"\xa3zzz" + b"\x91" * 100_000 + b"\xc0"
    with pytest.raises(WireError):
        control.read_presence(payload)
