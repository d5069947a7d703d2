"""Clients: they ask, sometimes leave early, and never ask twice for one thing."""

import msgspec

from opentela.testing.sim.cluster import Cluster
from opentela.testing.sim.history import Ask, Request


class WorkloadForm(msgspec.Struct, frozen=True, kw_only=True):
    """What clients do at each router.

    Attributes:
        every_s: Mean time between two requests.
        stream_share: Share that is streamed.
        leave_share: Share whose client leaves early.
        leave_s: Mean time until it does.
        large_share: Share with a request or an answer of several windows.
        reads: An answer is cut into up to so many reads.
    """

    every_s: float = 1.0
    stream_share: float = 0.7
    leave_share: float = 0.1
    leave_s: float = 0.3
    large_share: float = 0.02
    reads: int = 6


class Workload:
    """Requests at every router until it is told to stop.

    Attributes:
        is_on: Whether clients come.
    """

    def __init__(self, cluster: Cluster, form: WorkloadForm) -> None:
        self.is_on = True
        self._cluster = cluster
        self._form = form
        self._count = 0
        self._rng = cluster.world.fork("workload")
        self._models = sorted({form.model for _, form in cluster.form.supervisors.values()})
        for name in cluster.form.routers:
            self._wait(name)

    def _wait(self, router: str) -> None:
        delay_s = self._rng.expovariate(1 / self._form.every_s)
        self._cluster.world.after(delay_s, self._come, router)

    def _come(self, router: str) -> None:
        if self.is_on:
            self.ask(router, self._models[self._rng.randrange(len(self._models))])
            self._wait(router)

    def ask(self, router: str, model: str, *, stays: bool = False) -> Request | None:
        """Let a client ask at *router*; None when it finds nobody there."""
        world, form, rng = self._cluster.world, self._form, self._rng
        shell, node = self._cluster.routers.get(router), world.nodes[router]
        draws = [rng.random() for _ in range(4)]
        if shell is None:
            return None
        self._count += 1
        is_large = draws[0] < form.large_share
        ask = Ask(
            model=model,
            stream=draws[1] < form.stream_share,
            reads=1 + rng.randrange(form.reads),
            size=150_000 if is_large else 0,
            padding="x" * 200_000 if is_large else "",
        )
        request = Request(name=f"q{self._count}", router=router, ask=ask, asked_at=world.now)
        self._cluster.history.ask(request)
        node.handle(shell.ask, request)
        if draws[2] < form.leave_share and not stays:
            world.after(form.leave_s * 2 * draws[3], node.handle, shell.leave, request.name)
        return request
