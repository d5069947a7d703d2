"""A field for each test: one hub, nothing on it yet."""

from collections.abc import AsyncIterator

import pytest_asyncio
from tests.integration.registry.field import Field

from opentela.testing.mesh import TestMesh


@pytest_asyncio.fixture
async def field() -> AsyncIterator[Field]:
    """Give a mesh of one server."""
    async with TestMesh() as mesh:
        yield Field(mesh)
