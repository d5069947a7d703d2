"""Who is there: each registry says so for itself, signed, and nobody says it for another.

How many registries must agree follows from how many there are: a farewell in another's name would
let one decide alone.
"""

from opentela.core.warrant import Authority, Seal, presence_body
from opentela.wire.control import Presence


def presence_of(seal: Seal, instance: str, *, leaving: bool = False) -> Presence:
    """Return the word of a registry that it is there, or leaves."""
    body = presence_body(seal.name, instance, leaving=leaving)
    return Presence(
        registry=seal.name,
        instance=instance,
        leaving=leaving,
        key=seal.key,
        warrant=seal.warrant,
        signature=seal.sign(body),
    )


def fault_of(said: Presence, authority: Authority) -> str:
    """Return why *said* is not the word of the registry that it names; nothing if it is."""
    body = presence_body(said.registry, said.instance, leaving=said.leaving)
    return authority.registry(said.registry, said.key, said.warrant, body, said.signature)
