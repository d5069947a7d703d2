"""Names of things, and session ids that prove who made them.

A session id is a ULID (26 characters of Crockford's base 32: 48 bits of birth time in
milliseconds, 80 bits more) whose 80 bits are a hash of the owner's public key and a nonce.
Nobody else can therefore sign for it: a claim to somebody else's id does not verify, without any
registry having to remember who came first. ULID: https://github.com/ulid/spec
"""

import hashlib
import re
from typing import Final, NewType

from opentela.core.errors import ConfigError

SessionId = NewType("SessionId", str)
ProviderId = NewType("ProviderId", str)
SiteId = NewType("SiteId", str)
NodeId = NewType("NodeId", str)

_CROCKFORD: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_ULID_LENGTH: Final = 26
_OWNER_BITS: Final = 80
NONCE_BYTES: Final = 8
NOISE_BYTES: Final = _OWNER_BITS // 8

# One NATS subject token that is also safe in file names, metric labels and shells.
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


def session_id(born_at_ms: int, key: str, nonce: bytes) -> SessionId:
    """Return the only session id that the holder of *key* may use for this birth and nonce.

    Args:
        born_at_ms: Birth in Unix milliseconds; must fit 48 bits.
        key: The owner's public NKey, `U…`.
        nonce: `NONCE_BYTES` random bytes, so that one key can have many sessions in one moment.
    """
    assert 0 <= born_at_ms < 1 << 48, born_at_ms
    assert len(nonce) == NONCE_BYTES, nonce
    owner = hashlib.blake2b(
        born_at_ms.to_bytes(6, "big") + nonce + key.encode(), digest_size=_OWNER_BITS // 8
    )
    return SessionId(_base32((born_at_ms << _OWNER_BITS) | int.from_bytes(owner.digest(), "big")))


def ulid(at_ms: int, noise: bytes) -> str:
    """Return the ULID of that moment and of `NOISE_BYTES` random bytes."""
    assert 0 <= at_ms < 1 << 48, at_ms
    assert len(noise) == NOISE_BYTES, noise
    return _base32((at_ms << _OWNER_BITS) | int.from_bytes(noise, "big"))


def born_at_ms(session: SessionId) -> int:
    """Return the birth of a session in Unix milliseconds, read from its id.

    Raises:
        ValueError: *session* is not a ULID.
    """
    if len(session) != _ULID_LENGTH:
        raise ValueError(f"session id {session!r} does not have {_ULID_LENGTH} characters")
    value = 0
    for character in session:
        value = value << 5 | _CROCKFORD.index(character)
    return value >> _OWNER_BITS


def is_older(session: SessionId, horizon_ms: int) -> bool:
    """Return whether *session* was born at or before *horizon_ms*; what is no id was never born."""
    try:
        return born_at_ms(session) <= horizon_ms
    except ValueError:
        return False


def is_name(value: str) -> bool:
    """Return whether *value* may name a provider, site, node, registry or router."""
    return _NAME.fullmatch(value) is not None


def name(value: str, *, field: str) -> str:
    """Return *value* if it may name a provider, site, node, registry or router.

    Raises:
        ConfigError: It is not a lower-case name; the message names *field*.
    """
    if not is_name(value):
        raise ConfigError(
            f"{field} = {value!r} is not a name",
            remedy="use 1 to 63 of a-z, 0-9, '-' and '_', starting with a letter or digit",
        )
    return value


def _base32(value: int) -> str:
    return "".join(_CROCKFORD[value >> 5 * place & 31] for place in reversed(range(_ULID_LENGTH)))
