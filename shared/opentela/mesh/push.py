"""Brings an account to running servers: a revocation cuts its users off within a second."""

from typing import Any

import msgspec

from opentela.core.errors import MeshUnavailableError
from opentela.mesh import nats_bus
from opentela.mesh.access import Access
from opentela.mesh.layout import MeshLayout

SUBJECT = "$SYS.REQ.CLAIMS.UPDATE"
CONNECT_TIMEOUT_S = 5.0
ANSWER_TIMEOUT_S = 5.0
"""A person waits for both."""


async def accounts(access: Access, layout: MeshLayout) -> None:
    """Give the folder's accounts to the hub, which passes them on to every server.

    Args:
        access: Of role `sys`.
        layout: The mesh.

    Raises:
        MeshUnavailableError: The hub does not answer, or does not take one.
        CredentialError: The hub refuses *access*.
    """
    facts = layout.facts
    async with await nats_bus.connect(access, name=access.name, timeout_s=CONNECT_TIMEOUT_S) as bus:
        for key in (facts.account, facts.system):
            jwt = layout.account_jwt(key)
            raw = await bus.request(SUBJECT, jwt.encode(), timeout_s=ANSWER_TIMEOUT_S)
            _check(raw)


def _check(raw: bytes) -> None:
    try:
        answer = msgspec.json.decode(raw, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise MeshUnavailableError(f"the hub answered {raw[:80]!r}") from error
    if "error" in answer:
        raise MeshUnavailableError(f"the hub did not take an account: {answer['error']}")
