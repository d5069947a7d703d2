"""For every stream and every way to cut it: bytes pass unchanged, events come once and whole."""

import itertools
import json

from hypothesis import given
from hypothesis import strategies as st

from opentela.router.sse import EVENT_BYTES_MAX, SseEvent, SseReader, StreamWatch

LINES = st.sampled_from(
    [
        *("data: a", "data:b", "data", "data: {}", "data: [DONE]", "event: x", "event", "id: 1"),
        *(": comment", "", "", "", "retry: 5", "unknown: y", "data: ä€🎉", " data: no", "data: :"),
    ]
)
ENDS = st.sampled_from(["\n", "\r\n", "\r"])
STREAMS = st.lists(st.tuples(LINES, ENDS)).map(
    lambda lines: "".join(line + end for line, end in lines).encode()
)


def naive(stream: bytes) -> list[SseEvent]:
    """Return the events of a whole stream, the simple way."""
    events: list[SseEvent] = []
    name, data = "", list[str]()
    text = stream.decode().replace("\r\n", "\n").replace("\r", "\n")
    for line in text.split("\n")[:-1]:
        field, _, value = line.partition(":")
        if not line:
            if data:
                events.append(SseEvent(name, "\n".join(data).encode()))
            name, data = "", []
        elif field == "data":
            data.append(value.removeprefix(" "))
        elif field == "event":
            name = value.removeprefix(" ")
    return events


def pieces(stream: bytes, cuts: list[int]) -> list[bytes]:
    """Return *stream* cut at *cuts*."""
    places = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    return [stream[start:end] for start, end in itertools.pairwise(places)]


@given(stream=STREAMS | st.binary(), cuts=st.lists(st.integers(0, 200)))
def test_bytes_pass_unchanged(stream: bytes, cuts: list[int]) -> None:
    """Also those of no stream at all."""
    reader = SseReader()
    passed = [reader.feed(piece)[0] for piece in pieces(stream, cuts)]
    assert b"".join(passed) + reader.held == stream
    watch = StreamWatch(ends_with_done=True)
    passed = [watch.feed(piece) for piece in pieces(stream, cuts)]
    assert b"".join(passed) + watch.end()[1] == stream


@given(stream=STREAMS, cuts=st.lists(st.integers(0, 200)))
def test_events_are_those_of_the_whole(stream: bytes, cuts: list[int]) -> None:
    """However it was cut."""
    reader = SseReader()
    events = [event for piece in pieces(stream, cuts) for event in reader.feed(piece)[1]]
    assert events + reader.end() == naive(stream)


@given(stream=STREAMS, cuts=st.lists(st.integers(0, 200)))
def test_what_has_passed_ends_where_an_event_may_begin(stream: bytes, cuts: list[int]) -> None:
    """An event of ours that follows is read as itself."""
    reader = SseReader()
    passed = b""
    for piece in pieces(stream, cuts):
        passed += reader.feed(piece)[0]
        assert naive(passed + b"data: ours\n\n")[-1:] == [SseEvent("", b"ours")]


WORDS = st.text(st.sampled_from('a"\\\n\u00e4{}\r\x7f '), max_size=4) | st.just("")
CHUNKS = st.builds(
    lambda words, index, field, finish: json.dumps(
        {"choices": [{"index": index, "delta": {field: words}, "finish_reason": finish}]},
        ensure_ascii=False,
    ),
    WORDS,
    st.integers(0, 1),
    st.sampled_from(["content", "content", "reasoning", "other"]),
    st.sampled_from([None, None, None, "stop", ""]),
)
EVENTS = CHUNKS | CHUNKS | st.sampled_from(["[DONE]", "{", '{"usage":{"completion_tokens":9}}'])
SPOKEN = st.lists(
    st.builds("{}{}{}".format, st.sampled_from(["data: ", "data:"]), EVENTS, st.just("\n\n"))
    | st.sampled_from(["data: x\n", ": ping\n\n", "event: y\n"])
).map(lambda events: [event.encode() for event in events])


@given(events=SPOKEN, cuts=st.none() | st.lists(st.integers(0, 600)))
def test_events_that_are_known_by_their_looks_say_what_they_say_when_read(
    events: list[bytes], cuts: list[int] | None
) -> None:
    """Whether they come one by one, as from most engines, or cut anywhere."""
    knows, reads = StreamWatch(ends_with_done=True), StreamWatch(ends_with_done=True)
    reads._lessons_left = 0
    for piece in events if cuts is None else pieces(b"".join(events), cuts):
        assert knows.feed(piece) == reads.feed(piece)
        assert (knows.usage, knows.has_said_last) == (reads.usage, reads.has_said_last)
    assert knows.end() == reads.end()
    assert knows.usage == reads.usage


@given(st.lists(st.sampled_from([b"data: ", b"x" * 1000, b"\n", b"\r", b"\n\n", b"data: y\n\n"])))
def test_nothing_is_held_without_limit(parts: list[bytes]) -> None:
    """And bytes pass also then."""
    reader = SseReader()
    big = b"x" * (EVENT_BYTES_MAX // 4)
    stream = []
    passed = b""
    for part in parts:
        for data in (part, big):
            stream.append(data)
            passed += reader.feed(data)[0]
            assert len(reader.held) <= EVENT_BYTES_MAX
    assert passed + reader.held == b"".join(stream)
