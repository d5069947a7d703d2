"""The tasks that live as long as a part does: ended with it, and never failing unseen."""

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self


class Tasks:
    """A task group whose tasks end with its block, instead of being waited for.

    As in a task group, a task that fails ends the block. A lone failure is raised as itself, so
    that whoever uses the part catches what it documents.
    """

    def __init__(self) -> None:
        self._group = asyncio.TaskGroup()
        self._running: set[asyncio.Task[None]] = set()
        self._is_ending = False

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        self._is_ending = True
        for task in tuple(self._running):
            task.cancel()
        try:
            await self._group.__aexit__(kind, error, trace)
        except BaseExceptionGroup as group:
            lone = group.exceptions[0] if len(group.exceptions) == 1 else group
            if lone is error:
                return False
            raise lone from None
        return False

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run *work* until it is done or the block ends; none is begun once it is ending.

        Messages come until whoever hears them is gone, and that is often after the block.
        """
        if self._is_ending:
            work.close()
            return
        task = self._group.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._on_done)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._is_ending = True
