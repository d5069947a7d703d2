"""Keys: NATS's own text form, signatures that hold, and damage that is seen."""

import base64
import binascii

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opentela.core.errors import CredentialError
from opentela.mesh import identity
from opentela.mesh.identity import Identity, Kind

RAW = bytes(range(32))
# As NATS's reference library writes these 32 bytes, and signs b"body" with them.
REFERENCE = {
    Kind.OPERATOR: (
        "SOAAAAICAMCAKBQHBAEQUCYMBUHA6EARCIJRIFIWC4MBSGQ3DQOR4H2AJA",
        "OAB2CB576PHBBPQ5ODORRZ2LYCMWPZGWGCN2KDK7DXOIMZASKUY3QZVT",
    ),
    Kind.ACCOUNT: (
        "SAAAAAICAMCAKBQHBAEQUCYMBUHA6EARCIJRIFIWC4MBSGQ3DQOR4HYMHI",
        "AAB2CB576PHBBPQ5ODORRZ2LYCMWPZGWGCN2KDK7DXOIMZASKUY3QPZV",
    ),
    Kind.USER: (
        "SUAAAAICAMCAKBQHBAEQUCYMBUHA6EARCIJRIFIWC4MBSGQ3DQOR4H776Y",
        "UAB2CB576PHBBPQ5ODORRZ2LYCMWPZGWGCN2KDK7DXOIMZASKUY3RLKK",
    ),
}
SERVER_SEED = "SNAAAAICAMCAKBQHBAEQUCYMBUHA6EARCIJRIFIWC4MBSGQ3DQOR4H2D5U"
SERVER_KEY = "NAB2CB576PHBBPQ5ODORRZ2LYCMWPZGWGCN2KDK7DXOIMZASKUY3RSWB"
SIGNATURE = bytes.fromhex(
    "56378141d55f21aaeb7bb2fb17f4572849ec000283e0ca74949542a273122208"
    "66e23e4dbe3c02424b6292b38d08b335dd664726190375b78e8b31b4861bec04"
)
KEY = REFERENCE[Kind.USER][1]


@pytest.mark.parametrize("kind", Kind)
def test_a_key_reads_as_nats_writes_it(kind: Kind) -> None:
    """Session ids are made from this text, and servers compare it."""
    mine = Identity(RAW, kind)
    assert (mine.seed, mine.key) == REFERENCE[kind]
    assert mine.sign(b"body") == SIGNATURE
    assert identity.verify(mine.key, b"body", SIGNATURE)
    assert identity.is_public(mine.key, kind)
    assert not any(identity.is_public(mine.key, other) for other in Kind if other is not kind)


def test_two_new_keys_differ() -> None:
    """They come from the system's randomness."""
    assert Identity.new().key != Identity.new().key


def test_a_seed_gives_the_same_key_again() -> None:
    """And shows itself only when asked."""
    mine = Identity.new()
    assert Identity.from_seed(mine.seed).key == mine.key
    assert mine.seed not in repr(mine)
    assert mine.key in repr(mine)


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_a_signature_holds_for_its_body_and_key_alone(body: bytes, other: bytes) -> None:
    """No other body, no other key."""
    mine, foreign = Identity.new(), Identity.new()
    signature = mine.sign(body)
    assert identity.verify(mine.key, body, signature)
    assert identity.verify(mine.key, other, signature) == (body == other)
    assert not identity.verify(foreign.key, body, signature)


@given(st.binary(max_size=80))
def test_bytes_that_are_no_signature_verify_nothing(signature: bytes) -> None:
    """Whatever their length; nothing is raised into a receiver."""
    assert not identity.verify(KEY, b"body", signature)


@pytest.mark.parametrize("key", ["", "U", "not base 32!", "é", "A" * 56])
def test_text_that_is_no_key_has_signed_nothing(key: str) -> None:
    """A forged record may name anything as its key."""
    assert not identity.verify(key, b"body", bytes(64))
    assert not identity.is_public(key, Kind.USER)


def test_a_key_of_a_kind_that_nobody_signs_with_has_signed_nothing() -> None:
    """A server's key is well formed, and none of ours."""
    assert not identity.verify(SERVER_KEY, b"body", SIGNATURE)
    with pytest.raises(CredentialError, match="unknown kind"):
        Identity.from_seed(SERVER_SEED)


def test_a_damaged_seed_is_refused_without_being_repeated() -> None:
    """One wrong letter, a public key, or nonsense."""
    seed = Identity.new().seed
    swapped = seed[:20] + ("A" if seed[20] != "A" else "B") + seed[21:]
    for wrong in (swapped, seed[:-4], Identity.new().key, "", "lower case", KEY + "AA"):
        with pytest.raises(CredentialError) as caught:
            Identity.from_seed(wrong)
        assert not wrong or wrong not in caught.value.line()


def test_a_public_key_in_place_of_a_seed_is_told() -> None:
    """A well-formed text with the first byte of something else."""
    body = bytes((20 << 3, 0)) + bytes(32)
    text = base64.b32encode(body + binascii.crc_hqx(body, 0).to_bytes(2, "little")).decode()
    with pytest.raises(CredentialError, match="not an NKey seed"):
        Identity.from_seed(text.rstrip("="))
