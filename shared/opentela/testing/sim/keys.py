"""Signatures that are quick and the same in every run; they prove nothing outside a simulation."""

import hashlib
from random import Random
from typing import Final, Protocol

from msgspec.structs import replace

from opentela.core.record import Warrant
from opentela.core.rng import Rng
from opentela.core.warrant import Authority, warrant_body

_KEY_BYTES: Final = 20


class FakeIdentity:
    """Signs as `mesh.identity.Identity` does, with a hash in the place of Ed25519."""

    def __init__(self, rng: Rng) -> None:
        self.key = "U" + rng.randbytes(_KEY_BYTES).hex().upper()

    def sign(self, body: bytes) -> bytes:
        """Return the signature of *body*."""
        return _signature(self.key, body)


class Signer(Protocol):
    """Who holds a key: `mesh.identity.Identity`, or the quick fake of the simulator."""

    @property
    def key(self) -> str:
        """The public key as text."""

    def sign(self, body: bytes) -> bytes:
        """Return the signature of *body*."""


ISSUER: Final[Signer] = FakeIdentity(Random(0))  # noqa: S311  the same in every run
"""Who warrants keys in every simulation, as the mesh's signing key does in a real mesh."""


def warrant(key: str, provider: str, *, issuer: Signer = ISSUER, **limits: object) -> Warrant:
    """Return the word of *issuer* that *key* is *provider*'s, within the limits of a warrant."""
    unsigned = replace(Warrant(), **limits)
    return replace(
        unsigned, signature=issuer.sign(warrant_body(unsigned, key=key, provider=provider))
    )


def vouch() -> Authority:
    """Return what tells claims from lies in a simulation."""
    return Authority((ISSUER.key,), verify)


def verify(key: str, body: bytes, signature: bytes) -> bool:
    """Return whether the holder of *key* signed *body*."""
    return signature == _signature(key, body)


def _signature(key: str, body: bytes) -> bytes:
    return hashlib.blake2b(body, key=key.encode()[:64], digest_size=16).digest()
