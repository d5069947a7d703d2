"""Both halves of the greeting: who is who they say gets in, and nobody else."""

import pytest

from opentela.core.errors import WireError
from opentela.stream.greeting import (
    DialledSession,
    DiallingRouter,
    RouterGreeting,
    SessionGreeting,
)
from opentela.wire.channel import Hello

NONCE = bytes(16)


def sign_as(key: str) -> "Signer":
    """Return what signs as the holder of *key*."""
    return Signer(key)


class Signer:
    """Signs so that everybody can see by whom; a real one stands in the tests with sockets."""

    def __init__(self, key: str) -> None:
        self._key = key.encode()

    def __call__(self, body: bytes) -> bytes:
        """Return the signature."""
        return self._key + b" signed " + body


def verify(key: str, body: bytes, signature: bytes) -> bool:
    """Return whether *key* signed *body*."""
    return signature == Signer(key)(body)


def router(
    *, key: str = "R", instance: str = "i", certificate: str = "c", session_key: str = "S"
) -> RouterGreeting:
    """Return the router's half; it knows one session, `s`."""
    return RouterGreeting(
        instance=instance,
        certificate=certificate,
        nonce=NONCE,
        sign=sign_as(key),
        verify=verify,
        key_of=lambda session: session_key if session == "s" else "",
    )


def session(
    *, name: str = "s", key: str = "S", certificate: str = "c", invited_by: str = "R"
) -> SessionGreeting:
    """Return the session's half."""
    return SessionGreeting(
        Hello(1, "i", name, NONCE),
        key=invited_by,
        certificate=certificate,
        sign=sign_as(key),
        verify=verify,
    )


def greet(host: RouterGreeting, guest: SessionGreeting) -> None:
    """Let both say all that they have to say."""
    assert host.hear(guest.hear(host.hear(guest.hello))) == b""


def test_a_session_that_was_invited_gets_in() -> None:
    """And the router knows which it is."""
    host = router()
    greet(host, session())
    assert host.session == "s"


@pytest.mark.parametrize(
    "guest",
    [session(key="T"), session(name="t"), session(name="t", key="T")],
)
def test_who_cannot_sign_for_the_session_stays_out(guest: SessionGreeting) -> None:
    """Another provider's session, or one that nobody knows."""
    with pytest.raises(WireError, match="no proof of being session"):
        greet(router(), guest)


def test_a_session_without_a_key_stays_out() -> None:
    """It ended meanwhile: an empty key proves nothing."""
    with pytest.raises(WireError, match="no proof"):
        greet(router(session_key=""), session(key=""))


def test_another_process_of_the_router_did_not_invite() -> None:
    """Its streams would not be known here."""
    with pytest.raises(WireError, match="another router invited"):
        greet(router(instance="j"), session())


def test_a_session_gives_no_proof_to_who_did_not_invite() -> None:
    """Whoever listens at the address now."""
    guest = session()
    with pytest.raises(WireError, match="no proof of being the router"):
        guest.hear(router(key="X").hear(guest.hello))


def test_who_sits_in_between_is_found() -> None:
    """The two ends have seen different certificates."""
    with pytest.raises(WireError, match="no proof of being the router"):
        greet(router(certificate="c"), session(certificate="x"))


def door(*, key: str = "S", certificate: str = "c", nonce: bytes = NONCE) -> DialledSession:
    """Return the half of a session that is dialled."""
    return DialledSession(certificate=certificate, nonce=nonce, sign=sign_as(key), verify=verify)


def caller(*, key: str = "R", session_key: str = "S", certificate: str = "c") -> DiallingRouter:
    """Return the half of a router that dials."""
    return DiallingRouter(
        Hello(1, "i", "s", NONCE),
        key=session_key,
        certificate=certificate,
        sign=sign_as(key),
        verify=verify,
    )


def test_a_router_that_dials_gets_in_by_the_key_that_it_was_announced_under() -> None:
    """And begins only once it was let in."""
    host, guest = door(), caller()
    proof = guest.hear(host.welcome(guest.hello))
    assert host.hello == Hello(1, "i", "s", NONCE)
    assert guest.hear(host.accept(proof, "R")) == b""


@pytest.mark.parametrize("key", ["", "Q"])
def test_a_router_that_was_not_announced_stays_out(key: str) -> None:
    """Whatever it signs."""
    host, guest = door(), caller()
    proof = guest.hear(host.welcome(guest.hello))
    with pytest.raises(WireError, match="no proof of being a router"):
        host.accept(proof, key)


@pytest.mark.parametrize("host", [door(key="T"), door(certificate="d")])
def test_a_router_leaves_who_is_not_the_session(host: DialledSession) -> None:
    """Another that listens there, or one between the two."""
    guest = caller()
    with pytest.raises(WireError, match="no proof of being session"):
        guest.hear(host.welcome(guest.hello))


def test_a_greeting_that_was_overheard_opens_nothing() -> None:
    """Each has a nonce of its own."""
    host, guest = door(), caller()
    proof = guest.hear(host.welcome(guest.hello))
    later = door(nonce=b"another nonce 16")
    later.welcome(guest.hello)
    with pytest.raises(WireError, match="no proof"):
        later.accept(proof, "R")


def test_what_is_signed_in_one_direction_means_nothing_in_the_other() -> None:
    """A session that is dialled cannot be made to prove itself to a home port, nor a router."""
    home, guest = router(), session()
    at_home = guest.hear(home.hear(guest.hello))
    host, dialling = door(), caller()
    welcome = host.welcome(dialling.hello)
    with pytest.raises(WireError, match="no proof"):
        session(invited_by="S").hear(welcome)
    host_again = door()
    host_again.welcome(guest.hello)
    with pytest.raises(WireError, match="no proof"):
        host_again.accept(at_home, "S")


def test_a_session_that_does_not_let_the_router_in_is_left() -> None:
    """Anything but the last word."""
    host, guest = door(), caller()
    guest.hear(host.welcome(guest.hello))
    with pytest.raises(WireError, match="does not let us in"):
        guest.hear(b"\x91\x01")
