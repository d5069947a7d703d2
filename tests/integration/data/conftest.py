"""One mesh of a hub and a leaf a test."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping

import pytest
import uvloop
from tests.integration.data.builder import Builder

from opentela.tasks import Tasks
from opentela.testing.mesh import TestMesh


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Services run on uvloop, which differs in when it writes, closes and fires timers."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
async def build(request: pytest.FixtureRequest) -> AsyncIterator[Builder]:
    """Yield what builds over the mesh, or over the kind of channel that a test names."""
    async with contextlib.AsyncExitStack() as stack:
        mesh = await stack.enter_async_context(TestMesh(leaves=("a",)))
        tasks = await stack.enter_async_context(Tasks())
        yield Builder(mesh, stack, tasks, getattr(request, "param", "mesh"))
