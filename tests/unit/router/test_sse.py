"""Streams are understood as they pass, and pass unchanged however they are cut."""

import itertools
import json
import time

import pytest

from opentela.router import sse
from opentela.router.chunks import Usage, usage_of
from opentela.router.likeness import Likeness, likeness_of
from opentela.router.sse import LESSONS_MAX, SseEvent, SseReader, StreamEnd, StreamWatch


def chunk(index: int = 0, finish: str | None = None, content: str = "") -> bytes:
    """Return one event of a chat stream."""
    choice = {"index": index, "delta": {"content": content}, "finish_reason": finish}
    return b"data: " + json.dumps({"choices": [choice]}, ensure_ascii=False).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"
USAGE = (
    b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":5,'
    b'"prompt_tokens_details":{"cached_tokens":4}}}\n\n'
)


def read_all(data: bytes, *cuts: int) -> tuple[bytes, list[SseEvent]]:
    """Feed *data* cut at *cuts*; return what passed and all events."""
    reader = SseReader()
    passed, events = b"", []
    places = [0, *cuts, len(data)]
    for start, end in itertools.pairwise(places):
        some, found = reader.feed(data[start:end])
        passed += some
        events += found
    return passed + reader.held, events + reader.end()


def watched(*pieces: bytes, ends_with_done: bool = True) -> tuple[StreamWatch, bytes, StreamEnd]:
    """Return a watch that saw *pieces* and the end, what passed, and how it ended."""
    watch = StreamWatch(ends_with_done=ends_with_done)
    passed = b"".join(watch.feed(piece) for piece in pieces)
    end, held = watch.end()
    return watch, passed + held, end


STREAM = (
    b'\xef\xbb\xbfdata: {"a":1}\n\n'
    b": a comment\n"
    b"event: named\r\ndata: two\r\ndata: lines\r\n\r\n"
    b"id: 7\rretry: 10\rdata\r\r"
    b"data:no blank\ndata:  two blanks\n\n"
    b"event: nothing to dispatch\n\n"
    b"data: \xc3\xa4 \xe2\x82\xac \xf0\x9f\x8e\x89\n\n"
    b"data: [DONE]\n\n"
)
EVENTS = [
    SseEvent("", b'{"a":1}'),
    SseEvent("named", b"two\nlines"),
    SseEvent("", b""),
    SseEvent("", b"no blank\n two blanks"),
    SseEvent("", "ä € 🎉".encode()),
    SseEvent("", b"[DONE]"),
]


def test_events_are_found_at_once() -> None:
    """Comments, names, ids, CR, LF and CRLF, several data lines, a BOM."""
    assert read_all(STREAM) == (STREAM, EVENTS)


@pytest.mark.parametrize("cut", range(1, len(STREAM)))
def test_events_are_found_whole_and_once_for_every_cut(cut: int) -> None:
    """Bytes pass unchanged wherever the engine's TCP cut them."""
    assert read_all(STREAM, cut) == (STREAM, EVENTS)


def test_events_are_found_byte_by_byte() -> None:
    """The worst cut of all."""
    assert read_all(STREAM, *range(1, len(STREAM))) == (STREAM, EVENTS)


def test_half_an_event_is_held_back_and_a_comment_is_not() -> None:
    """A stream may break any time, and keep-alive comments must not wait."""
    reader = SseReader()
    assert reader.feed(b": ping\n") == (b": ping\n", [])
    assert reader.feed(b"data: a\n") == (b"", [])
    assert reader.held == b"data: a\n"
    assert reader.feed(b"data: b") == (b"", [])
    assert reader.held == b"data: a\ndata: b"
    assert reader.feed(b"\n\n: x\nevent: n\n") == (
        b"data: a\ndata: b\n\n: x\n",
        [SseEvent("", b"a\nb")],
    )
    assert reader.held == b"event: n\n"


def test_a_last_blank_line_of_cr_ends_its_event_at_the_end() -> None:
    """Whether LF follows is known only then."""
    reader = SseReader()
    assert reader.feed(b"data: a\r\r") == (b"", [])
    assert reader.end() == [SseEvent("", b"a")]


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("step", [1, 7, 30])
def test_an_oversized_event_passes_unread_and_the_next_is_read(
    monkeypatch: pytest.MonkeyPatch, line_end: bytes, step: int
) -> None:
    """No event may fill the memory, and none may blind the reader for good."""
    monkeypatch.setattr(sse, "EVENT_BYTES_MAX", 32)
    data = (
        b"data: small" + line_end * 2 + b"data: " + b"x" * 60 + line_end + b"data: more" + line_end
    ) + (line_end + b"data: next" + line_end * 2 + b": end\n")
    passed, events = read_all(data, *range(step, len(data), step))
    assert passed == data
    assert events == [SseEvent("", b"small"), SseEvent("", b"next")]


def test_an_oversized_event_is_not_held_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is past the limit goes on as it comes."""
    monkeypatch.setattr(sse, "EVENT_BYTES_MAX", 8)
    reader = SseReader()
    assert reader.feed(b"data: 1\n") == (b"", [])
    assert reader.feed(b"data: 2") == (b"data: 1\ndata: 2", [])
    assert reader.feed(b"345\n") == (b"345\n", [])
    assert reader.feed(b"678") == (b"678", [])
    assert reader.held == b""
    assert reader.oversized == 1


def test_a_whole_stream_is_complete() -> None:
    """Every choice finished, and the stream said that it ends."""
    _, passed, end = watched(chunk(content="hi"), chunk(finish="stop"), DONE)
    assert end is StreamEnd.COMPLETE
    assert passed == chunk(content="hi") + chunk(finish="stop") + DONE


def test_a_choice_that_never_finished_is_seen() -> None:
    """Nothing is invented for it: the stream passes and is known as incomplete."""
    _, passed, end = watched(chunk(0), chunk(1), chunk(0, "tool_calls"), DONE)
    assert end is StreamEnd.INCOMPLETE
    assert passed == chunk(0) + chunk(1) + chunk(0, "tool_calls") + DONE


def test_an_empty_reason_to_finish_is_none() -> None:
    """Some engines write it in every chunk; a stream that ends there was cut off."""
    assert watched(chunk(0, ""))[2] is StreamEnd.CUT_OFF
    assert watched(chunk(0, ""), chunk(0, "stop"), DONE)[2] is StreamEnd.COMPLETE
    assert watched(chunk(0, ""), DONE)[2] is StreamEnd.INCOMPLETE


def test_a_stream_without_an_end_is_cut_off() -> None:
    """TCP may end well where the engine died."""
    assert watched(chunk(content="hi"))[2] is StreamEnd.CUT_OFF
    assert watched(b": only a comment\n")[2] is StreamEnd.CUT_OFF


def test_a_stream_whose_choices_finished_is_complete_without_done() -> None:
    """Some engines leave the last line out."""
    assert watched(chunk(finish="length"))[2] is StreamEnd.COMPLETE


def test_an_end_in_cr_is_an_end() -> None:
    """Whether LF follows the last CR is known only when nothing follows."""
    assert watched(b"data: [DONE]\r\r")[2] is StreamEnd.COMPLETE


def test_half_an_event_at_the_end_is_held_back() -> None:
    """It is the caller's to drop."""
    watch = StreamWatch(ends_with_done=True)
    assert watch.feed(chunk() + b'data: {"cho') == chunk()
    assert watch.end() == (StreamEnd.CUT_OFF, b'data: {"cho')


def test_other_kinds_of_streams_end_in_ways_of_their_own() -> None:
    """Without choices and without a promise of `[DONE]` nothing can be missing."""
    assert watched(b"data: anything\n\n", ends_with_done=False)[2] is StreamEnd.COMPLETE
    assert watched(chunk(), ends_with_done=False)[2] is StreamEnd.CUT_OFF


def test_an_unread_event_leaves_the_end_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have held the reason to finish."""
    monkeypatch.setattr(sse, "EVENT_BYTES_MAX", 16)
    long = chunk(content="long enough")
    assert watched(long[:40], long[40:])[2] is StreamEnd.COMPLETE


@pytest.mark.parametrize(
    "kind", ["response.completed", "response.incomplete", "response.failed", "message_stop"]
)
def test_typed_streams_end_with_their_last_type(kind: str) -> None:
    """Responses and messages have no `[DONE]`."""
    data = b'data: {"type":"%b"}\n\n' % kind.encode()
    assert watched(data, ends_with_done=False)[2] is StreamEnd.COMPLETE


def test_an_error_within_the_stream_is_seen() -> None:
    """Also when the engine then says that it is done."""
    error = b'data: {"error":{"message":"out of memory"}}\n\n'
    assert watched(chunk(), error, DONE)[2] is StreamEnd.FAILED
    assert watched(b'data: {"error":null,"choices":[]}\n\n', DONE)[2] is StreamEnd.COMPLETE


def test_usage_comes_from_the_chunk_without_choices() -> None:
    """Nobody looks for a first choice in it."""
    watch, passed, end = watched(chunk(finish="stop"), USAGE, DONE)
    assert watch.usage == Usage(tokens_in=7, tokens_cached=4, tokens_out=5)
    assert end is StreamEnd.COMPLETE
    assert USAGE in passed


@pytest.mark.parametrize(
    ("data", "parts"),
    [
        (chunk() + chunk(content="a") + chunk(content="b") + chunk(finish="stop"), 2),
        (chunk(content="a") + chunk(finish="length", content="b"), 2),
        (b'data: {"choices":[{"text":"a"},{"index":1,"text":"b"}]}\n\n', 2),
        (b'data: {"choices":[{"text":""},{"index":1,"text":null}]}\n\n', 0),
        (b'data: {"choices":[{"delta":{"role":"assistant","content":null}}]}\n\n', 0),
        (b'data: {"choices":[{"delta":{"reasoning_content":"hm"}}]}\n\n', 1),
        (b'data: {"choices":[{"delta":{"reasoning":"hm"}}]}\n\n', 1),
        (b'data: {"choices":[{"delta":{"tool_calls":[{"index":0}]}}]}\n\n', 1),
        (b'data: {"choices":[{"delta":{"tool_calls":[]}}]}\n\n', 0),
        (b'data: {"type":"response.output_text.delta","delta":"a"}\n\n', 1),
        (b'data: {"type":"content_block_delta","delta":{"text":"a"}}\n\n', 1),
        (b'data: {"type":"response.created"}\n\n', 0),
    ],
)
def test_parts_are_counted_until_the_engine_tells(data: bytes, parts: int) -> None:
    """A client may leave before that, and most do not ask for it."""
    watch = StreamWatch(ends_with_done=True)
    watch.feed(data)
    assert watch.usage == (Usage(tokens_out=parts) if parts else None)
    watch.feed(USAGE)
    assert watch.usage == Usage(tokens_in=7, tokens_cached=4, tokens_out=5)


def test_who_asks_for_running_usage_is_counted_exactly_when_it_leaves() -> None:
    """A part may hold several tokens; what an engine says of the prompt alone hides no part."""
    watch = StreamWatch(ends_with_done=True)
    part = b'data: {"choices":[{"index":0,"delta":{"content":"abc"}}],"usage":'
    watch.feed(part + b'{"prompt_tokens":7,"completion_tokens":0}}\n\n')
    assert watch.usage == Usage(tokens_in=7, tokens_out=1)
    watch.feed(part + b'{"prompt_tokens":7,"completion_tokens":8}}\n\n')
    assert watch.usage == Usage(tokens_in=7, tokens_out=8)


def test_usage_comes_from_responses_too() -> None:
    """They name input and output, one level deeper."""
    data = (
        b'data: {"type":"response.completed","response":{"usage":{"input_tokens":3,'
        b'"output_tokens":2,"input_tokens_details":{"cached_tokens":1}}}}\n\n'
    )
    watch, _, _ = watched(data, ends_with_done=False)
    assert watch.usage == Usage(tokens_in=3, tokens_cached=1, tokens_out=2)


@pytest.mark.parametrize(
    "data",
    [
        b"data: not json\n\n",
        b"data: 3\n\n",
        b'data: {"choices":3}\n\n',
        b'data: {"choices":null,"usage":null}\n\n',
        b'data: {"choices":[{"index":"x"}]}\n\n',
        b"data: \xff\xfe\n\n",
        b"data: " + b"[" * 5000 + b"\n\n",
    ],
)
def test_what_is_not_understood_passes(data: bytes) -> None:
    """Judging an engine's words is not the router's office."""
    _, passed, end = watched(data, chunk(finish="stop"), DONE)
    assert passed == data + chunk(finish="stop") + DONE
    assert end is StreamEnd.COMPLETE


def test_choices_beyond_the_limit_are_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream cannot fill the memory with numbers of choices."""
    monkeypatch.setattr(sse, "CHOICES_MAX", 2)
    assert watched(*(chunk(n) for n in range(5)), chunk(0, "stop"), chunk(1, "stop"), DONE)[2] is (
        StreamEnd.COMPLETE
    )


@pytest.mark.parametrize(
    ("answer", "usage"),
    [
        (b'{"usage":{"prompt_tokens":3,"completion_tokens":2}}', Usage(tokens_in=3, tokens_out=2)),
        (b'{"usage":{"prompt_tokens":3,"total_tokens":3}}', Usage(tokens_in=3)),
        (b'{"usage":null}', None),
        (b'{"choices":[]}', None),
        (b'not json, but "usage"', None),
        (b'{"usage":7}', None),
        (b'{"usage":' + b"[" * 100_000, None),
    ],
)
def test_usage_of_a_whole_answer(answer: bytes, usage: Usage | None) -> None:
    """Only an answer that mentions usage is parsed at all."""
    assert usage_of(answer) == usage


def test_an_event_that_looks_known_is_read_as_a_part_of_one_that_has_begun() -> None:
    """It is not whole before it ends, and what it says is not what it would say alone."""
    watch = StreamWatch(ends_with_done=True)
    words = chunk(content="a")
    assert [watch.feed(words), watch.feed(words)] == [words, words]
    assert watch.feed(b"data: [\n") == b""
    assert watch.feed(words) == b"data: [\n" + words
    assert watch.feed(words) == words
    assert watch.usage == Usage(tokens_out=3)


def test_few_events_are_looked_at_for_what_others_may_be_like(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One, where they are alike; some at the most, where they never are."""
    looked_at: list[bytes] = []

    def noting(data: bytes) -> Likeness | None:
        looked_at.append(data)
        return likeness_of(data)

    monkeypatch.setattr(sse, "likeness_of", noting)
    watched(*(chunk(content=words) for words in ("a", "b", "", '"', "\n", "\t", "c")))
    assert looked_at == [chunk(content="a")]
    looked_at.clear()
    watched(*(chunk(number, content="a") for number in range(100)))
    assert len(looked_at) == LESSONS_MAX


def test_a_long_line_in_small_pieces_is_looked_at_once() -> None:
    """An engine that sends one byte at a time must not hold up the streams of all others."""
    line = b"data: " + b"x" * (256 * 1024) + b"\n\n"
    reader = SseReader()
    began = time.process_time()
    found = [reader.feed(line[at : at + 1]) for at in range(len(line))]
    assert time.process_time() - began < 2.0
    assert found[-1] == (line, [SseEvent("", line[6:-2])])
    assert all(passed == b"" for passed, _ in found[:-1])


def test_a_line_that_grows_beyond_the_limit_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Held back is only so much, however small the pieces are."""
    monkeypatch.setattr(sse, "EVENT_BYTES_MAX", 10)
    reader = SseReader()
    passed = b"".join(reader.feed(b"x")[0] for _ in range(25))
    assert passed == b"x" * 25
    assert reader.oversized == 1


@pytest.mark.parametrize("count", [-1, -5, 10**9 + 1, 2**63, 2**64, 10**40])
def test_a_count_that_none_can_be_is_not_believed(count: int) -> None:
    """Counters take no negative numbers and messages none beyond 64 bits: both ended the router."""
    told = b'"usage":{"prompt_tokens":%d,"completion_tokens":%d,' % (count, count)
    told += b'"prompt_tokens_details":{"cached_tokens":%d}}' % count
    assert usage_of(b"{" + told + b"}") == Usage()
    watch, _, _ = watched(b'data: {"choices":[],' + told + b"}\n\n", DONE)
    assert watch.usage == Usage()
