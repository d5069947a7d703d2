"""JWTs as nats-server reads them: signed, typed, and never allowing by accident."""

import base64

import pytest

from opentela.mesh import identity, jwt, jwt_reader
from opentela.mesh.identity import Identity, Kind
from opentela.mesh.permissions import Permissions

OPERATOR, ACCOUNT, USER = (Identity.new(kind) for kind in Kind)
NOW = 1_800_000_000.7


def user(permissions: Permissions, expires_at: float = 0.0) -> str:
    """Return a user's JWT."""
    return jwt.user(
        ACCOUNT,
        USER.key,
        name="p",
        account=ACCOUNT.key,
        permissions=permissions,
        connects=jwt.CLIENT,
        now=NOW,
        expires_at=expires_at,
    )


@pytest.mark.parametrize(
    ("text", "signer"),
    [
        (jwt.operator(OPERATOR, name="o", system_account=ACCOUNT.key, now=NOW), OPERATOR),
        (jwt.account(OPERATOR, ACCOUNT.key, name="a", signing_keys=(), now=NOW), OPERATOR),
        (user(Permissions(publish=("a",), subscribe=("b",))), ACCOUNT),
    ],
    ids=["operator", "account", "user"],
)
def test_a_jwt_is_signed_by_its_issuer(text: str, signer: Identity) -> None:
    """Over header and claims, with the algorithm that servers expect."""
    head, _, signature = text.rpartition(".")
    raw = base64.urlsafe_b64decode(signature + "=" * (-len(signature) % 4))
    assert identity.verify(signer.key, head.encode(), raw)
    header = head.partition(".")[0]
    assert base64.urlsafe_b64decode(header + "==") == b'{"typ":"JWT","alg":"ed25519-nkey"}'
    claims = jwt_reader.claims(text)
    assert claims["iss"] == signer.key
    assert claims["iat"] == int(NOW)
    assert claims["nats"]["version"] == 2
    assert claims["jti"]
    assert "=" not in text


def test_a_user_may_do_what_is_listed_and_connect_as_told() -> None:
    """In the account that the signing key speaks for."""
    claims = jwt_reader.claims(user(Permissions(publish=("a.>",), subscribe=("b", "c.*"))))
    assert claims["sub"] == USER.key
    assert claims["nats"]["issuer_account"] == ACCOUNT.key
    assert claims["nats"]["pub"] == {"allow": ["a.>"]}
    assert claims["nats"]["sub"] == {"allow": ["b", "c.*"]}
    assert claims["nats"]["allowed_connection_types"] == ["STANDARD", "WEBSOCKET"]
    assert "exp" not in claims


def test_nothing_listed_is_nothing_allowed() -> None:
    """To a server an empty list of what is allowed means everything."""
    claims = jwt_reader.claims(user(Permissions(publish=(), subscribe=())))
    assert claims["nats"]["pub"] == claims["nats"]["sub"] == {"deny": [">"]}


def test_an_end_is_in_whole_seconds() -> None:
    """As servers count."""
    text = user(Permissions(publish=("a",), subscribe=("b",)), expires_at=NOW + 60)
    assert jwt_reader.expires_at(text) == int(NOW) + 60


def test_revocations_stand_in_the_account() -> None:
    """Only when there are any."""
    issued = jwt.account(
        OPERATOR, ACCOUNT.key, name="a", signing_keys=("S",), now=NOW, revoked={USER.key: 5}
    )
    nats = jwt_reader.claims(issued)["nats"]
    assert nats["revocations"] == {USER.key: 5}
    assert nats["signing_keys"] == ["S"]
    clean = jwt.account(OPERATOR, ACCOUNT.key, name="a", signing_keys=(), now=NOW)
    assert "revocations" not in jwt_reader.claims(clean)["nats"]


def test_a_key_of_the_wrong_kind_is_a_bug() -> None:
    """A user is not signed as an account, nor an account as a user."""
    with pytest.raises(AssertionError):
        jwt.account(OPERATOR, USER.key, name="a", signing_keys=(), now=NOW)
    with pytest.raises(AssertionError):
        jwt.user(
            ACCOUNT,
            ACCOUNT.key,
            name="x",
            account=ACCOUNT.key,
            permissions=Permissions(publish=(), subscribe=()),
            connects=jwt.LEAF,
            now=NOW,
        )
