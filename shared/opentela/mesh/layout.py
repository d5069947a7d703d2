"""The folder in which an operator keeps a mesh: what is where, and who was let in.

::

    mesh.json      public facts: keys' names, where servers are dialled
    members.json   everybody who was let in, by public key; revocations
    hub.conf       what nats-server runs
    keys/          seeds of operator, accounts and signing key; whoever reads them owns the mesh
    jwt/           account JWTs, as the hub's resolver keeps them
    tls/           authority and the hub's certificate
    access/        access files, one a role
    jetstream/     what the hub's streams keep
    leaves/<site>/ a folder to copy to each site
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from opentela.core.errors import ConfigError
from opentela.mesh import files
from opentela.mesh.identity import Identity, Kind

FormT = TypeVar("FormT")

SEEDS: Final = {
    "operator": Kind.OPERATOR,
    "account": Kind.ACCOUNT,
    "signing": Kind.ACCOUNT,
    "system": Kind.ACCOUNT,
}
"""Files under `keys/`, and what each is."""


ID_CHARACTERS: Final = 10
"""Of a public key, whose first one is always U: 45 bits, enough for all that a mesh lets in."""
JETSTREAM_DIR: Final = "jetstream"
"""Where the hub keeps streams, below the folder."""


class Facts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `mesh.json` holds; none of it is secret.

    Attributes:
        name: Of the mesh, for people.
        operator: JWT of the operator.
        account: Public key of the account in which everybody speaks.
        signing: Public key that signs its users.
        system: Public key of the servers' own account.
        servers: Where clients dial the hub.
        websockets: Where they dial it through proxies.
        leaf_servers: Where leaf servers dial it.
        is_own_authority: Whether `tls/ca.pem` signed the hub's certificate.
        has_jetstream: Whether the hub keeps streams, such as that of lifecycle events.
    """

    name: str
    operator: str
    account: str
    signing: str
    system: str
    servers: tuple[str, ...]
    websockets: tuple[str, ...]
    leaf_servers: tuple[str, ...]
    is_own_authority: bool
    has_jetstream: bool = False


class Admission(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One user that was let in.

    Attributes:
        key: Its public key.
        is_system: Whether it is a user of the servers' own account.
        issued_at: Unix seconds; expires_at likewise, 0 for never; revoked_at, 0 for not.
    """

    key: str
    name: str
    role: str
    issued_at: int
    is_system: bool = False
    provider: str = ""
    site: str = ""
    expires_at: int = 0
    revoked_at: int = 0

    @property
    def id(self) -> str:
        """What tells this one from others of the same name: the beginning of its key."""
        return self.key[:ID_CHARACTERS]


class MeshLayout:
    """One mesh's folder.

    Attributes:
        root: The folder.
    """

    def __init__(self, root: Path) -> None:
        self.root: Final = root

    @property
    def conf(self) -> Path:
        """The hub's configuration."""
        return self.root / "hub.conf"

    @property
    def jwt_dir(self) -> Path:
        """Account JWTs."""
        return self.root / "jwt"

    @property
    def tls_dir(self) -> Path:
        """Authority and certificate."""
        return self.root / "tls"

    @property
    def ca(self) -> Path:
        """Certificate of who signed the hub's; there is none where the system's vouch."""
        return self.tls_dir / "ca.pem"

    def access(self, name: str) -> Path:
        """Return the access file of a role."""
        return self.root / "access" / f"{name}.toml"

    def leaf(self, site: str) -> Path:
        """Return the folder of a site's leaf."""
        return self.root / "leaves" / site

    @property
    def exists(self) -> bool:
        """Whether a mesh was set up here, to the end."""
        return self.has_facts and not self.unfinished.exists()

    @property
    def has_facts(self) -> bool:
        """Whether the making of a mesh came so far that it has a name, perhaps no farther."""
        return (self.root / "mesh.json").exists()

    @property
    def unfinished(self) -> Path:
        """A file that is there while a mesh is made, and stays when that fails."""
        return self.root / ".unfinished"

    @property
    def facts(self) -> Facts:
        """What `mesh.json` holds.

        Raises:
            ConfigError: There is no mesh here.
        """
        return self._read("mesh.json", Facts)

    @property
    def admissions(self) -> tuple[Admission, ...]:
        """Everybody who was let in, in order."""
        return self._read("members.json", tuple[Admission, ...])

    def write_facts(self, facts: Facts) -> None:
        """Replace `mesh.json`."""
        files.write(self.root / "mesh.json", _pretty(facts), mode=files.PUBLIC_FILE)

    def write_admissions(self, admissions: tuple[Admission, ...]) -> None:
        """Replace `members.json`."""
        files.write(self.root / "members.json", _pretty(admissions))

    def identity(self, name: str) -> Identity:
        """Return a key of `SEEDS`."""
        path = self.root / "keys" / f"{name}.seed"
        return Identity.from_seed(files.read_private(path, what="key").strip())

    def write_identity(self, name: str, identity: Identity) -> None:
        """Keep a key of `SEEDS`."""
        files.write(self.root / "keys" / f"{name}.seed", f"{identity.seed}\n")

    def account_jwt(self, key: str) -> str:
        """Return the JWT of an account, as the resolver has it."""
        return (self.jwt_dir / f"{key}.jwt").read_text()

    def write_account_jwt(self, key: str, jwt: str) -> None:
        """Give the resolver an account."""
        files.write(self.jwt_dir / f"{key}.jwt", jwt)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other commands from changing this mesh meanwhile.

        Raises:
            ConfigError: There is no folder of a mesh, or not of one's own.
        """
        path = self.root / ".lock"
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, files.PRIVATE_FILE)
        except OSError as error:
            raise self._absent(path.name, error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _read(self, name: str, form: type[FormT]) -> FormT:
        path = self.root / name
        try:
            return msgspec.json.decode(path.read_bytes(), type=form)
        except OSError as error:
            raise self._absent(name, error) from error
        except msgspec.DecodeError as error:
            raise ConfigError(f"{path}: {error}", remedy="restore it from a backup") from error

    def _absent(self, name: str, error: OSError) -> ConfigError:
        return ConfigError(
            f"there is no mesh in {self.root}: {name}: {error.strerror}",
            remedy="name its folder with --dir, or make one with: otela mesh init",
        )


def _pretty(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"
