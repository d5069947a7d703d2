"""One file is everything that a process needs to join the mesh: where, whom to trust, who it is."""

import itertools
import ssl
import tomllib
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Final, Literal, NamedTuple
from urllib.parse import urlsplit

import msgspec

from opentela.core.errors import ConfigError, CredentialError
from opentela.mesh import files
from opentela.mesh.identity import Identity

Role = Literal["registry", "router", "placer", "tool", "provider", "leaf", "sys"]

SCHEMES: Final = {"nats": 4222, "tls": 4222, "ws": 80, "wss": 443}
"""Schemes of a server's URL and the port that each means when none is written."""


class Server(NamedTuple):
    """One server of the mesh, as a client dials it."""

    scheme: str
    host: str
    port: int

    @property
    def is_encrypted(self) -> bool:
        """Whether TLS starts before anything else is said: no server can talk us out of it."""
        return self.scheme in ("tls", "wss")

    @property
    def is_websocket(self) -> bool:
        """Whether NATS is spoken inside a websocket."""
        return self.scheme in ("ws", "wss")

    @property
    def url(self) -> str:
        """The server as text."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


class Access(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """What an access file holds; what a newer version adds to it is not read.

    Attributes:
        name: Who this is: one token, unique in the mesh; a provider's is the provider.
        role: What it may do; nats-server enforces it, this only says it.
        provider: The provider that it speaks for; empty for other roles.
        site: The only site that it may speak from; a registry's own; empty when any.
        servers: URLs to dial, any of which will do: `nats`, `tls`, `ws` or `wss`.
        ca: PEM of who signed the servers' certificates; empty for the system's authorities.
        credentials: The user JWT and its seed, in NATS's own file format.
        warrant: The mesh's word that this key is the provider's or the registry's; goes into every
            claim, or into whatever is held against one.
    """

    name: str
    role: Role
    servers: tuple[str, ...]
    credentials: str
    provider: str = ""
    site: str = ""
    ca: str = ""
    warrant: str = ""

    def __repr__(self) -> str:
        return f"Access({self.name!r}, role={self.role!r}, servers={self.servers!r})"

    @cached_property
    def addresses(self) -> tuple[Server, ...]:
        """The servers, taken apart."""
        return tuple(server(url) for url in self.servers)

    @cached_property
    def jwt(self) -> str:
        """The user JWT: what the mesh says that this may do."""
        return _between(self.credentials, "NATS USER JWT")

    @cached_property
    def identity(self) -> Identity:
        """The key that answers the servers' challenge."""
        return Identity.from_seed(_between(self.credentials, "USER NKEY SEED"))

    def tls(self) -> ssl.SSLContext:
        """Return what checks the servers' certificates and their names."""
        context = ssl.create_default_context()
        if self.ca:
            # Whoever runs the mesh runs its authority: no public one may vouch for a server.
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            try:
                context.load_verify_locations(cadata=self.ca)
            except (ssl.SSLError, ValueError) as error:
                raise CredentialError("ca is not a PEM certificate") from error
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return context


def server(url: str) -> Server:
    """Return the server that *url* names.

    Raises:
        ConfigError: It is no URL of a server; the message repeats it.
    """
    parts = urlsplit(url if "://" in url else f"nats://{url}")
    remedy = "write it as tls://host:4222, nats://host:4222 or wss://host:443"
    if parts.scheme not in SCHEMES:
        raise ConfigError(f"servers: {url!r} has an unknown scheme", remedy=remedy)
    try:
        port = parts.port or SCHEMES[parts.scheme]
    except ValueError as error:
        raise ConfigError(f"servers: {url!r} has no valid port", remedy=remedy) from error
    if not parts.hostname or parts.username or parts.path.strip("/") or parts.query:
        raise ConfigError(f"servers: {url!r} is not just a scheme, host and port", remedy=remedy)
    return Server(parts.scheme, parts.hostname, port)


def credentials(jwt: str, identity: Identity) -> str:
    """Return a user's JWT and seed in the format that every NATS client reads."""
    return (
        f"-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{identity.seed}\n------END USER NKEY SEED------\n"
    )


def read(path: Path) -> Access:
    """Return what the access file *path* holds.

    Raises:
        CredentialError: Missing, shared with others, or not an access file.
    """
    text = files.read_private(path, what="access file")
    remedy = "get a new one with: otela mesh invite, or otela mesh role"
    try:
        access = msgspec.convert(tomllib.loads(text), Access)
        # Found now rather than at the first connection.
        _ = access.jwt, access.identity, access.addresses
    except (tomllib.TOMLDecodeError, msgspec.ValidationError, ConfigError) as error:
        raise CredentialError(f"access file {path}: {error}", remedy=remedy) from error
    except CredentialError as error:
        raise CredentialError(f"access file {path}: {error}", remedy=remedy) from error
    if not access.servers:
        raise CredentialError(f"access file {path}: servers is empty", remedy=remedy)
    return access


def read_for(path: Path, *roles: Role) -> Access:
    """Return what the access file *path* holds, which must be of one of *roles*.

    Raises:
        CredentialError: It is of another role, which the message names beside the first of *roles*,
            or it is unusable.
    """
    access = read(path)
    if access.role not in roles:
        role = roles[0]
        way = "invite --provider NAME" if role == "provider" else f"role --role {role} --name NAME"
        raise CredentialError(
            f"{path} is an access file of a {access.role}, not of a {role}",
            remedy=f"get one with: otela mesh {way}",
        )
    return access


def write(path: Path, access: Access) -> None:
    """Write *access* to *path*, which only its owner can read."""
    files.write(path, "".join(_lines(access)))


def _lines(access: Access) -> Iterator[str]:
    yield f"# Joins the mesh as {access.role} {access.name}. Secret: whoever reads it, can do so.\n"
    for field, value in msgspec.to_builtins(access).items():
        if value in ("", []):
            continue
        if isinstance(value, str) and "\n" in value:
            yield f"{field} = '''\n{value.rstrip()}\n'''\n"
        else:
            # A JSON string or array of strings is TOML as well.
            yield f"{field} = {msgspec.json.encode(value).decode()}\n"


def _between(text: str, label: str) -> str:
    for line, following in itertools.pairwise(text.splitlines()):
        if f"BEGIN {label}" in line:
            return following.strip()
    raise CredentialError(f"credentials hold no {label}")
