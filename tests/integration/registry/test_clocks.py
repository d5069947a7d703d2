"""A registry that comes back with a wrong clock: whoever lives is kept, and news gets in."""

import time
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.integration.registry.field import Field, kept_in, new_owner, shows, suspects

from opentela.core.record import Lifecycle, lifecycle_of
from opentela.service import SystemClock
from opentela.testing.mesh import until

pytestmark = pytest.mark.nats

HOUR_S = 3600.0


class WrongClock(SystemClock):
    """One whose wall clock is set back, or forward where *by_s* is negative."""

    def __init__(self, by_s: float) -> None:
        self._by_s = by_s

    def wall(self) -> float:
        """Return another time than everybody else."""
        return super().wall() - self._by_s


@pytest.mark.parametrize(
    ("back_s", "has_peer"),
    [(HOUR_S, False), (HOUR_S, True), (24 * HOUR_S, True), (-24 * HOUR_S, True)],
)
async def test_a_registry_that_restarts_with_a_wrong_clock_goes_on(
    field: Field,
    tmp_path: Path,
    back_s: float,
    has_peer: bool,  # noqa: FBT001
) -> None:
    """Alone it believes owners that are an hour ahead; beyond, what a peer passes on."""
    config = kept_in(str(tmp_path / "registry.state"))
    stays, leaves, gone, comes = (new_owner() for _ in range(4))
    async with AsyncExitStack() as stack:
        if has_peer:
            await stack.enter_async_context(field.registry("registry2"))
        view = await stack.enter_async_context(field.view())
        async with field.registry(config=config) as before:
            await stack.enter_async_context(field.session(stays))
            leaving = await stack.enter_async_context(field.session(leaves))
            async with field.session(gone) as going:
                await until(lambda: shows(view, stays, leaves, gone))
                await going.say(Lifecycle.LEFT, ended_at_ms=int(time.time() * 1000))
            await until(lambda: len(before.held.living) == 2)
        async with field.registry(config=config, clock=WrongClock(back_s)) as after:
            await until(lambda: after.status()["phase"] == "knowing")
            await stack.enter_async_context(field.session(comes))
            await until(lambda: shows(view, stays, leaves, comes))
            await leaving.say(Lifecycle.LEFT, ended_at_ms=int(time.time() * 1000))
            await until(lambda: shows(view, stays, comes))
            await until(
                lambda: set(after.held.living) == {one.claim.session for one in (stays, comes)}
            )
            ended = after.held.get(gone.claim.session)
            assert ended is not None
            assert lifecycle_of(ended) is Lifecycle.LEFT
    assert not suspects(view, stays)
