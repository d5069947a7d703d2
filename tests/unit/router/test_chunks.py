"""What chunks of completion streams and whole answers say is read as far as it is needed."""

import pytest

from opentela.router.chunks import TOKENS_MAX, Usage, read_chunk, usage_of


def test_what_is_no_chunk_is_none() -> None:
    """Judging an engine's words is not the router's office."""
    for data in (b"", b"[]", b"{", b'{"choices":7}', b"\xff", b"[" * 100_000):
        assert read_chunk(data) is None


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b'{"choices":[{"index":3,"delta":{"content":"hi"},"finish_reason":null}]}', b'"hi"'),
        (b'{"choices":[{"text":"hi","finish_reason":""}],"usage":null}', b'"hi"'),
        (b'{"choices":[{"delta":{"reasoning_content":"hm","content":null}}]}', b'"hm"'),
        (b'{"choices":[{"delta":{"reasoning":"hm","content":""}}]}', b'"hm"'),
        (b'{"choices":[{"delta":{"content":""}}]}', b""),
        (b'{"choices":[{"delta":{"content":"hi","reasoning":"hm"}}]}', b""),
        (b'{"choices":[{"delta":{"content":["hi"]}}]}', b""),
        (b'{"choices":[{"delta":{"content":"hi","tool_calls":[{}]}}]}', b""),
        (b'{"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}]}', b""),
        (b'{"choices":[{"text":"a"},{"text":"b"}]}', b""),
        (b'{"choices":[{"text":"a"}],"usage":{"prompt_tokens":1}}', b""),
        (b'{"choices":[{"text":"a"}],"error":{}}', b""),
        (b'{"choices":[{"text":"a"}],"type":"x.delta"}', b""),
        (b'{"choices":[{"text":"a"}],"response":{}}', b""),
        (b'{"choices":[]}', b""),
        (b"{}", b""),
    ],
)
def test_words_are_told_only_where_nothing_else_is_said(data: bytes, words: bytes) -> None:
    """As the engine wrote them, quotes and all."""
    chunk = read_chunk(data)
    assert chunk is not None
    assert chunk.words == words


def test_what_a_chunk_says_besides_words() -> None:
    """Parts and ends of streams that have types, counts, and errors."""
    part = read_chunk(b'{"type":"response.output_text.delta"}')
    last = read_chunk(b'{"type":"response.completed","response":{"usage":{"input_tokens":4}}}')
    error = read_chunk(b'{"error":"no"}')
    assert part
    assert (part.is_part, part.is_last, part.has_error) == (True, False, False)
    assert last
    assert (last.is_part, last.is_last, last.counted) == (False, True, Usage(tokens_in=4))
    assert error
    assert (error.has_error, error.counted) == (True, None)


def test_counts_that_nobody_can_have_generated_are_not_believed() -> None:
    """They would break the books."""
    assert usage_of(b'{"usage":{"prompt_tokens":%d}}' % TOKENS_MAX) == Usage(tokens_in=TOKENS_MAX)
    assert usage_of(b'{"usage":{"prompt_tokens":%d}}' % (TOKENS_MAX + 1)) == Usage()
