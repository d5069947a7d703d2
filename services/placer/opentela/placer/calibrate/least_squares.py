"""Robust non-linear least squares for a handful of parameters."""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from opentela.placer.shapes import Floats

_STEP: Final = 1e-5
_LONGEST: Final = 1.0
_TRIES: Final = 10
_ENOUGH: Final = 1e-7


def huber_weights(residuals: Floats, turn: float) -> Floats:
    """Return weights under which squares grow like a line beyond *turn*."""
    weights: Floats = np.minimum(1.0, turn / np.maximum(np.abs(residuals), 1e-12))
    return weights


def huber_cost(residuals: Floats, turn: float) -> float:
    """Return the sum of squares near zero and of lines beyond *turn*."""
    size = np.abs(residuals)
    return float(np.sum(np.where(size <= turn, size**2 / 2, turn * (size - turn / 2))))


def minimise(
    residuals: Callable[[Floats], Floats],
    start: Sequence[float],
    *,
    turn: float = 0.15,
    rounds: int = 60,
) -> Floats:
    """Return the parameters that make *residuals* least, by Levenberg and Marquardt."""
    x = np.array(start, dtype=np.float64)
    now = residuals(x)
    cost, damping = huber_cost(now, turn), 1e-2
    for _ in range(rounds):
        slopes = np.stack([(residuals(_moved(x, i)) - now) / _STEP for i in range(len(x))], axis=1)
        weights = huber_weights(now, turn)
        curvature = slopes.T @ (weights[:, None] * slopes)
        gradient = slopes.T @ (weights * now)
        for _ in range(_TRIES):
            diagonal = np.diag(np.diag(curvature) + 1e-9)
            move = np.linalg.solve(curvature + damping * diagonal, -gradient)
            moved: Floats = x + np.clip(move, -_LONGEST, _LONGEST)
            then = residuals(moved)
            if huber_cost(then, turn) < cost:
                break
            damping *= 4
        else:
            return x
        gained = cost - huber_cost(then, turn)
        x, now, cost, damping = moved, then, cost - gained, max(damping / 5, 1e-9)
        if gained < _ENOUGH * cost:
            return x
    return x


def _moved(x: Floats, i: int) -> Floats:
    moved = x.copy()
    moved[i] += _STEP
    return moved
