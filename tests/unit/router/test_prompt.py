"""How a prompt begins is read from its body, whatever that holds."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opentela.router.prompt import LEAD_BYTES, PARSED_BYTES_MAX, keys_of


def chat(*messages: tuple[str, str], **more: object) -> bytes:
    """Return a chat."""
    said = [{"role": role, "content": content} for role, content in messages]
    return json.dumps({"model": "m", "messages": said, **more}).encode()


SYSTEM = ("system", "be brief")
LONG = ("system", "be brief " * 400)


def test_turns_of_one_conversation_have_one_key() -> None:
    """Whatever follows the user's first words, and whatever else is asked."""
    first = chat(SYSTEM, ("user", "hello"))
    later = chat(SYSTEM, ("user", "hello"), ("assistant", "hi"), ("user", "more"), stream=True)
    assert keys_of(first) == keys_of(later)
    assert keys_of(first) != keys_of(chat(SYSTEM, ("user", "good day")))


def test_a_long_beginning_has_a_key_of_its_own() -> None:
    """Conversations under one system prompt share the lead and differ as wholes."""
    one, other = keys_of(chat(LONG, ("user", "a"))), keys_of(chat(LONG, ("user", "b")))
    assert one.lead == other.lead
    assert one.whole != other.whole
    short = keys_of(chat(SYSTEM, ("user", "a")))
    assert short.lead == short.whole


def test_texts_are_known_by_their_first_part() -> None:
    """A completion's prompt that grows keeps its key once it is long enough."""
    text = "x" * LEAD_BYTES
    bodies = [json.dumps({"model": "m", "prompt": text + more}).encode() for more in ("", "y", "z")]
    assert len({keys_of(body) for body in bodies}) == 1
    assert keys_of(b'{"prompt":"a"}') != keys_of(b'{"prompt":"b"}')
    assert keys_of(b'{"input":"a"}') != keys_of(b'{"input":"b"}')


def test_responses_are_conversations_as_well() -> None:
    """Their messages are called input."""
    one = {"model": "m", "input": [{"role": "user", "content": "a"}]}
    more = {**one, "input": [*one["input"], {"role": "assistant", "content": "b"}]}
    assert keys_of(json.dumps(one).encode()) == keys_of(json.dumps(more).encode())


def test_the_key_is_the_same_in_every_process() -> None:
    """A number that routers of another version would find, too."""
    assert keys_of(b'{"messages":[{"role":"user","content":"hello"}]}').whole == KNOWN


KNOWN = 14277457639012788556


def test_large_bodies_are_not_parsed() -> None:
    """What counts is where the messages begin."""
    picture = "p" * PARSED_BYTES_MAX
    one = chat(("user", picture + "a"), temperature=1)
    other = chat(("user", picture + "b"))
    assert keys_of(one).lead == keys_of(other).lead
    assert keys_of(b"x" * (PARSED_BYTES_MAX + 1)) == keys_of(b"x" * (PARSED_BYTES_MAX + 2))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        b'{"messages":null}',
        b'{"messages":[1,"x"]}',
        b'{"messages":[{"role":7}]}',
        b'{"messages":{}}',
        b'{"prompt":[1,2,3]}',
        b"[" * 100_000,
    ],
)
def test_whatever_stands_there_has_a_key(body: bytes) -> None:
    """Engines will say what is wrong with it."""
    assert keys_of(body) == keys_of(body)


@given(st.binary(max_size=200))
def test_no_body_is_too_odd(body: bytes) -> None:
    """Neither are random bytes."""
    keys_of(b'{"messages":' + body)
