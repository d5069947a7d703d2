"""One mesh of a hub and a leaf a test."""

import contextlib
from collections.abc import AsyncIterator

import pytest
from tests.integration.data.builder import Builder

from opentela.testing.mesh import TestMesh


@pytest.fixture
async def build() -> AsyncIterator[Builder]:
    async with contextlib.AsyncExitStack() as stack:
        mesh = await stack.enter_async_context(TestMesh(leaves=("a",)))
        yield Builder(mesh, stack)
