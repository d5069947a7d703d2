"""The form of nats-server's configuration, and what hub and leaf servers have in common."""

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

import msgspec

from opentela.wire import subjects

Value: TypeAlias = "str | int | bool | dict[str, Value] | list[Value]"
Section: TypeAlias = dict[str, Value]

PING_INTERVAL: Final = "2s"
PING_MAX: Final = 2
"""A half-open link is dropped after some 6 s, for 79 B/s; the defaults need minutes."""
MAX_PAYLOAD: Final = 1024 * 1024
"""Parts of request bodies and control messages are far smaller; the server's own default."""
MAX_PENDING: Final = 64 * 1024 * 1024
"""Unsent bytes that one slow connection may hold; several windows of every stream of a site."""
COMPRESSION: Final = "off"
"""Of leaf links. By default the servers frame and check what passes as S2 even where they do not
compress it; that delays each request by some 0.1 ms, and what passes is mostly small."""
WRITE_DEADLINE: Final = "10s"
"""How long one write to a connection may block before it is dropped as slow."""
LOG_BYTES_MAX: Final = 16 * 1024 * 1024
LOG_FILES_MAX: Final = 4
"""A log file is turned over at this size; a client with bad credentials logs for ever."""
RESOLVER_INTERVAL: Final = "10s"
"""How often servers compare their accounts, for some 100 B each time: a revocation that a leaf
missed reaches it within this after it is back."""
STREAMS_MEMORY_MAX: Final = 16 * 1024 * 1024
"""For streams in memory, which nobody may make."""
STREAMS_FILE_MAX: Final = 4 * 1024 * 1024 * 1024
"""For streams on disk: four times what lifecycle events may take."""
RANDOM_PORT: Final = 0
"""A port of 0 stands for one that the system chooses."""


class TlsFiles(msgspec.Struct, frozen=True, kw_only=True):
    """PEM files of a server, as paths seen from its configuration's folder."""

    certificate: str
    key: str


class Trust(msgspec.Struct, frozen=True, kw_only=True):
    """Whom a server believes.

    Attributes:
        operator: JWT of the operator.
        system_account: Public key of the account that servers speak in among themselves.
        resolver_dir: Folder of account JWTs, which the server keeps current.
    """

    operator: str
    system_account: str
    resolver_dir: str = "jwt"


def common(*, name: str, trust: Trust) -> Section:
    """Return what every server of the mesh is told."""
    return {
        "server_name": name,
        "ping_interval": PING_INTERVAL,
        "ping_max": PING_MAX,
        "max_payload": MAX_PAYLOAD,
        "max_pending": MAX_PENDING,
        "write_deadline": WRITE_DEADLINE,
        "logfile_size_limit": LOG_BYTES_MAX,
        "logfile_max_num": LOG_FILES_MAX,
        "operator": trust.operator,
        "system_account": trust.system_account,
        "resolver": {
            "type": "full",
            "dir": trust.resolver_dir,
            "allow_delete": False,
            "interval": RESOLVER_INTERVAL,
        },
    }


def client_listener(host: str, port: int, tls: TlsFiles | None) -> Section:
    """Return where clients dial."""
    section: Section = {"listen": listen(host, port)}
    if tls is not None:
        # Ours say hello at once; "auto" also greets foreign clients, 50 ms later.
        section["tls"] = {**tls_files(tls), "handshake_first": "auto"}
    return section


def websocket_listener(host: str, port: int | None, tls: TlsFiles | None) -> Section:
    """Return where websockets, of clients and of leaf servers, dial; nothing without a port."""
    if port is None:
        return {}
    section: Section = {"listen": listen(host, port)}
    section |= {"no_tls": True} if tls is None else {"tls": tls_files(tls)}
    return {"websocket": section}


def leaf_listener(host: str, port: int | None, tls: TlsFiles | None) -> Section:
    """Return where leaf servers dial; nothing without a port."""
    if port is None:
        return {}
    section: Section = {"listen": listen(host, port), "compression": COMPRESSION}
    if tls is not None:
        section["tls"] = tls_files(tls)
    return section


def jetstream(folder: str) -> Section:
    """Return where streams are kept, under the name by which leaves reach them; nothing without."""
    if not folder:
        return {}
    limits: Section = {"max_mem": STREAMS_MEMORY_MAX, "max_file": STREAMS_FILE_MAX}
    return {"jetstream": {"store_dir": folder, "domain": subjects.DOMAIN, **limits}}


def monitor(port: int | None) -> Section:
    """Return the monitoring page, for this host alone: it names every client and subject."""
    return {} if port is None else {"http": listen("127.0.0.1", port)}


def tls_files(tls: TlsFiles) -> Section:
    """Return how a listener proves who it is."""
    return {"cert_file": tls.certificate, "key_file": tls.key}


def listen(host: str, port: int) -> str:
    """Return an address in nats-server's form."""
    shown = f"[{host}]" if ":" in host else host
    return f"{shown}:{-1 if port == RANDOM_PORT else port}"


def render(section: Section, *, heading: str) -> str:
    """Return *section* as a configuration file."""
    lines = [*(f"# {line}".rstrip() for line in heading.splitlines()), *_lines(section, "")]
    return "\n".join(lines) + "\n"


def _lines(section: Section, indent: str) -> Iterator[str]:
    for key, value in section.items():
        if isinstance(value, dict):
            yield f"{indent}{key} {{"
            yield from _lines(value, f"{indent}  ")
            yield f"{indent}}}"
        elif isinstance(value, list):
            yield f"{indent}{key}: ["
            yield from _items(value, f"{indent}  ")
            yield f"{indent}]"
        else:
            yield f"{indent}{key}: {_scalar(value)}"


def _items(values: Iterable[Value], indent: str) -> Iterator[str]:
    for value in values:
        if isinstance(value, dict):
            yield f"{indent}{{"
            yield from _lines(value, f"{indent}  ")
            yield f"{indent}}}"
        else:
            yield f"{indent}{_scalar(value)}"


def _scalar(value: Value) -> str:
    # JSON's strings, numbers and booleans read the same there.
    return msgspec.json.encode(value).decode()
