"""Engines that others started: each kind fills a pool of its own, in which nothing is placed."""

from collections.abc import Container, Mapping
from typing import Final

from opentela.placer.problem import GPUS_PER_STAGE, Group, Pool, Problem

_BY_HAND: Final = "by hand"


def engines(
    found: Mapping[tuple[str, str, str, int], int], models: Container[str]
) -> list[tuple[Group, int, Pool]]:
    """Return those that serve any of *models*: their group, how many, and their pool.

    Args:
        found: By model, site, hardware and GPUs: how many.
        models: That may be placed.
    """
    made: list[tuple[Group, int, Pool]] = []
    for (model, site, _, gpus), count in found.items():
        if model not in models:
            continue
        tp = next((size for size in GPUS_PER_STAGE if size >= gpus), GPUS_PER_STAGE[-1])
        # Numbered, for whoever runs an engine says what its hardware is called.
        name = f"{_BY_HAND}/{len(made)}"
        pool = Pool(name=name, gpu=name, nodes=count, gpus_per_node=tp, site=site, usd_h=0.0)
        made.append((Group(model, name, tp), count, pool))
    return made


def of(problem: Problem) -> dict[Group, int]:
    """Return those that run in *problem*."""
    return {group: n for group, n in problem.running.items() if is_one(group)}


def is_one(group: Group) -> bool:
    """Return whether others started *group*."""
    return is_pool(group.pool)


def is_pool(name: str) -> bool:
    """Return whether the pool of that *name* is one of theirs."""
    return name.startswith(f"{_BY_HAND}/")
