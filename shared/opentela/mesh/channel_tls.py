"""TLS on channels: a certificate of one process, made at its start, known by its hash.

No authority vouches for it: its hash stands in what the other end was told, and in what both sign.
"""

import hashlib
import ipaddress
import os
import ssl
import tempfile
from pathlib import Path
from typing import Final, Literal, NamedTuple

from opentela.mesh import tls

_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_NETWORK: Final = Path("/proc/self/ns/net")
_HOST_BYTES: Final = 16

Mode = Literal["auto", "on", "off"]


class Shown(NamedTuple):
    """What a listener shows: a context, and the SHA-256 of its certificate; nothing without TLS."""

    context: ssl.SSLContext | None = None
    certificate: str = ""


def is_loopback(host: str) -> bool:
    """Return whether *host* names this host alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listening(host: str, mode: Mode, *, name: str, wall: float) -> Shown:
    """Return what to show to who dials *host*: in mode `auto`, TLS unless that is loopback."""
    if mode == "off" or (mode == "auto" and is_loopback(host)):
        return Shown()
    pair = tls.authority(name=name, now=wall)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    with tempfile.TemporaryDirectory() as folder:  # which only we can enter
        file = Path(folder) / "pair.pem"
        file.write_text(pair.certificate + pair.key)
        context.load_cert_chain(file)
    shown = ssl.PEM_cert_to_DER_cert(pair.certificate)
    return Shown(context, hashlib.sha256(shown).hexdigest())


def dialling() -> ssl.SSLContext:
    """Return a context that believes any certificate: the one that was shown is compared after."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def host_token(key: str) -> str:
    """Return what shows that the holder of *key* is on this host and network; empty if unknown.

    It hashes what only processes of this host can read, with the key: copied into another's claim
    it shows nothing.
    """
    try:
        boot = _BOOT.read_text().strip()
        network = os.stat(_NETWORK).st_ino  # noqa: PTH116 - follows the link of a namespace
    except OSError:
        return ""
    words = f"otela host\0{boot}\0{network}\0{key}".encode()
    return hashlib.sha256(words).hexdigest()[: 2 * _HOST_BYTES]
