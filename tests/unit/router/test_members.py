"""The members of an object are found whatever stands in it, or it is said why they cannot be."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opentela.core.pieces import whole
from opentela.router.members import (
    FIELDS_MAX,
    NAME_CHARS_MAX,
    MembersError,
    change,
    edited,
    members,
    removal,
)


@pytest.mark.parametrize(
    ("body", "left"),
    [
        (b'{"otela":{}}', b"{}"),
        (b'{ "otela" : {"a":[1,{"b":"}"}]} }', b"{ }"),
        (b'{"otela":1,"a":2}', b'{"a":2}'),
        (b'{"a":"\\"otela\\":,{}", "otela": "x,\\\\" }', b'{"a":"\\"otela\\":,{}"}'),
        (b'{"a":{"otela":1},\n "otela":[1],\n "b":[{"otela":3}]}',
         b'{"a":{"otela":1},\n "b":[{"otela":3}]}'),
        (b'{"a":1,"\\u006ftela":2}', b'{"a":1}'),
        (b'{"a":1}', b'{"a":1}'),
    ],
)  # fmt: skip
def test_a_member_is_taken_out_and_nothing_else(body: bytes, left: bytes) -> None:
    """Wherever it stands, and whatever looks like it."""
    assert edited(body, removal(members(body), "otela")) == left


NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)  # fmt: skip


@given(
    others=st.dictionaries(st.text(max_size=6), JSON, max_size=6),
    value=JSON,
    at=st.integers(0, 6),
    indent=st.sampled_from([None, 0, 3]),
    ascii_only=st.booleans(),
)
def test_any_object_survives_surgery(
    others: dict[str, Any], value: Any, at: int, indent: int | None, *, ascii_only: bool
) -> None:
    """What is left reads as if the member had never been there, or had another value."""
    others.pop("otela", None)
    items = list(others.items())
    items.insert(at, ("otela", value))
    body = json.dumps(dict(items), indent=indent, ensure_ascii=ascii_only).encode(
        "utf-8", "surrogatepass"
    )
    found = members(body)
    left, new = (
        edited(body, removal(found, "otela")),
        edited(body, change(found, "otela", b'"new"')),
    )
    assert json.loads(whole(left).decode("utf-8", "surrogatepass")) == others
    changed = json.loads(whole(new).decode("utf-8", "surrogatepass"))
    assert changed == {**others, "otela": "new"}
    assert list(changed) == [name for name, _ in items]


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (b'{"a":1,"a":1}', "a"),
        (b'{"a":12,"a":1}', "a"),
        (b'{"a":1,"b":2,"a":12}', "a"),
        (b'{"a":[1],"b":2,"\\u0061":[2]}', "a"),
        (b'{"b":{"a":1,"a":2},"a":"x","a":"x y"}', "a"),
    ],
)
def test_a_name_that_stands_there_twice_is_told(body: bytes, name: str) -> None:
    """Also where the first value begins as the last one does."""
    with pytest.raises(MembersError, match="more than once") as error:
        members(body)
    assert error.value.name == name


@given(names=st.lists(st.sampled_from("abc"), max_size=5), values=st.data())
def test_members_are_found_in_order_or_said_to_be_repeated(
    names: list[str], values: st.DataObject
) -> None:
    """Nothing else can be the matter with an object of few members."""
    drawn = [values.draw(st.sampled_from(["1", "12", '"x"', '"x y"', "[1]", "{}"])) for _ in names]
    pairs = [f'"{name}":{value}' for name, value in zip(names, drawn, strict=True)]
    body = ("{" + ",".join(pairs) + "}").encode()
    if len(set(names)) < len(names):
        with pytest.raises(MembersError, match="more than once"):
            members(body)
    else:
        found = members(body)
        assert [one.name for one in found] == names
        assert [body[one.value_at : one.value_end].decode() for one in found] == drawn


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b'{"%b":1}' % (b"a" * (NAME_CHARS_MAX + 1)), "longer than"),
        (b'{"a":[%b0]}' % (b'{"":0},' * (FIELDS_MAX + 1)), "more than 200000 fields"),
        (b'["a"]', "not a JSON object"),
        (b'{"a":', "not a JSON object"),
        (b'{"a":' + b"[" * 100_000, "not a JSON object"),
    ],
)
def test_what_cannot_be_told_soon_is_refused(body: bytes, why: str) -> None:
    """By words for whoever sent it."""
    with pytest.raises(MembersError, match=why):
        members(body)


def test_an_object_of_nothing_has_no_members() -> None:
    """Whatever blanks are in it."""
    assert members(b" {\n} ") == []
