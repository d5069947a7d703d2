"""Nothing grows with the requests: what machines hold is bounded by the sessions that there are."""

from collections import deque
from collections.abc import Iterator
from typing import Final

import msgspec

from opentela.testing.sim.checkers import Violation
from opentela.testing.sim.cluster import Cluster

ENTRIES_MIN: Final = 96
"""What any container may hold: stories and limits of a few dozen are fine."""
ENTRIES_A_SESSION: Final = 8
_DEPTH_MAX: Final = 12


class NothingGrows:
    """No container of a machine holds more than the sessions of the run explain."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def finish(self) -> None:
        """Measure every container of every machine."""
        cluster = self._cluster
        limit = max(ENTRIES_MIN, ENTRIES_A_SESSION * len(cluster.owners))
        machines: dict[str, object] = {}
        for name, registry in cluster.registries.items():
            machines[name] = registry.machine
        for name, router in cluster.routers.items():
            machines[name] = [router.view, router.directory, router.outcomes, router.policy]
        for name, supervisor in cluster.supervisors.items():
            machines[name] = supervisor.machine
        for name, machine in machines.items():
            for path, size in containers(machine):
                if size > limit:
                    raise Violation(f"growth: {name}{path} holds {size} entries, above {limit}")


def containers(root: object) -> Iterator[tuple[str, int]]:
    """Yield path and size of every container below *root*."""
    seen: set[int] = set()
    stack: list[tuple[str, object, int]] = [("", root, 0)]
    while stack:
        path, value, depth = stack.pop()
        if id(value) in seen or depth > _DEPTH_MAX:
            continue
        seen.add(id(value))
        if isinstance(value, dict | list | deque | set):
            yield path, len(value)
            parts = value.values() if isinstance(value, dict) else value
            stack += [(f"{path}[]", part, depth + 1) for part in parts]
        elif _is_ours(value):
            stack += [(f"{path}.{name}", part, depth + 1) for name, part in _parts(value)]


def _is_ours(value: object) -> bool:
    # Messages and records are values, and bounded where they are read.
    is_value = isinstance(value, msgspec.Struct | tuple | str | bytes | int | float)
    return type(value).__module__.startswith("opentela.") and not is_value


def _parts(value: object) -> list[tuple[str, object]]:
    names = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    names += getattr(value, "__dict__", {})
    return [(name, getattr(value, name)) for name in names if hasattr(value, name)]
