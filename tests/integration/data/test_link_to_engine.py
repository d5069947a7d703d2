"""From the router's link over a hub and a leaf to an engine and back."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from tests.integration.data.fabric import Fabric
from tests.integration.data.raw_engine import RawEngine, RawRequest, Script

from opentela.testing.mesh import TestMesh

pytestmark = pytest.mark.nats

Build = Callable[[Script], Awaitable[tuple[Fabric, RawEngine]]]


@pytest.fixture
async def build() -> AsyncIterator[Build]:
    async with contextlib.AsyncExitStack() as stack:
        mesh = await stack.enter_async_context(TestMesh(leaves=("a",)))

        async def make(script: Script) -> tuple[Fabric, RawEngine]:
            engine = await stack.enter_async_context(RawEngine(script))
            return await Fabric.open(mesh, engine.address, stack), engine

        yield make


async def echo(request: RawRequest) -> None:
    request.answer(request.body, fields="x-path: " + request.path + "\r\n")


async def test_a_request_is_answered(build: Build) -> None:
    """Method, path, fields and body go in; status, fields and body come out."""
    fabric, engine = await build(echo)
    answer = await fabric.ask(b'{"a":1}').wait()
    assert answer.told == ["ack", "head", "data", "end"]
    assert (answer.status, answer.body) == (200, b'{"a":1}')
    assert ("x-path", "/v1/completions") in answer.headers
    assert engine.requests[0].headers["content-type"] == "application/json"
    assert fabric.link.in_flight == fabric.gateway.in_flight == 0
