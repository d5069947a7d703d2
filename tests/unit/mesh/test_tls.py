"""Certificates of the mesh's own authority, checked by the TLS library that will check them."""

import ipaddress
from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from opentela.mesh import tls

NOW = datetime(2026, 11, 29, tzinfo=UTC)
AUTHORITY = tls.authority(name="opentela test", now=NOW.timestamp())


def verify(pair: tls.Pair, host: str, authority: tls.Pair = AUTHORITY) -> None:
    """Check a server's certificate as a client does."""
    store = Store([x509.load_pem_x509_certificate(authority.certificate.encode())])
    try:
        subject: x509.DNSName | x509.IPAddress = x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        subject = x509.DNSName(host)
    PolicyBuilder().store(store).time(NOW).build_server_verifier(subject).verify(
        x509.load_pem_x509_certificate(pair.certificate.encode()), []
    )


def test_a_server_is_trusted_under_its_names_and_on_its_own_host() -> None:
    """Names, addresses of either version, and loopback."""
    pair = tls.server(
        AUTHORITY, hosts=("hub.example.org", "192.0.2.7", "2001:db8::1"), now=NOW.timestamp()
    )
    for host in ("hub.example.org", "192.0.2.7", "2001:db8::1", "localhost", "127.0.0.1", "::1"):
        verify(pair, host)


def test_a_server_is_not_trusted_under_another_name_or_by_another_authority() -> None:
    """Nor can it sign for others."""
    pair = tls.server(AUTHORITY, hosts=("hub.example.org",), now=NOW.timestamp())
    with pytest.raises(VerificationError):
        verify(pair, "evil.example.org")
    with pytest.raises(VerificationError):
        verify(pair, "hub.example.org", tls.authority(name="other", now=NOW.timestamp()))
    with pytest.raises(VerificationError):
        verify(tls.server(pair, hosts=("hub.example.org",), now=NOW.timestamp()), "hub.example.org")


def test_a_very_long_host_name_still_makes_a_certificate() -> None:
    """A common name ends after 64 characters; the names that count do not."""
    host = ".".join(["a" * 40] * 3)
    verify(tls.server(AUTHORITY, hosts=(host,), now=NOW.timestamp()), host)


def test_a_certificate_without_hosts_is_for_loopback() -> None:
    """A mesh on one machine needs no name."""
    verify(tls.server(AUTHORITY, hosts=(), now=NOW.timestamp()), "localhost")
