"""How router and session prove to each other, on a channel, who they are; one half each.

Who dials says `Hello`, who was dialled answers `Welcome`, and a `Proof` follows. A session that was
dialled also says `Accepted`, because it may have to wait for the mesh's word on the router.
"""

from collections.abc import Callable

from opentela.core.errors import WireError
from opentela.wire import channel as wire
from opentela.wire.channel import Hello, Proof, Welcome

Sign = Callable[[bytes], bytes]
Verify = Callable[[str, bytes, bytes], bool]
"""Returns whether the holder of a public key signed a body."""
KeyOf = Callable[[str], str]
"""Returns the public key of a session, or of a router process, that may have a channel; nothing
when there is none."""


class RouterGreeting:
    """The router's half where it was dialled, and answers.

    Attributes:
        session: Who dials; proved only when `hear` returned nothing.
    """

    def __init__(
        self,
        *,
        instance: str,
        certificate: str,
        nonce: bytes,
        sign: Sign,
        verify: Verify,
        key_of: KeyOf,
    ) -> None:
        self.session = ""
        self._instance = instance
        self._certificate = certificate
        self._nonce = nonce
        self._sign = sign
        self._verify = verify
        self._key_of = key_of
        self._hello: Hello | None = None

    def hear(self, payload: bytes) -> bytes:
        """Take a part; return what to say, or nothing once the session has proved itself.

        Raises:
            WireError: It is not who it says, or was not invited by this process.
        """
        if self._hello is not None:
            self._check(wire.read_proof(payload), self._hello)
            return b""
        hello = self._hello = wire.read_hello(payload)
        if hello.instance != self._instance:
            raise WireError("a session that another router invited")
        self.session = hello.session
        words = wire.words_of_router(hello, self._nonce, self._certificate)
        return wire.encode(Welcome(self._nonce, self._sign(words)))

    def _check(self, proof: Proof, hello: Hello) -> None:
        key = self._key_of(hello.session)
        words = wire.words_of_session(hello, self._nonce, self._certificate)
        if not key or not self._verify(key, words, proof.signature):
            raise WireError(f"no proof of being session {hello.session}")


class SessionGreeting:
    """The session's half where it was invited by *key*, and dials.

    Attributes:
        hello: What to say first.
    """

    def __init__(
        self, hello: Hello, *, key: str, certificate: str, sign: Sign, verify: Verify
    ) -> None:
        self.hello = wire.encode(hello)
        self._hello = hello
        self._key = key
        self._certificate = certificate
        self._sign = sign
        self._verify = verify

    def hear(self, payload: bytes) -> bytes:
        """Take the router's proof; return ours, after which frames may come.

        Raises:
            WireError: It is not the router that invited us.
        """
        welcome = wire.read_welcome(payload)
        words = wire.words_of_router(self._hello, welcome.nonce, self._certificate)
        if not self._verify(self._key, words, welcome.signature):
            raise WireError("no proof of being the router that invited")
        ours = wire.words_of_session(self._hello, welcome.nonce, self._certificate)
        return wire.encode(Proof(self._sign(ours)))


class DialledSession:
    """The session's half where a router dials it.

    Attributes:
        hello: Whom the router asks for, and which it says it is; None until it said so.
    """

    def __init__(self, *, certificate: str, nonce: bytes, sign: Sign, verify: Verify) -> None:
        self.hello: Hello | None = None
        self._certificate = certificate
        self._nonce = nonce
        self._sign = sign
        self._verify = verify

    def welcome(self, payload: bytes) -> bytes:
        """Take the router's first word; return our proof.

        Raises:
            WireError: It is no greeting.
        """
        hello = self.hello = wire.read_hello(payload)
        words = wire.words_of_session(hello, self._nonce, self._certificate, is_dialled=True)
        return wire.encode(Welcome(self._nonce, self._sign(words)))

    def accept(self, payload: bytes, key: str) -> bytes:
        """Take the router's proof that it holds *key*; return what lets it begin.

        Raises:
            WireError: It proves nothing.
        """
        assert self.hello is not None
        proof = wire.read_proof(payload)
        words = wire.words_of_router(self.hello, self._nonce, self._certificate, is_dialled=True)
        if not key or not self._verify(key, words, proof.signature):
            raise WireError("no proof of being a router that the mesh knows")
        return wire.ACCEPTED


class DiallingRouter:
    """The router's half where it dials a session that claims under *key*.

    Attributes:
        hello: What to say first.
    """

    def __init__(
        self, hello: Hello, *, key: str, certificate: str, sign: Sign, verify: Verify
    ) -> None:
        self.hello = wire.encode(hello)
        self._hello = hello
        self._key = key
        self._certificate = certificate
        self._sign = sign
        self._verify = verify
        self._has_proved = False

    def hear(self, payload: bytes) -> bytes:
        """Take a part; return what to say, or nothing once the session has let us in.

        Raises:
            WireError: It is not the session.
        """
        if self._has_proved:
            if payload != wire.ACCEPTED:
                raise WireError("the session does not let us in")
            return b""
        welcome = wire.read_welcome(payload)
        hello, certificate = self._hello, self._certificate
        words = wire.words_of_session(hello, welcome.nonce, certificate, is_dialled=True)
        if not self._verify(self._key, words, welcome.signature):
            raise WireError(f"no proof of being session {hello.session}")
        self._has_proved = True
        ours = wire.words_of_router(hello, welcome.nonce, certificate, is_dialled=True)
        return wire.encode(Proof(self._sign(ours)))
