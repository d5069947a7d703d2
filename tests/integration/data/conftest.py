"""One mesh of a hub and a leaf a test."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping

import pytest
import uvloop
from tests.integration.data.builder import Builder

from opentela.testing.mesh import TestMesh


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Services run on uvloop, which differs in when it writes, closes and fires timers."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
async def build() -> AsyncIterator[Builder]:
    async with contextlib.AsyncExitStack() as stack:
        mesh = await stack.enter_async_context(TestMesh(leaves=("a",)))
        yield Builder(mesh, stack)
