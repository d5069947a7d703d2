"""Events that differ in nothing but their words are known by their bytes, and no others are."""

import pytest

from opentela.router.likeness import Likeness, likeness_of

EVENT = b'data: {"id":"7","choices":[{"index":0,"delta":{"content":"%b"},"finish_reason":%b}]}\n\n'


def like(words: bytes = b" the") -> Likeness:
    """Return what an event is like that brings *words*."""
    found = likeness_of(EVENT % (words, b"null"))
    assert found is not None
    return found


@pytest.mark.parametrize(
    "words", [b"a", " Ätna 🎉".encode(), b"\\n\\n", rb"say \"no\" \\", b" " * 5000, b"\x7f", b"{}"]
)
def test_an_event_with_other_words_is_alike(words: bytes) -> None:
    """Whatever a JSON string may hold."""
    event = EVENT % (words, b"null")
    assert like().holds(event)
    assert like().frames(event)
    assert likeness_of(event) is not None


@pytest.mark.parametrize(
    "event",
    [
        EVENT % (b"", b"null"),
        EVENT % (b"a", b'"stop"'),
        EVENT % (b'a","x":"b', b"null"),
        EVENT % (b"a\\", b"null"),
        EVENT % (b"\\q", b"null"),
        EVENT % (b"\\u0041", b"null"),
        EVENT % (b"a\nb", b"null"),
        EVENT % (b"a\rb", b"null"),
        EVENT % (b"a\tb", b"null"),
        (EVENT % (b"a", b"null"))[:-1],
        (EVENT % (b"a", b"null"))[1:],
        EVENT % (b"a", b"null") * 2,
        EVENT[: EVENT.index(b"%b")],
        b"data: [DONE]\n\n",
        b"",
    ],
)
def test_an_event_that_may_say_more_or_less_is_not(event: bytes) -> None:
    """It is read then, which costs time and is never wrong."""
    assert not like().holds(event)


@pytest.mark.parametrize(
    "event",
    [
        b"data: [DONE]\n\n",
        b"data: {}\n\n",
        b"data: nonsense\n\n",
        b'data: {"choices":[{"text":"a"}]}\r\n\r\n',
        b'data: {"choices":\r[{"text":"a"}]}\n\n',
        b'event: x\ndata: {"choices":[{"text":"a"}]}\n\n',
        b'data: {"choices":[{"text":"a"}]}\n\ndata: {"choices":[{"text":"b"}]}\n\n',
        b'data: {"choices":[{"text":"a","finish_reason":"stop"}]}\n\n',
        b'data: {"choices":[{"text":"a","logprobs":{"tokens":["a"]}}]}\n\n',
        b'data: {"choices":[{"text":"a"}],"usage":{"completion_tokens":1}}\n\n',
        b'data: {"choices":[{"text":"x","text":"a\\"}]}\n\n',
    ],
)
def test_nothing_is_like_an_event_that_says_more_than_words(event: bytes) -> None:
    """Or that says the same words elsewhere, too: then there is nothing to go by."""
    assert likeness_of(event) is None


def test_a_key_that_stands_twice_does_not_mislead() -> None:
    """The last of both counts for who reads it."""
    found = likeness_of(b'data: {"choices":[{"text":"x","text":"a"}]}\n\n')
    assert found is not None
    assert found.holds(b'data: {"choices":[{"text":"x","text":"b"}]}\n\n')
    assert not found.holds(b'data: {"choices":[{"text":"b","text":"a"}]}\n\n')
