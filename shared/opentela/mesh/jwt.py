"""NATS JWTs, version 2: an operator vouches for accounts, an account's signing key for users.

The mesh's account signs with a key of its own, so that the account's key and the operator's can
stay away from the machine that admits providers.
Format: https://docs.nats.io/running-a-nats-service/configuration/securing_nats/auth_intro/jwt
"""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from opentela.core.errors import CredentialError
from opentela.mesh.identity import Identity, Kind, is_public
from opentela.mesh.permissions import Permissions

CLIENT: Final = ("STANDARD", "WEBSOCKET")
LEAF: Final = ("LEAFNODE", "LEAFNODE_WS")
"""Ways to connect: a provider's credentials cannot be used to attach a server."""

_VERSION: Final = 2
_HEADER: Final = {"typ": "JWT", "alg": "ed25519-nkey"}
_UNLIMITED: Final = -1
_NOTHING: Final = {"deny": [">"]}
_JETSTREAM_LIMITS: Final = {
    "mem_storage": 0,
    "disk_storage": _UNLIMITED,
    "streams": _UNLIMITED,
    "consumer": 0,
}
"""Files as large as the server itself allows; nobody needs a consumer."""
_ACCOUNT_LIMITS: Final = {
    "subs": _UNLIMITED,
    "data": _UNLIMITED,
    "payload": _UNLIMITED,
    "imports": _UNLIMITED,
    "exports": _UNLIMITED,
    "wildcards": True,
    "conn": _UNLIMITED,
    "leaf": _UNLIMITED,
}


def operator(key: Identity, *, name: str, system_account: str, now: float) -> str:
    """Return what servers are configured with: whom they trust to name accounts.

    Args:
        key: The operator itself.
        name: Shown to people.
        system_account: Public key of the account that servers themselves speak in.
        now: Unix seconds.
    """
    nats = {"type": "operator", "version": _VERSION, "system_account": system_account}
    return _signed({"sub": key.key, "name": name, "nats": nats}, key, now=now)


def account(
    signer: Identity,
    key: str,
    *,
    name: str,
    signing_keys: Sequence[str],
    now: float,
    has_jetstream: bool = False,
    revoked: Mapping[str, int] | None = None,
) -> str:
    """Return an account.

    Args:
        signer: The operator.
        key: Public key of the account.
        name: Shown to people.
        signing_keys: Public keys that may sign users in its stead.
        now: Unix seconds.
        has_jetstream: Whether it may keep streams where a server does.
        revoked: User's public key to Unix seconds: what was issued until then is void.
    """
    assert is_public(key, Kind.ACCOUNT), key
    nats: dict[str, Any] = {
        "type": "account",
        "version": _VERSION,
        "limits": _ACCOUNT_LIMITS | (_JETSTREAM_LIMITS if has_jetstream else {}),
        "signing_keys": list(signing_keys),
    }
    if revoked:
        nats["revocations"] = dict(revoked)
    return _signed({"sub": key, "name": name, "nats": nats}, signer, now=now)


def user(
    signer: Identity,
    key: str,
    *,
    name: str,
    account: str,
    permissions: Permissions,
    connects: Sequence[str],
    now: float,
    expires_at: float = 0.0,
) -> str:
    """Return a user of *account*.

    Args:
        signer: A signing key of the account.
        key: Public key of the user.
        name: Shown to people.
        account: Public key of the account.
        permissions: All that it may do.
        connects: `CLIENT` or `LEAF`.
        now: Unix seconds.
        expires_at: Unix seconds after which servers cut it off; 0 for never.
    """
    assert is_public(key, Kind.USER), key
    nats = {
        "type": "user",
        "version": _VERSION,
        "issuer_account": account,
        "subs": _UNLIMITED,
        "data": _UNLIMITED,
        "payload": _UNLIMITED,
        "pub": _allowed(permissions.publish),
        "sub": _allowed(permissions.subscribe),
        "allowed_connection_types": list(connects),
    }
    claims: dict[str, Any] = {"sub": key, "name": name, "nats": nats}
    if expires_at:
        claims["exp"] = int(expires_at)
    return _signed(claims, signer, now=now)


def issuer(text: str) -> str:
    """Return the public key that signed a JWT; whether it did is for servers to check.

    Raises:
        CredentialError: It is no JWT.
    """
    try:
        _, body, _ = text.split(".")
        return str(
            msgspec.json.decode(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))["iss"]
        )
    except (ValueError, KeyError, TypeError, msgspec.DecodeError) as error:
        raise CredentialError("the credentials hold a damaged JWT") from error


def _allowed(patterns: Sequence[str]) -> dict[str, list[str]]:
    # An empty list of what is allowed would mean everything.
    return {"allow": list(patterns)} if patterns else _NOTHING


def _signed(claims: dict[str, Any], signer: Identity, *, now: float) -> str:
    body = {**claims, "iat": int(now), "iss": signer.key}
    digest = hashlib.sha256(msgspec.json.encode(body)).digest()
    body["jti"] = base64.b32encode(digest).decode().rstrip("=")
    text = f"{_base64(msgspec.json.encode(_HEADER))}.{_base64(msgspec.json.encode(body))}"
    return f"{text}.{_base64(signer.sign(text.encode()))}"


def _base64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")
