"""Reading a JWT only to explain it: anything may stand there."""

import pytest

from opentela.mesh import jwt_reader


@pytest.mark.parametrize("text", ["", "a", "a.b", "a.b.c", "a.é.c", "a.bm90IGpzb24.c", "a.W10.c"])
def test_what_is_no_jwt_says_nothing(text: str) -> None:
    """And raises nothing."""
    assert jwt_reader.claims(text) == {}
    assert jwt_reader.expires_at(text) == 0


def test_an_end_that_is_no_number_is_none() -> None:
    """{"exp": "soon"}."""
    assert jwt_reader.expires_at("a.eyJleHAiOiAic29vbiJ9.c") == 0
