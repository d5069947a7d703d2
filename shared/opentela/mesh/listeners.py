"""Where a server of the mesh is dialled, and the certificate that it shows there."""

from pathlib import Path
from typing import Final, Literal, assert_never

import msgspec

from opentela.core.errors import ConfigError
from opentela.mesh import access as accesses
from opentela.mesh import files, tls
from opentela.mesh.layout import MeshLayout
from opentela.mesh.server_conf import TlsFiles

CLIENT_PORT: Final = 4222
LEAF_PORT: Final = 7422
LOOPBACK: Final = "127.0.0.1"
EVERYWHERE: Final = "0.0.0.0"  # noqa: S104  a hub is there to be dialled; only with TLS
_LOOPBACKS: Final = frozenset({"localhost", LOOPBACK, "::1"})

TlsMode = Literal["auto", "none", "files"]


class Listeners(msgspec.Struct, frozen=True, kw_only=True):
    """Where a server is dialled, and how it proves who it is.

    Attributes:
        hosts: Names by which it is dialled; they stand in access files and certificates.
        listen: Address to bind; empty for every one with TLS and loopback without.
        port: For clients; 0 for one that the system chooses, here and below.
        leaf_port: For leaf servers; None for no listener, here and below.
        websocket_port: For clients and leaf servers behind proxies.
        monitor_port: For nats-server's monitoring page, on loopback.
        tls: `auto` uses the mesh's own authority, `files` the operator's, `none` stays on loopback.
        certificate: PEM chain, with `files`.
        key: Its private key, with `files`.
        ca: PEM of who signed it, with `files`; None when every system knows them.
    """

    hosts: tuple[str, ...] = ("localhost",)
    listen: str = ""
    port: int = CLIENT_PORT
    leaf_port: int | None = None
    websocket_port: int | None = None
    monitor_port: int | None = None
    tls: TlsMode = "none"
    certificate: Path | None = None
    key: Path | None = None
    ca: Path | None = None

    @property
    def address(self) -> str:
        """The address to bind."""
        return self.listen or (LOOPBACK if self.tls == "none" else EVERYWHERE)

    def check(self) -> None:
        """Return if this makes sense.

        Raises:
            ConfigError: Prompts would cross a network in the clear, or nobody could dial.
        """
        if self.tls == "none" and self.address not in _LOOPBACKS:
            raise ConfigError(
                f"tls = none with listen = {self.address} would send prompts in the clear",
                remedy="use --tls auto or files, or listen on 127.0.0.1 behind a proxy with TLS",
            )
        if not self.hosts:
            raise ConfigError("hosts is empty", remedy="name one with --host")

    def urls(self, port: int | None, plain: str, encrypted: str) -> tuple[str, ...]:
        """Return where *port* is dialled; nowhere that is known yet if the system chooses it."""
        if not port:
            return ()
        scheme = plain if self.tls == "none" else encrypted
        return tuple(accesses.Server(scheme, host, port).url for host in self.hosts)


def certify(layout: MeshLayout, root: Path, listeners: Listeners, *, now: float) -> TlsFiles | None:
    """Write what a server in *root* proves itself with; return where it is."""
    match listeners.tls:
        case "none":
            return None
        case "files":
            if listeners.certificate is None or listeners.key is None:
                raise ConfigError(
                    "tls = files needs a certificate and a key",
                    remedy="use --certificate FILE --key FILE",
                )
            if listeners.ca is not None:
                _trust_also(layout, listeners.ca)
            return TlsFiles(
                certificate=str(listeners.certificate.resolve()), key=str(listeners.key.resolve())
            )
        case "auto":
            if not layout.facts.is_own_authority:
                raise ConfigError("this mesh has no authority of its own", remedy="use --tls files")
            folder = files.make_private_dir(root / "tls")
            authority = tls.Pair(
                layout.ca.read_text(),
                files.read_private(layout.tls_dir / "ca.key", what="key"),
            )
            write_pair(folder, "server", tls.server(authority, hosts=listeners.hosts, now=now))
            return TlsFiles(certificate="tls/server.pem", key="tls/server.key")
        case other:
            assert_never(other)


def _trust_also(layout: MeshLayout, path: Path) -> None:
    """Add an authority to those that access files name; the first stays the mesh's own."""
    known = layout.ca.read_text() if layout.ca.exists() else ""
    try:
        added = path.read_text()
    except OSError as error:
        raise ConfigError(f"cannot read ca {path}: {error.strerror}") from error
    if added not in known:
        files.write(layout.ca, known + added, mode=files.PUBLIC_FILE)


def write_pair(folder: Path, name: str, pair: tls.Pair) -> None:
    """Write `<name>.pem` for everybody and `<name>.key` for the owner."""
    files.write(folder / f"{name}.pem", pair.certificate, mode=files.PUBLIC_FILE)
    files.write(folder / f"{name}.key", pair.key)
