"""Brings an account to running servers: a revocation cuts its users off within a second."""

from typing import Any

import msgspec

from opentela.core.errors import MeshUnavailableError
from opentela.mesh import nats_bus
from opentela.mesh.access import Access

SUBJECT = "$SYS.REQ.CLAIMS.UPDATE"
ANSWER_TIMEOUT_S = 5.0


async def account(access: Access, jwt: str) -> str:
    """Give *jwt* to the hub, which passes it on to every server; return the hub's name.

    Args:
        access: Of role `sys`.
        jwt: The account, as `setup.renew_account` returns it.

    Raises:
        MeshUnavailableError: The hub does not answer, or does not take it.
    """
    async with await nats_bus.connect(access, name=access.name) as bus:
        raw = await bus.request(SUBJECT, jwt.encode(), timeout_s=ANSWER_TIMEOUT_S)
    try:
        answer = msgspec.json.decode(raw, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise MeshUnavailableError(f"the hub answered {raw[:80]!r}") from error
    if "error" in answer:
        raise MeshUnavailableError(f"the hub did not take the account: {answer['error']}")
    return str(answer.get("server", {}).get("name", ""))
