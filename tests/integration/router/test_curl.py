"""curl is served as it asks: forms, large bodies, old versions, heads alone."""

import asyncio
import json
import os
import shutil
from pathlib import Path

import pytest
from tests.integration.router.conftest import Bench
from tests.integration.router.test_forwarding import ANSWER, DELTA, DONE, STOP
from tests.unit.router.parts import record

from opentela.core.record import ModelOffer
from opentela.testing.fake_link import EVENTS, FakeStream

pytestmark = pytest.mark.skipif(
    not (shutil.which("curl") or os.environ.get("CI")),
    reason="there is no curl here; on CI that is an error instead",
)

CHAT = "/v1/chat/completions"


def whole(stream: FakeStream) -> None:
    """Answer at once."""
    stream.answer(ANSWER)


async def curl(bench: Bench, path: str, *options: str) -> bytes:
    """Return what curl prints."""
    process = await asyncio.create_subprocess_exec(
        *("curl", "--silent", "--show-error", "--max-time", "20", *options),
        bench.front.url + path,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err
    return out


@pytest.mark.parametrize("version", ["--http1.0", "--http1.1", "--http2"])
async def test_a_posted_body_is_answered(bench: Bench, version: str) -> None:
    """By all versions that it speaks, with the type that it claims for everything."""
    bench.link.script = whole
    assert await curl(bench, CHAT, version, "-d", '{"model":"m"}') == ANSWER
    assert bench.link.streams[0].body == b'{"model":"m"}'


async def test_a_large_body_waits_to_be_asked_for(bench: Bench, tmp_path: Path) -> None:
    """An image of 24 MiB from a file, and one without a length."""
    bench.link.script = whole
    body = b'{"model":"m","image":"' + b"A" * (24 << 20) + b'"}'
    (tmp_path / "body").write_bytes(body)
    expects = ("-H", "Expect: 100-continue", "--data-binary", f"@{tmp_path / 'body'}")
    assert await curl(bench, CHAT, *expects) == ANSWER
    assert await curl(bench, CHAT, *expects, "-H", "Transfer-Encoding: chunked") == ANSWER
    assert [stream.body == body for stream in bench.link.streams] == [True, True]


async def test_a_stream_is_printed_as_it_was(bench: Bench) -> None:
    """Every event, to the last."""
    bench.link.script = lambda stream: stream.head(200, EVENTS).data(DELTA + STOP + DONE).end()
    printed = await curl(bench, CHAT, "-N", "-d", '{"model":"m","stream":true}')
    assert printed == DELTA + STOP + DONE


async def test_a_form_is_uploaded(bench: Bench, tmp_path: Path) -> None:
    """As the manuals of speech models show it."""
    bench.link.script = whole
    (tmp_path / "a.wav").write_bytes(b"RIFF" + bytes(range(256)) * 100)
    form = ("-F", f"file=@{tmp_path / 'a.wav'}", "-F", "model=m")
    assert await curl(bench, "/v1/audio/transcriptions", *form) == ANSWER
    assert bytes(range(256)) * 100 in bench.link.streams[0].body


async def test_a_head_alone_is_answered(bench: Bench) -> None:
    """Of an engine's path and of a page."""
    bench.link.script = whole
    for path in ("/v1/audio/voices?model=m", "/v1/models", "/livez"):
        assert (await curl(bench, path, "-I")).startswith(b"HTTP/1.1 200 OK\r\n")


@pytest.mark.parametrize("path", ["/v1/models/a/b%C3%A4", "/v1/models/a%2Fb%C3%A4"])
async def test_a_model_is_described(bench: Bench, path: str) -> None:
    """Its name raw or encoded."""
    bench.front.directory.apply([record(5, models=[ModelOffer(name="a/bä")])])
    assert json.loads(await curl(bench, path))["id"] == "a/bä"


async def test_an_error_is_an_error_object(bench: Bench) -> None:
    """With its status, which curl can be asked for."""
    printed = await curl(bench, CHAT, "-d", '{"model":"none"}', "-w", "\n%{http_code}")
    body, _, status = printed.rpartition(b"\n")
    assert status == b"404"
    assert json.loads(body)["error"]["code"] == "model_not_found"
