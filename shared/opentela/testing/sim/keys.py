"""Signatures that are quick and the same in every run; they prove nothing outside a simulation."""

import hashlib
from random import Random
from typing import Final

from msgspec.structs import replace

from opentela.core.record import Claim, Statement, Warrant
from opentela.core.rng import Rng
from opentela.core.warrant import Authority, Seal, Signer, registry_body, warrant_body

_KEY_BYTES: Final = 20


class FakeIdentity:
    """Signs as `mesh.identity.Identity` does, with a hash in the place of Ed25519."""

    def __init__(self, rng: Rng) -> None:
        self.key = "U" + rng.randbytes(_KEY_BYTES).hex().upper()

    def sign(self, body: bytes) -> bytes:
        """Return the signature of *body*."""
        return _signature(self.key, body)


ISSUER: Final[Signer] = FakeIdentity(Random(0))  # noqa: S311  the same in every run
"""Who warrants keys in every simulation, as the mesh's signing key does in a real mesh."""


def warrant(key: str, provider: str, *, issuer: Signer = ISSUER, **limits: object) -> Warrant:
    """Return the word of *issuer* that *key* is *provider*'s, within the limits of a warrant."""
    unsigned = replace(Warrant(), **limits)
    return replace(
        unsigned, signature=issuer.sign(warrant_body(unsigned, key=key, provider=provider))
    )


def seal(name: str, *, site: str = "", issuer: Signer = ISSUER) -> Seal:
    """Return what a registry signs with that *issuer* vouches for; the same for the same name."""
    signer = FakeIdentity(Random(name))  # noqa: S311  the same in every run
    unsigned = Warrant(site=site)
    body = registry_body(unsigned, key=signer.key, registry=name)
    return Seal(name, signer, replace(unsigned, signature=issuer.sign(body)))


def said(
    owner: Claim,
    *registries: str,
    incarnation: int = 0,
    quorum: int = 1,
    sites: int = 1,
    ended_at_ms: int = 0,
) -> tuple[Statement, ...]:
    """Return what *registries* say of *owner*'s session, as it last claimed or under another."""
    meant = owner.lifecycle, incarnation or owner.incarnation
    return tuple(
        seal(name).state(owner.session, meant, quorum=quorum, sites=sites, ended_at_ms=ended_at_ms)
        for name in registries
    )


def vouch() -> Authority:
    """Return what tells claims from lies in a simulation."""
    return Authority((ISSUER.key,), verify)


def verify(key: str, body: bytes, signature: bytes) -> bool:
    """Return whether the holder of *key* signed *body*."""
    return signature == _signature(key, body)


def _signature(key: str, body: bytes) -> bytes:
    return hashlib.blake2b(body, key=key.encode()[:64], digest_size=16).digest()
