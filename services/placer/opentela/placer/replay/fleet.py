"""A fleet over time: which replicas serve when, how fast they are together, what they hold."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np

from opentela.placer.options import Enumerated, Wanted
from opentela.placer.problem import Group
from opentela.placer.replay.queue import Speed
from opentela.placer.shapes import Floats, Slo, Workload
from opentela.placer.simulate import analytic

LOADS: Final = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Utilisations at which the time of a token is known."""


class Change(NamedTuple):
    """Replicas of one group that begin or cease to serve.

    Attributes:
        at_s: From when.
        held_s: From when their GPUs are held (a start), or until when (a stop).
        replicas: How many more; fewer if negative.
    """

    group: Group
    at_s: float
    held_s: float
    replicas: int


class Manner(NamedTuple):
    """What one replica of a group does.

    Attributes:
        capacity_rps: Requests a second of mean length, at saturation.
        ttft_s: Time to the first token of a mean prompt, with nobody before it.
        tpot_s: Time of a token at each of `LOADS`.
    """

    capacity_rps: float
    ttft_s: float
    tpot_s: tuple[float, ...]


class Known(NamedTuple):
    """What is known of one model of a trace.

    Attributes:
        in_mean: Tokens of a prompt that are to be worked on.
        prompt_share: Share of a mean request's work that is its prompt.
        manners: By GPU type, tensor parallelism and stages.
    """

    name: str
    in_mean: float
    out_mean: float
    prompt_share: float
    slo: Slo
    manners: dict[tuple[str, int, int], Manner]

    def work(self, fresh_tokens: Floats, out_tokens: Floats) -> Floats:
        """Return what requests take, in mean requests."""
        prompt = self.prompt_share * fresh_tokens / self.in_mean
        return prompt + (1 - self.prompt_share) * out_tokens / self.out_mean


def known(wanted: Sequence[Wanted], made: Enumerated) -> list[Known]:
    """Return what the simulator says of each of *wanted*, over the shapes that there are."""
    if not made.options:
        return [_known(one, {}, 0.5) for one in wanted]
    by_name = {one.name: one for one in wanted}
    owners = [by_name[option.model] for option in made.options]
    shapes = list(made.shapes)
    at_loads = [
        analytic.estimate(
            shapes,
            [_at(one, rate * load) for one, rate in zip(owners, made.capacity_rps, strict=True)],
        )
        for load in LOADS
    ]
    longer = analytic.estimate(shapes, [_at(one, 0.0, longer=2.0) for one in owners]).capacity_rps
    # 1/capacity is time for the prompt plus time for the answer; twice the prompt tells them apart.
    share = np.clip((1 / np.maximum(longer, 1e-12)) * made.capacity_rps - 1, 0.02, 0.98)
    manners: dict[str, dict[tuple[str, int, int], Manner]] = {one.name: {} for one in wanted}
    shares: dict[str, list[float]] = {one.name: [] for one in wanted}
    for i, option in enumerate(made.options):
        manners[option.model][option.gpu, option.tp, option.pp] = Manner(
            float(made.capacity_rps[i]),
            float(at_loads[0].ttft_s[i]),
            tuple(float(one.tpot_s[i]) for one in at_loads),
        )
        shares[option.model].append(float(share[i]))
    return [
        _known(one, manners[one.name], float(np.mean(shares[one.name] or [0.5]))) for one in wanted
    ]


def _known(one: Wanted, manners: dict[tuple[str, int, int], Manner], share: float) -> Known:
    load = one.workload
    fresh = max(load.in_len * (1 - load.prefix_hit), 1.0)
    return Known(one.name, fresh, load.out_len, share, one.slo, manners)


def _at(one: Wanted, rate: float, *, longer: float = 1.0) -> Workload:
    load = one.workload
    return msgspec.structs.replace(load, rate_rps=float(rate), in_len=load.in_len * longer)


class Life(NamedTuple):
    """How one model's replicas are over time: constant between instants.

    Attributes:
        ttft_s: Mean time to the first token by segment, weighted by capacity.
        tpot_s: Time of a token by segment and load, weighted likewise.
    """

    speed: Speed
    ttft_s: Floats
    tpot_s: Floats


def life(changes: Sequence[Change], model: Known, kinds: Mapping[str, str], from_s: float) -> Life:
    """Return what *changes* of one model's replicas make of it.

    Args:
        changes: Of this model, in any order.
        model: What it does.
        kinds: GPU type by pool.
        from_s: When the trace begins; what changed before has then changed.
    """
    at = np.unique(np.array([from_s, *(max(one.at_s, from_s) for one in changes)]))
    speed = np.zeros(len(at))
    ttft = np.zeros(len(at))
    tpot = np.zeros((len(at), len(LOADS)))
    for one in changes:
        manner = model.manners[kinds[one.group.pool], one.group.tp, one.group.pp]
        since = int(np.searchsorted(at, max(one.at_s, from_s)))
        added = one.replicas * manner.capacity_rps
        speed[since:] += added
        ttft[since:] += added * manner.ttft_s
        tpot[since:] += added * np.array(manner.tpot_s)
    speed = np.where(speed < 1e-9, 0.0, speed)  # noqa: PLR2004  # sums of what was added and taken
    per = np.where(speed > 0, speed, np.inf)
    return Life(Speed(at, speed), ttft / per, tpot / per[:, None])


def gpu_hours(changes: Sequence[Change], from_s: float, until_s: float) -> float:
    """Return the GPU-hours that *changes* hold within a window."""
    held = 0.0
    for one in changes:
        since = min(max(one.held_s, from_s), until_s)
        held += one.replicas * one.group.gpus * (until_s - since)
    return held / 3600
