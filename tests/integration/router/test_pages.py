"""What is on the API's port beside the engines' paths."""

import pytest
from structlog.testing import capture_logs
from tests.integration.router.conftest import Bench, MakeBench
from tests.integration.router.raw import get, post
from tests.integration.router.test_forwarding import ANSWER
from tests.unit.router.parts import record

from opentela.core.record import Lifecycle, ModelOffer
from opentela.router.config import ListenConfig
from opentela.telemetry import metrics

QWEN = ModelOffer(name="Qwen/Qwen3-8B", aliases=("qwen",), context_max=8192)


async def test_models_are_the_live_union(bench: Bench) -> None:
    """With what OpenAI's list does not say beside it."""
    bench.front.directory.apply([record(5, models=[QWEN], site="jura")])
    answer = await (await bench.client()).ask(get("/v1/models"))
    assert answer.json["object"] == "list"
    assert [one["id"] for one in answer.json["data"]] == ["Qwen/Qwen3-8B", "m"]
    qwen, m = answer.json["data"]
    assert qwen["max_model_len"] == qwen["otela"]["context_max"] == 8192
    assert (m["otela"]["sessions"], m["otela"]["sites"]) == (3, ["alps"])


@pytest.mark.parametrize("name", ["Qwen/Qwen3-8B", "Qwen%2FQwen3-8B", "qwen"])
async def test_a_model_is_found_by_any_of_its_names(bench: Bench, name: str) -> None:
    """Slashes raw or encoded."""
    bench.front.directory.apply([record(5, models=[QWEN])])
    answer = await (await bench.client()).ask(get(f"/v1/models/{name}"))
    assert answer.status == 200
    assert answer.json["otela"]["aliases"] == ["qwen"]


async def test_a_model_that_is_not_there_is_404_or_503(bench: Bench) -> None:
    """As for requests."""
    unknown = await (await bench.client()).ask(get("/v1/models/a/b"))
    assert (unknown.status, unknown.error["code"]) == (404, "model_not_found")
    gone = record(6, models=[QWEN], lifecycle=Lifecycle.LEFT)
    bench.front.directory.apply([gone])
    absent = await (await bench.client()).ask(get("/v1/models/Qwen/Qwen3-8B"))
    assert (absent.status, absent.error["code"]) == (503, "model_unavailable")
    assert "retry-after" in absent.headers


async def test_liveness_and_readiness_are_told(bench: Bench) -> None:
    """Readiness with its reason."""
    assert (await (await bench.client()).ask(get("/livez"))).status == 200
    starting = await (await bench.client()).ask(get("/readyz"))
    assert (starting.status, starting.json["reason"]) == (503, "starting")
    bench.front.set_ready(flag=True, reason="")
    assert (await (await bench.client()).ask(get("/readyz"))).status == 200


async def test_a_preflight_needs_no_credentials(bench: Bench) -> None:
    """On any path."""
    asked = (
        "Origin: https://app.example",
        "Access-Control-Request-Method: POST",
        "Access-Control-Request-Headers: authorization, content-type",
    )
    for path in ("/v1/chat/completions", "/v1/models", "/anything"):
        answer = await (await bench.client()).ask(get(path, *asked, method="OPTIONS"))
        assert answer.status == 204
        assert answer.headers["access-control-allow-origin"] == "*"
        assert answer.headers["access-control-allow-headers"] == "authorization, content-type"
        assert "POST" in answer.headers["access-control-allow-methods"]


async def test_pages_can_be_read_by_pages(bench: Bench) -> None:
    """Errors too."""
    for path in ("/v1/models", "/v1/models/none", "/nothing"):
        answer = await (await bench.client()).ask(get(path, "Origin: https://app.example"))
        assert answer.headers["access-control-allow-origin"] == "*"
        assert "x-otela-session" in answer.headers["access-control-expose-headers"]


async def test_a_page_is_told_that_it_lacks_credentials(make_bench: MakeBench) -> None:
    """A 401 without the cross-origin headers would be a riddle to it; so would a 405."""
    bench = await make_bench(metrics_token=b"s3cret")
    asked = [
        (get("/metrics", "Origin: https://app.example"), 401),
        (get("/v1/models", "Origin: https://app.example", method="DELETE"), 405),
    ]
    for request, status in asked:
        answer = await (await bench.client()).ask(request)
        assert (answer.status, bool(answer.error["message"])) == (status, True)
        assert answer.headers["access-control-allow-origin"] == "*"


@pytest.mark.parametrize(
    ("token", "given", "status"),
    [
        (None, None, 404),
        (b"", None, 200),
        (b"s3cret", None, 401),
        (b"s3cret", "wrong", 401),
        (b"s3cret", "s3cret", 200),
    ],
)
async def test_metrics_are_for_who_may_read_them(
    make_bench: MakeBench, token: bytes | None, given: str | None, status: int
) -> None:
    """Traffic of models is nobody's business by default."""
    bench = await make_bench(metrics_token=token)
    headers = (f"Authorization: Bearer {given}",) if given else ()
    answer = await (await bench.client()).ask(get("/metrics", *headers))
    assert answer.status == status
    if status == 200:
        assert b"otela_router_requests_total" in answer.body
    else:
        assert answer.error["message"]


async def test_a_page_that_crashes_is_a_500(bench: Bench) -> None:
    """An error object, and a line in the log."""
    bench.front.directory.models = None  # type: ignore[method-assign, assignment]
    with capture_logs() as logs:
        answer = await (await bench.client()).ask(get("/v1/models"))
    assert (answer.status, answer.error["code"]) == (500, "internal_error")
    assert [line["event"] for line in logs] == ["page_crashed"]


async def test_pages_can_be_asked_for_their_head(bench: Bench) -> None:
    """Load balancers do."""
    client = await bench.client()
    client.send(get("/livez", method="HEAD"))
    status, headers = await client.head()
    assert (status, headers["content-type"]) == (200, "application/json")
    assert headers["content-length"] == "13"
    assert (await client.ask(get("/livez"))).body == b'{"live":true}'


async def test_pages_are_answered_on_a_connection_that_stays(bench: Bench) -> None:
    """In turn with everything else that is asked on it, also when all is asked at once."""
    bench.link.script = lambda stream: stream.answer(ANSWER)
    client = await bench.client()
    client.send(get("/livez") + post() + get("/nothing") + get("/v1/models"))
    assert (await client.answer()).json == {"live": True}
    assert (await client.answer()).body == ANSWER
    assert (await client.answer()).status == 404
    assert (await client.answer()).json["object"] == "list"
    assert len(bench.front.gate) == 1
    last = await client.ask(get("/livez", "Connection: close"))
    assert last.headers["connection"] == "close"
    assert await client.ended() == b""


@pytest.mark.parametrize(
    "request_",
    [
        get("/livez"),
        get("/v1/models"),
        get("/nothing"),
        get("/v1/models", method="DELETE"),
        get("/v1/models", method="OPTIONS"),
        get("*", method="OPTIONS"),
        post(b'{"model":"none"}'),
        b"junk\r\n\r\n",
    ],
)
async def test_no_answer_tells_what_the_router_is_made_of(bench: Bench, request_: bytes) -> None:
    """Nor any version of it: whoever looks for a known hole must try."""
    answer = await (await bench.client()).ask(request_)
    told = {
        "allow", "connection", "content-length", "content-type", "retry-after", "x-request-id"
    }  # fmt: skip
    assert answer.headers.keys() <= told


async def test_who_does_not_read_pages_is_cut_off(bench: Bench) -> None:
    """Its connection is one of those that are counted and looked at, however much it asked for."""
    models = [ModelOffer(name=f"{number:0250}") for number in range(200)]
    bench.front.directory.apply([record(5, models=models)])
    client = await bench.client()
    client.stop_reading()
    client.send(get("/v1/models") * 100)
    await bench.until(lambda: len(bench.front.gate) == 1)
    (connection,) = bench.front.gate._connections
    await bench.until(lambda: connection._is_full)
    now = bench.front.desk.clock.now()
    connection.check(now)
    connection.check(now + 2 * ListenConfig().keep_alive_s)
    await bench.until(lambda: len(bench.front.gate) == 0)


@pytest.mark.parametrize(
    ("given", "told"), [("x-a , x-b", "x-a , x-b"), ("a b", "*"), ("x\x80", "*"), ("", "*")]
)
async def test_a_preflight_repeats_names_and_nothing_else(
    bench: Bench, given: str, told: str
) -> None:
    """What it is asked stands in an answer of ours."""
    line = f"Access-Control-Request-Headers: {given}".encode("latin-1")
    asked = b"OPTIONS /x HTTP/1.1\r\nHost: a\r\nOrigin: https://a\r\n%b\r\n\r\n" % line
    answer = await (await bench.client()).ask(asked)
    assert answer.headers["access-control-allow-headers"] == told


async def test_what_cannot_be_read_is_counted_and_logged(bench: Bench) -> None:
    """Whoever runs a router sees that somebody sends rubbish, or too slowly."""
    before = metrics.REGISTRY.get_sample_value("otela_router_refused_total", {"status": "400"})
    with capture_logs() as logs:
        await (await bench.client()).ask(b"junk\r\n\r\n")
    assert [(line["event"], line["status"]) for line in logs] == [("request_refused", 400)]
    after = metrics.REGISTRY.get_sample_value("otela_router_refused_total", {"status": "400"})
    assert after == (before or 0) + 1
