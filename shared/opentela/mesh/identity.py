"""NKeys: Ed25519 key pairs whose text says what they are for.

The public key of a user reads `U…`, its seed `SU…`; operators have `O…`, accounts `A…`. One class
holds them all, because they only differ in that letter. The encoding is NATS's: a prefix byte,
32 bytes, a CRC-16/XMODEM in little endian, all in base 32.
Reference: https://docs.nats.io/running-a-nats-service/configuration/securing_nats/auth_intro/nkey_auth
"""

import base64
import binascii
from enum import IntEnum
from functools import lru_cache
from typing import Final

from nacl.exceptions import BadSignatureError
from nacl.signing import SigningKey, VerifyKey

from opentela.core.errors import CredentialError

_SEED: Final = 18 << 3
_RAW_BYTES: Final = 32
_CRC_BYTES: Final = 2
_SIGNATURE_BYTES: Final = 64
_KEYS_CACHED_MAX: Final = 4096
"""Decoded public keys kept by `verify`: one a live session; a miss costs 20 µs, no correctness."""


class Kind(IntEnum):
    """What a key is for; the value is the prefix byte that makes its first letter."""

    OPERATOR = 14 << 3  # O
    ACCOUNT = 0  # A
    USER = 20 << 3  # U


class Identity:
    """A key pair that signs; it never shows its seed unless asked by `seed`.

    Attributes:
        key: The public key as text.
    """

    def __init__(self, raw: bytes, kind: Kind) -> None:
        self._raw = raw
        self._kind = kind
        self._signing = SigningKey(raw)
        self.key: Final = _public(bytes(self._signing.verify_key), kind)

    @classmethod
    def new(cls, kind: Kind = Kind.USER) -> "Identity":
        """Return a key pair that nobody had before."""
        return cls(bytes(SigningKey.generate()), kind)

    @classmethod
    def from_seed(cls, seed: str) -> "Identity":
        """Return the key pair of *seed*.

        Raises:
            CredentialError: It is no seed; the message never repeats it.
        """
        raw = _decoded(seed, what="seed", length=_RAW_BYTES + 2)
        if raw[0] & 0xF8 != _SEED:
            raise CredentialError("not an NKey seed", remedy="a seed starts with 'S'")
        prefix = (raw[0] & 0x07) << 5 | raw[1] >> 3
        try:
            return cls(raw[2:], Kind(prefix))
        except ValueError as error:
            raise CredentialError("an NKey seed of an unknown kind") from error

    @property
    def seed(self) -> str:
        """The secret as text, for files that only their owner may read."""
        head = bytes((_SEED | self._kind >> 5, (self._kind & 0x1F) << 3))
        return _encoded(head + self._raw)

    def sign(self, body: bytes) -> bytes:
        """Return the 64-byte signature of *body*."""
        return self._signing.sign(body).signature

    def __repr__(self) -> str:
        return f"Identity({self.key})"


def verify(key: str, body: bytes, signature: bytes) -> bool:
    """Return whether the holder of *key* signed *body*; text that is no key has signed nothing."""
    try:
        verifier = _verifier(key)
    except CredentialError:
        return False
    if len(signature) != _SIGNATURE_BYTES:
        return False
    try:
        verifier.verify(body, signature)
    except BadSignatureError:
        return False
    return True


def is_public(key: str, kind: Kind) -> bool:
    """Return whether *key* is the text of a public key of that kind."""
    try:
        return _decoded(key, what="key", length=_RAW_BYTES + 1)[0] == kind
    except CredentialError:
        return False


@lru_cache(maxsize=_KEYS_CACHED_MAX)
def _verifier(key: str) -> VerifyKey:
    raw = _decoded(key, what="key", length=_RAW_BYTES + 1)
    if raw[0] not in Kind.__members__.values():
        raise CredentialError(f"{key} is a key of an unknown kind")
    return VerifyKey(raw[1:])


def _public(raw: bytes, kind: Kind) -> str:
    return _encoded(bytes((kind,)) + raw)


def _encoded(body: bytes) -> str:
    crc = binascii.crc_hqx(body, 0).to_bytes(_CRC_BYTES, "little")
    return base64.b32encode(body + crc).decode().rstrip("=")


def _decoded(text: str, *, what: str, length: int) -> bytes:
    try:
        raw = base64.b32decode(text + "=" * (-len(text) % 8))
    except ValueError as error:
        raise CredentialError(f"an NKey {what} is not base 32") from error
    body, crc = raw[:-_CRC_BYTES], raw[-_CRC_BYTES:]
    if len(body) != length or crc != binascii.crc_hqx(body, 0).to_bytes(_CRC_BYTES, "little"):
        raise CredentialError(f"an NKey {what} is damaged: length or checksum is wrong")
    return body
