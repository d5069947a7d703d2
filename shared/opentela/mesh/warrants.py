"""Warrants as access files carry them: written by the mesh's signing key, believed by everybody."""

import base64
import binascii
from typing import Final

import msgspec

from opentela.core.errors import CredentialError
from opentela.core.record import Warrant
from opentela.core.warrant import Authority, Seal, registry_body, warrant_body
from opentela.mesh import identity, jwt
from opentela.mesh.access import Access
from opentela.mesh.identity import Identity

_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(Warrant)


def issue(
    signer: Identity, key: str, *, provider: str, site: str = "", expires_at: int = 0
) -> Warrant:
    """Return the mesh's word that *key* is *provider*'s, at *site* or any, until *expires_at*."""
    unsigned = Warrant(site=site, expires_at=expires_at)
    signature = signer.sign(warrant_body(unsigned, key=key, provider=provider))
    return msgspec.structs.replace(unsigned, signature=signature)


def issue_to_registry(signer: Identity, key: str, *, registry: str, site: str = "") -> Warrant:
    """Return the mesh's word that *key* is that of *registry*, at *site* or nowhere special."""
    unsigned = Warrant(site=site)
    signature = signer.sign(registry_body(unsigned, key=key, registry=registry))
    return msgspec.structs.replace(unsigned, signature=signature)


def seal(access: Access) -> Seal:
    """Return what the registry of *access* signs with.

    Raises:
        CredentialError: It has no warrant, or a damaged one.
    """
    return Seal(access.name, access.identity, of(access))


def written(warrant: Warrant) -> str:
    """Return *warrant* as an access file holds it."""
    return base64.urlsafe_b64encode(_ENCODER.encode(warrant)).decode().rstrip("=")


def of(access: Access) -> Warrant:
    """Return the warrant of a provider's or registry's access.

    Raises:
        CredentialError: There is none, or it is damaged.
    """
    text = access.warrant
    try:
        return _DECODER.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (binascii.Error, ValueError, msgspec.DecodeError) as error:
        raise CredentialError(
            f"the access of {access.role} {access.name} holds no warrant: nobody would believe it",
            remedy="get a new access file with: otela mesh invite, or otela mesh role",
        ) from error


def authority(access: Access) -> Authority:
    """Return what tells claims from lies in the mesh that *access* opens.

    Whoever signed our own access says whose other keys are.

    Raises:
        CredentialError: The JWT of *access* is damaged.
    """
    return Authority((jwt.issuer(access.jwt),), identity.verify)
