"""A replica in steady state: how batches, steps and prompts settle under each kind of load.

Under continuous batching the running sequences advance by one token a step, and every so many
steps a prompt is worked on beside them. With B sequences running, each of which lasts `out` steps,
B / out prompts come up a step; what a prompt adds to the steps it takes part in is paid by all.
"""

from typing import Final, NamedTuple

import numpy as np

from opentela.placer.fit import BASES
from opentela.placer.shapes import Floats
from opentela.placer.simulate.columns import Columns
from opentela.placer.simulate.step import Work, factor, seconds

_ROUNDS: Final = 10
_NOBODY: Final = 1e-6
_SPARED: Final = 1.2
"""Times what running sequences hold that must be there, so that few are preempted as they grow."""


class Lengths(NamedTuple):
    """What requests look like; arrays of shape (N, cases).

    Attributes:
        prompt: Tokens of the prompt.
        fresh: Those of them that are not in the prefix cache.
        answer: Tokens of the answer.
        grown: Tokens of its answer that a running sequence has: half of it if all are alike, more
            if they are not, since long ones run longer.
    """

    prompt: Floats
    fresh: Floats
    answer: Floats
    grown: Floats


class Settled(NamedTuple):
    """A steady state; arrays of shape (N, cases)."""

    running: Floats
    rps: Floats
    ttft_s: Floats
    tpot_s: Floats


def running_max(c: Columns, z: Floats, lengths: Lengths) -> Floats:
    """Return how many sequences run at most: the engine's limit or what the KV cache holds."""
    whole = lengths.prompt + 2 * lengths.grown
    grown = lengths.prompt + _SPARED * lengths.grown
    held = np.where(c.reserves_whole > 0, whole, grown)
    by_memory = c.kv_tokens / np.maximum(held, 1.0) * factor(z, "batch")
    return np.maximum(np.minimum(by_memory, c.batch_max), 1.0)


def decode_s(c: Columns, z: Floats, running: Floats, lengths: Lengths) -> Floats:
    """Return the seconds of a step in which nothing but *running* sequences advances."""
    zero = np.zeros_like(running)
    context = lengths.prompt + lengths.grown
    return seconds(c, z, Work(running / c.pp, context, zero, zero, zero))


def token_s(c: Columns, z: Floats, running: Floats, lengths: Lengths) -> tuple[Floats, Floats]:
    """Return the mean time between tokens, prompts of others included, and that of one prompt.

    The latter is what a prompt adds to the steps that it takes part in.
    """
    alone = decode_s(c, z, running, lengths)
    together = np.maximum(running / np.maximum(lengths.answer, 1.0), 1.0)
    fresh = np.maximum(lengths.fresh, 1.0)
    tokens = np.minimum(together * fresh, c.batched_tokens_max)
    prompts = tokens / fresh
    pairs = tokens * (lengths.prompt - fresh / 2)
    context = lengths.prompt + lengths.grown
    beside = seconds(c, z, Work(running / c.pp, context, tokens, pairs, prompts))
    prompt = (beside - alone) / prompts
    share = running / np.maximum(lengths.answer, 1.0) / c.pp
    return alone * factor(z, "drafted") + share * prompt, prompt


def saturated(c: Columns, z: Floats, lengths: Lengths, running: Floats | None = None) -> Settled:
    """Return what a replica does while more requests wait than can run."""
    most = running_max(c, z, lengths)
    running = most if running is None else np.minimum(running, most)
    tpot, prompt = token_s(c, z, running, lengths)
    rps = running / (lengths.answer * tpot)
    return Settled(running, rps, prompt + tpot, tpot)


def closed_loop(c: Columns, z: Floats, clients: Floats, lengths: Lengths) -> Settled:
    """Return what *clients* see that each send their next request when the last is answered."""
    most = running_max(c, z, lengths)
    running = np.minimum(clients, most)
    steps = np.maximum(lengths.answer - 1, 1.0)
    for _ in range(_ROUNDS):
        tpot, prompt = token_s(c, z, running, lengths)
        wanted = clients * steps * tpot / (steps * tpot + first_token_s(z, clients, prompt, tpot))
        running = np.minimum(np.sqrt(running * np.maximum(wanted, 1e-3)), most)
    tpot, prompt = token_s(c, z, running, lengths)
    first = first_token_s(z, clients, prompt, tpot)
    rps = running / (steps * tpot)
    queued = np.maximum(clients / rps - steps * tpot, first)
    return Settled(running, rps, np.where(running < most, first, queued), tpot)


def first_token_s(z: Floats, clients: Floats, prompt: Floats, tpot: Floats) -> Floats:
    """Return the time to first token: the step that runs, others' prompts before, and its own."""
    met = factor(z, "crowd") * BASES["crowd"] * np.maximum(clients - 1, 0.0)
    return factor(z, "request") * BASES["request"] + tpot / 2 + (1 + met) * prompt


def static_batch(
    c: Columns, z: Floats, batch: Floats, lengths: Lengths
) -> tuple[Floats, Floats, Floats]:
    """Return time to first tokens, per later token, and in all for a batch that starts at once."""
    most = running_max(c, z, lengths)
    running = np.minimum(batch, most)
    waves = np.floor(batch / running)
    left = batch - waves * running
    prompts, token = _wave(c, z, running, lengths)
    steps = np.maximum(lengths.answer - 1, 0.0)
    total = waves * (prompts + steps * token)
    if np.any(left > _NOBODY):
        last_prompts, last_token = _wave(c, z, np.maximum(left, _NOBODY), lengths)
        total = total + np.where(left > _NOBODY, last_prompts + steps * last_token, 0.0)
    request = factor(z, "request") * BASES["request"]
    return request + prompts, token, request + total


def _wave(c: Columns, z: Floats, running: Floats, lengths: Lengths) -> tuple[Floats, Floats]:
    """Return the seconds of all prompts of *running* sequences, and of each step after."""
    total = running * lengths.fresh
    tokens = np.minimum(total, np.maximum(c.batched_tokens_max, lengths.fresh))
    zero = np.zeros_like(tokens)
    pairs = tokens * (lengths.prompt - lengths.fresh / 2)
    work = Work(zero, zero, tokens, pairs, tokens / np.maximum(lengths.fresh, 1.0))
    return total / tokens * seconds(c, z, work), decode_s(c, z, running, lengths)
