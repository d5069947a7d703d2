"""What was fitted to measurements: the curves of operators and the manners of engines.

`data/fit.json` holds the curves of kernels that were timed alone, and how much longer or shorter
whole engines take than those curves say. It is written by `calibrate`.
"""

import functools
import importlib.resources
from collections.abc import Mapping
from typing import Final

import msgspec
import numpy as np

from opentela.placer.catalogue import engine
from opentela.placer.shapes import Floats, Gpu, ReplicaShape

COMPONENTS: Final = (
    "host",  # seconds of every step in which the GPU waits for the engine
    "host_tp",  # the same, where a step must be told to other processes, for each doubling
    "seq",  # seconds of every step for each running sequence
    "layer",  # seconds of every layer for small kernels and launches
    "memory",  # matrix products that wait for weights
    "compute",  # matrix products that wait for arithmetic
    "quant",  # matrix products in 8 bits, on top of the two
    "blocks8",  # the same of mixtures whose weights are scaled block by block
    "quant4",  # matrix products in 4 bits
    "latent",  # attention within prompts, where KV must first be made of a latent
    "floor",  # the least time of every kernel
    "decode",  # attention of running sequences to their KV cache
    "own_kv",  # the same, where every head has KV of its own
    "windowed",  # the same, where every layer sees a window only
    "prefill",  # attention within prompts
    "hop",  # latency of a collective
    "link",  # volume of a collective
    "experts",  # routed experts
    "experts_floor",  # the least time of their kernels
    "elementwise",  # traffic of activations between the matrix products
    "request",  # seconds from a request's arrival to its first step, and of its answer
    "crowd",  # share of the other clients that a client of a closed loop meets in the queue
    "batch",  # running sequences beside what KV cache and limits allow
    "drafted",  # time between tokens over the time of a step: below one where tokens are guessed
    "whole",  # the whole step: how well kernels suit the shape of one model
)
"""What is fitted, each by a factor on the base below or on what operators say."""

BASES: Final[Mapping[str, float]] = {
    "host": 1e-3,
    "host_tp": 1e-3,
    "seq": 20e-6,
    "layer": 10e-6,
    "request": 10e-3,
    "crowd": 0.1,
}
"""Where operators say nothing: seconds, and a share for `crowd`."""

OPERATORS: Final = {
    "gemm16": ("floor_s", "memory", "compute", "knee"),
    "gemm8": ("floor_s", "memory", "compute", "knee", "quantise"),
    "gemm4": ("floor_s", "memory", "compute", "knee", "quantise"),
    "decode": ("floor_s", "memory", "compute", "seq_s"),
    "prefill": ("floor_s", "compute", "half_tokens"),
    "experts16": ("floor_s", "memory", "compute", "half_rows", "half_columns"),
    "experts8": ("floor_s", "memory", "compute", "half_rows", "half_columns"),
    "experts4": ("floor_s", "memory", "compute", "half_rows", "half_columns"),
    "collective": ("floor_s", "hop_s", "link"),
}
"""The parameters of each operator's curve, in the order in which a fit has them.

`floor_s` is the least time a kernel takes; `memory`, `compute` and `link` are shares of what the
data sheet promises; `knee` is the exponent that joins the two: the lower, the longer both are
waited for. Products with fewer rows or columns than half reach less than half of `compute`.
"""

Curves = dict[str, tuple[float, ...]]


class Fit(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Everything that was fitted.

    Attributes:
        operators: Curves by GPU id; `donors` says whose curves other architectures borrow.
        effects: Logarithms of factors: component, then level (see `levels_of`), then value. Levels
            add up; one that was never seen adds nothing.
        about: When, from what, how well.
    """

    operators: dict[str, Curves]
    donors: dict[str, str]
    effects: dict[str, dict[str, float]]
    about: dict[str, str] = {}

    def curves(self, gpu: Gpu) -> Curves:
        """Return the curves of *gpu*, its own or those of the GPU most like it."""
        own = self.operators.get(gpu.id)
        return own if own is not None else self.operators[self.donors[gpu.arch]]

    def factors(self, shape: ReplicaShape) -> Floats:
        """Return the factor of each of `COMPONENTS` for *shape*."""
        known = self._by_level
        logs = np.zeros(len(COMPONENTS))
        for level in levels_of(shape):
            if level in known:
                logs += known[level]
        return np.exp(logs)

    @functools.cached_property
    def _by_level(self) -> dict[str, Floats]:
        """The logarithms of all components by level."""
        found: dict[str, Floats] = {}
        for at, component in enumerate(COMPONENTS):
            for level, value in self.effects.get(component, {}).items():
                found.setdefault(level, np.zeros(len(COMPONENTS)))[at] = value
        return found


LEVELS: Final = (
    "all",
    "generation",
    "family",
    "engine",
    "gpu",
    "engine,gpu",
    "build",
    "family,format",
    "all of them",
)
"""The kinds of levels at which effects are fitted, the widest first."""
_SAME: Final[Mapping[str, str]] = {"fp16": "bf16"}
"""Formats that kernels do not tell apart."""


def levels_of(shape: ReplicaShape) -> tuple[str, ...]:
    """Return the levels that act on *shape*, one of each of `LEVELS`."""
    gpu, name, model = shape.gpu.id, shape.engine, shape.model.id
    family = engine(name).family
    return (
        "all",
        f"generation={engine(name).generation}",
        f"family={family}",
        f"engine={name}",
        f"gpu={gpu}",
        f"engine,gpu={name},{gpu}",
        f"build={shape.build},{model}" if shape.build else "build=",
        f"family,format={family},{_SAME.get(shape.w_dtype, shape.w_dtype)}",
        f"all of them={name},{gpu},{model},{shape.w_dtype}",
    )


@functools.cache
def shipped() -> Fit:
    """Return the fit that comes with the package."""
    folder = importlib.resources.files("opentela.placer").joinpath("data")
    return msgspec.json.decode(folder.joinpath("fit.json").read_bytes(), type=Fit)
