"""Tasks that live as long as their block."""

import asyncio

import pytest

from opentela.tasks import Tasks
from opentela.testing.waiting import until

WITHIN_S = 5.0
"""For what takes a turn of the loop."""


async def _wait(event: asyncio.Event | None = None) -> None:
    """Wait for an event, or for something else to end this; not for as long as a run may take."""
    async with asyncio.timeout(WITHIN_S):
        await (event or asyncio.Event()).wait()


async def _for_ever(ended: list[str], name: str = "it") -> None:
    try:
        await _wait()
    finally:
        ended.append(name)


async def _fail(error: Exception) -> None:
    raise error


async def test_tasks_end_with_the_block() -> None:
    """Nobody waits for what would go on for ever."""
    ended: list[str] = []
    async with Tasks() as tasks:
        tasks.spawn(_for_ever(ended))
        done = asyncio.Event()

        async def finish() -> None:
            done.set()

        tasks.spawn(finish())
        await _wait(done)
    assert ended == ["it"]


async def test_what_the_block_raises_is_raised_as_it_is() -> None:
    """Not wrapped into a group, so that it can be caught by its type."""
    ended: list[str] = []

    async def main() -> None:
        async with Tasks() as tasks:
            tasks.spawn(_for_ever(ended))
            await until(lambda: len(asyncio.all_tasks()) > 1, "it runs", within_s=WITHIN_S)
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await main()


async def test_a_failing_task_ends_the_block_with_its_failure() -> None:
    """A part whose inside is broken does not go on as if nothing were."""
    ended: list[str] = []

    async def main() -> None:
        async with Tasks() as tasks:
            tasks.spawn(_for_ever(ended, "other"))
            tasks.spawn(_fail(ValueError("broken")))
            await _wait()

    with pytest.raises(ValueError, match="broken"):
        await main()
    assert ended == ["other"]


async def test_several_failures_are_all_told() -> None:
    """None hides another."""

    async def main() -> None:
        async with Tasks() as tasks:
            tasks.spawn(_fail(ValueError("one")))
            tasks.spawn(_fail(KeyError("two")))
            await _wait()

    with pytest.raises(ExceptionGroup) as caught:
        await main()
    assert {type(error) for error in caught.value.exceptions} == {ValueError, KeyError}


async def test_cancelling_the_block_cancels_its_tasks() -> None:
    """And is seen outside as a cancellation."""
    ended: list[str] = []

    async def main() -> None:
        async with Tasks() as tasks:
            tasks.spawn(_for_ever(ended))
            await _wait()

    task = asyncio.ensure_future(main())
    await until(lambda: len(asyncio.all_tasks()) > 2, "both run", within_s=WITHIN_S)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["it"]


async def test_nothing_is_begun_once_the_block_is_ending() -> None:
    """Whoever is still told something then leaves no coroutine behind, and delays no end."""
    begun: list[str] = []
    waiting = asyncio.Event()

    async def begin(name: str) -> None:
        begun.append(name)
        await asyncio.Event().wait()

    async def tell_at_its_end(tasks: Tasks) -> None:
        try:
            waiting.set()
            await _wait()
        finally:
            tasks.spawn(begin("while the block ends"))

    async with Tasks() as tasks:
        tasks.spawn(tell_at_its_end(tasks))
        await _wait(waiting)
    tasks.spawn(begin("after its end"))
    assert begun == []


async def test_nothing_is_begun_once_a_task_has_failed() -> None:
    """The block has not yet heard of it, and is over all the same."""
    begun: list[str] = []

    async def begin() -> None:
        begun.append("it")

    async def fail_and_tell(tasks: Tasks) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.add_done_callback(lambda _: tasks.spawn(begin()))
        raise ValueError("broken")

    async def main() -> None:
        async with Tasks() as tasks:
            tasks.spawn(fail_and_tell(tasks))
            await _wait()

    with pytest.raises(ValueError, match="broken"):
        await main()
    assert begun == []
