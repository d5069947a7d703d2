"""An authority of the mesh's own and the certificates of its servers.

A mesh has few servers, all named by its operator, and clients that get their access file from the
same hand: its own authority is as trustworthy as a public one and needs no name in the public DNS.
"""

import datetime as dt
import ipaddress
from collections.abc import Sequence
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID: Final = dt.timedelta(days=3650)
"""Of the authority and of servers: replacing either means visiting every site."""
_CLOCK_SKEW: Final = dt.timedelta(days=1)
"""Certificates begin in the past, for hosts whose clocks are behind."""
_LOCAL: Final = ("localhost", "127.0.0.1", "::1")
"""In every certificate: processes on the server's own host dial it by these."""


class Pair(NamedTuple):
    """A certificate and its key, as PEM."""

    certificate: str
    key: str


def authority(*, name: str, now: float) -> Pair:
    """Return a new authority called *name*."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    certificate = (
        _begun(subject, subject, key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return _pair(certificate, key)


def server(signer: Pair, *, hosts: Sequence[str], now: float) -> Pair:
    """Return a certificate for a server that is dialled by any of *hosts*, signed by *signer*."""
    issuer = x509.load_pem_x509_certificate(signer.certificate.encode())
    issuer_key = serialization.load_pem_private_key(signer.key.encode(), password=None)
    assert isinstance(issuer_key, ec.EllipticCurvePrivateKey), "our authorities are EC"
    key = ec.generate_private_key(ec.SECP256R1())
    names = [_name(host) for host in dict.fromkeys((*hosts, *_LOCAL))]
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, (*hosts, *_LOCAL)[0][:64])])
    certificate = (
        _begun(subject, issuer.subject, key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()),
            critical=False,
        )
        .sign(issuer_key, hashes.SHA256())
    )
    return _pair(certificate, key)


def _begun(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: float
) -> x509.CertificateBuilder:
    begins = dt.datetime.fromtimestamp(now, dt.UTC) - _CLOCK_SKEW
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(begins + VALID)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
    return Pair(
        certificate.public_bytes(serialization.Encoding.PEM).decode(),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ).decode(),
    )
