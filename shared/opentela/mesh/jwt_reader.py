"""What a NATS JWT says of itself, unverified: the servers verify it, we only explain it."""

import base64
from typing import Any

import msgspec


def claims(jwt: str) -> dict[str, Any]:
    """Return the claims of *jwt*, or nothing if it is none."""
    try:
        _, payload, _ = jwt.split(".")
        raw = base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
        return msgspec.json.decode(raw, type=dict[str, Any])
    except (ValueError, msgspec.DecodeError):
        return {}


def expires_at(jwt: str) -> int:
    """Return when *jwt* ends in Unix seconds; 0 when it does not, or does not say."""
    value = claims(jwt).get("exp", 0)
    return value if isinstance(value, int) else 0
