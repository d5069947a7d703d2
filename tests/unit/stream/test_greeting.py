"""Both halves of the greeting: who is who they say gets in, and nobody else."""

import pytest

from opentela.core.errors import WireError
from opentela.stream.greeting import RouterGreeting, SessionGreeting
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
