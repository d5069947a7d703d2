"""Whatever path an engine serves is forwarded by any method, for a model named in some way."""

import pytest
from tests.integration.router.conftest import Bench, MakeBench
from tests.integration.router.raw import get, post
from tests.integration.router.test_forwarding import ANSWER
from tests.unit.router.parts import record

from opentela.core.record import ModelOffer
from opentela.router.config import AttemptConfig
from opentela.testing.fake_link import EVENTS, JSON, FakeStream
from opentela.wire.frames import FailKind

FORM = (
    b'--XX\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n'
    b"Content-Type: audio/wav\r\n\r\n" + bytes(range(256)) * 40 + b"\r\n--XX\r\n"
    b'Content-Disposition: form-data; name="model"\r\n\r\nm\r\n--XX--\r\n'
)


def whole(stream: FakeStream) -> None:
    """Answer at once."""
    stream.answer(ANSWER)


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "PATCH"])
async def test_a_model_may_be_named_beside_the_body(bench: Bench, method: str) -> None:
    """By the query, which passes as it came, or by a header, which stays here."""
    bench.front.directory.apply([record(5, models=[ModelOffer(name="a/ä")])])
    bench.link.script = whole
    client = await bench.client()
    for path, headers in (
        ("/v1/responses/resp_1?model=a%2F%C3%A4&x=1", ()),
        ("/v1/responses/resp_1", ("X-Otela-Model: a/ä",)),
    ):
        asked = get(path, *headers, "Content-Length: 0", method=method)
        answer = await client.ask(asked)
        assert (answer.status, answer.body) == (200, ANSWER)
        stream = bench.link.streams[-1]
        assert (stream.method, stream.path_and_query, stream.body) == (method, path, b"")
        assert dict(stream.headers).keys() == {"x-request-id"}


async def test_the_only_model_need_not_be_named(bench: Bench) -> None:
    """As soon as there are two it must."""
    bench.link.script = whole
    client = await bench.client()
    assert (await client.ask(get("/v1/audio/voices"))).status == 200
    bench.front.directory.apply([record(5, models=[ModelOffer(name="other")])])
    refused = await client.ask(get("/v1/audio/voices"))
    assert (refused.status, refused.error["param"]) == (400, "model")
    assert "x-otela-model" in refused.error["message"]


async def test_a_head_alone_is_answered_by_one(bench: Bench) -> None:
    """The connection goes on, whatever the engine sent, and errors have no body either."""
    client = await bench.client()
    bench.link.script = whole
    client.send(get("/v1/audio/voices", method="HEAD"))
    status, headers = await client.head()
    assert (status, headers["x-otela-attempts"]) == (200, "1")
    assert bench.link.streams[-1].method == "HEAD"
    bench.link.script = lambda stream: stream.head(200, JSON).data(b"x" * (2 << 20)).end()
    client.send(get("/v1/audio/voices", method="HEAD"))
    assert (await client.head())[0] == 200
    client.send(get("/v1/audio/voices?model=none", method="HEAD"))
    status, headers = await client.head()
    assert (status, headers["content-type"]) == (404, "application/json")
    assert int(headers["content-length"]) > 0
    bench.link.script = whole
    assert (await client.ask(post())).body == ANSWER


async def test_a_head_of_a_stream_is_no_broken_stream(bench: Bench) -> None:
    """An engine that would stream says so, and that is all."""
    bench.link.script = lambda stream: stream.answer(b"", headers=EVENTS)
    client = await bench.client()
    client.send(get("/v1/audio/voices", method="HEAD"))
    status, headers = await client.head()
    assert (status, headers["content-type"]) == (200, EVENTS[0][1])


async def test_a_refused_head_has_no_body(bench: Bench) -> None:
    """What follows the head of its answer is the end of the connection."""
    client = await bench.client()
    client.send(get("/v1/x?model=m", f"X: {'x' * 70_000}", method="HEAD"))
    status, headers = await client.head()
    assert (status, headers["connection"]) == (431, "close")
    assert await client.ended() == b""


async def test_only_reading_is_tried_again_once_it_may_have_begun(make_bench: MakeBench) -> None:
    """A deletion could have been done."""
    bench = await make_bench(attempts=AttemptConfig(backoff_s=0.001))

    def fails_first(stream: FakeStream) -> None:
        if len(bench.link.streams) % 2:
            stream.fail(FailKind.ENGINE_LOST)
        else:
            stream.answer(ANSWER)

    bench.link.script = fails_first
    client = await bench.client()
    again = await client.ask(get("/v1/responses/r?model=m"))
    assert (again.status, again.headers["x-otela-attempts"]) == (200, "2")
    once = await client.ask(get("/v1/responses/r?model=m", method="DELETE"))
    assert (once.status, once.headers["x-otela-attempts"]) == (502, "1")


async def test_a_form_passes_byte_for_byte(bench: Bench) -> None:
    """Its model is read among its files."""
    bench.link.script = whole
    client = await bench.client()
    kind = "Content-Type: multipart/form-data; boundary=XX"
    answer = await client.ask(post(FORM, "/v1/audio/transcriptions", kind))
    assert answer.status == 200
    stream = bench.link.streams[-1]
    assert stream.body == FORM
    assert dict(stream.headers)["content-type"] == "multipart/form-data; boundary=XX"
    bad = await client.ask(post(FORM, "/v1/audio/transcriptions", kind + "Y"))
    assert (bad.status, bad.error["type"]) == (400, "invalid_request_error")
    none = await client.ask(post(FORM.replace(b'"model"', b'"other"'), "/v1/x", kind))
    assert (none.status, none.error["param"]) == (400, "model")


async def test_an_engine_says_itself_what_it_does_not_serve(bench: Bench) -> None:
    """Its 404 passes."""
    bench.link.script = lambda stream: stream.answer(b'{"detail":"Not Found"}', status=404)
    answer = await (await bench.client()).ask(post(b'{"model":"m"}', "/v1/nothing"))
    assert (answer.status, answer.body) == (404, b'{"detail":"Not Found"}')


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/v1/chat/completions", "POST, OPTIONS"),
        ("DELETE", "/v1/models", "GET, HEAD, OPTIONS"),
        ("TRACE", "/v1/anything", "DELETE, GET, HEAD, PATCH, POST, PUT, OPTIONS"),
    ],
)
async def test_another_method_is_a_405_that_names_the_right_ones(
    bench: Bench, method: str, path: str, allowed: str
) -> None:
    """Of known paths and of those of engines."""
    answer = await (await bench.client()).ask(get(path, method=method))
    assert (answer.status, answer.error["code"]) == (405, "method_not_allowed")
    assert answer.headers["allow"] == allowed
    assert bench.link.streams == []
