"""Whose word it is: the mesh vouches for the key that signs it, and anybody can check that.

The mesh's signing key writes a warrant for each provider's credential: this key is this provider's,
at this site, until then. Every claim carries the one of its key. It does the same for a registry's,
and what registries hold against a session carries it. Whoever passes a record on, for whatever
reason, can therefore add nothing to what its owner and registries said themselves.

What depends on a clock depends on the claim's, not on the reader's, so that all peers decide alike.
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeAlias

import msgspec
from msgspec.structs import replace

from opentela.core.ids import SessionId
from opentela.core.record import Claim, Lifecycle, SignedClaim, Statement, Warrant

Check: TypeAlias = Callable[[str, bytes, bytes], bool]
"""Whether the holder of a public key signed these bytes: key, body, signature."""

# No server can make a client sign this as its challenge, which is UTF-8; nor is it a JWT's text.
_CONTEXT: Final = b"\xffotela warrant 1\n"
_REGISTRY_CONTEXT: Final = b"\xffotela registry 1\n"
_PRESENCE_CONTEXT: Final = b"\xffotela presence 1\n"
_STATEMENT_CONTEXT: Final = b"\xffotela statement 1\n"
_ENCODER: Final = msgspec.msgpack.Encoder()
_KEPT_MAX: Final = 16_384
"""Warrants that were found good, some 300 B each; beyond it they are checked again, 0.1 ms each."""


def warrant_body(warrant: Warrant, *, key: str, provider: str) -> bytes:
    """Return what the mesh signs: that *key* is *provider*'s, within the limits of *warrant*."""
    return _CONTEXT + _ENCODER.encode((key, provider, warrant.site, warrant.expires_at))


def registry_body(warrant: Warrant, *, key: str, registry: str) -> bytes:
    """Return what the mesh signs: that *key* is that of a registry at a site."""
    return _REGISTRY_CONTEXT + _ENCODER.encode((key, registry, warrant.site, warrant.expires_at))


def statement_body(session: SessionId, said: Statement) -> bytes:
    """Return what a registry signs of its statement on *session*."""
    claim = (session, said.lifecycle, said.incarnation)
    said_of_it = (said.registry, said.quorum, said.sites, said.ended_at_ms)
    return _STATEMENT_CONTEXT + _ENCODER.encode((*claim, *said_of_it))


def presence_body(registry: str, instance: str, *, leaving: bool) -> bytes:
    """Return what a registry signs to say that it is there, or leaves."""
    return _PRESENCE_CONTEXT + _ENCODER.encode((registry, instance, leaving))


class Signer(Protocol):
    """Who holds a key."""

    @property
    def key(self) -> str:
        """The public key as text."""

    def sign(self, body: bytes) -> bytes:
        """Return the signature of *body*."""


class Seal:
    """What a registry signs its statements with.

    Attributes:
        name: The registry's.
        key: Its public key.
        warrant: The mesh's word that the key is its own, and where it is.
        site: Where that is.
    """

    def __init__(self, name: str, signer: Signer, warrant: Warrant) -> None:
        self._signer = signer
        self.name = name
        self.key = signer.key
        self.warrant = warrant
        self.site = warrant.site

    def sign(self, body: bytes) -> bytes:
        """Return the registry's signature of *body*."""
        return self._signer.sign(body)

    def state(
        self,
        session: SessionId,
        meant: tuple[Lifecycle, int],
        *,
        quorum: int,
        sites: int,
        ended_at_ms: int = 0,
    ) -> Statement:
        """Return a signed statement on *session*, of the claim with this lifecycle and number."""
        said = Statement(
            registry=self.name,
            key=self.key,
            warrant=self.warrant,
            lifecycle=meant[0],
            incarnation=meant[1],
            quorum=quorum,
            sites=sites,
            ended_at_ms=ended_at_ms,
        )
        return replace(said, signature=self.sign(statement_body(session, said)))


class Authority:
    """Tells a provider's claim from a lie; called, it returns what is wrong with one, or nothing.

    Args:
        issuers: Public keys that this mesh trusts to say whose a key is.
        check: Checks one signature.
    """

    def __init__(self, issuers: Sequence[str], check: Check) -> None:
        self._issuers = tuple(issuers)
        self._check = check
        self._good: dict[tuple[str, str, Warrant], None] = {}

    def __call__(self, claim: Claim, signed: SignedClaim) -> str:
        """Return why *signed*, which says *claim*, is not its provider's word; nothing if it is."""
        warrant = claim.warrant
        if warrant.site and warrant.site != claim.site:
            return f"its key is warranted for site {warrant.site}, not {claim.site}"
        if warrant.expires_at and claim.born_at_ms > warrant.expires_at * 1000:
            return "it was born after its key's warrant expired"
        body = warrant_body(warrant, key=claim.key, provider=claim.provider)
        if not self._is_good((claim.key, claim.provider, warrant), body):
            return f"nobody whom this mesh trusts says that its key is {claim.provider}'s"
        if not self._check(claim.key, signed.body, signed.signature):
            return "the signature is not its owner's"
        return ""

    def statement(self, session: SessionId, said: Statement) -> str:
        """Return why *said* is not the word on *session* of the registry it names; nothing if so.

        A registry's warrant has no end: what was once said must stay true for all.
        """
        body = statement_body(session, said)
        return self.registry(said.registry, said.key, said.warrant, body, said.signature)

    def registry(self, name: str, key: str, warrant: Warrant, body: bytes, signature: bytes) -> str:
        """Return why *body* is not the word of the registry *name*; nothing if it is."""
        warranted = registry_body(warrant, key=key, registry=name)
        if not self._is_good((key, f"registry {name}", warrant), warranted):
            return f"nobody whom this mesh trusts says that its key is registry {name}'s"
        if not self._check(key, body, signature):
            return f"the signature is not that of registry {name}"
        return ""

    def _is_good(self, known: tuple[str, str, Warrant], body: bytes) -> bool:
        if known in self._good:
            return True
        signature = known[-1].signature
        if not any(self._check(issuer, body, signature) for issuer in self._issuers):
            return False
        if len(self._good) >= _KEPT_MAX:
            del self._good[next(iter(self._good))]
        self._good[known] = None
        return True
