"""The time of a step as a few numbers and two tables, quick enough to be asked for every step.

A step's time falls into parts that depend on one number each: tokens, rows that need a next token,
context that is read, pairs that are scored. Those of tokens and rows are tabulated, the others are
straight lines.
"""

from typing import Final

import numpy as np

from opentela.placer import catalogue
from opentela.placer.fit import BASES, Fit
from opentela.placer.shapes import Floats, ReplicaShape
from opentela.placer.simulate import columns, memory
from opentela.placer.simulate.columns import Columns
from opentela.placer.simulate.step import Work, factor, parts, seconds

_KNOTS: Final = 96


class StepTable:
    """How long the steps of one replica take, and what limits them.

    Attributes:
        blocks: KV blocks of the replica.
        batch_max: Sequences that run at once.
        tokens_max: Tokens of one step.
        request_s: What a request waits beside its steps.
        kv_bytes: Bytes of KV cache of one token, over all GPUs.
    """

    def __init__(self, shape: ReplicaShape, fit: Fit) -> None:
        engine = catalogue.engine(shape.engine)
        c, z = columns.of([shape], fit)
        self.block_tokens = engine.block_tokens
        self.blocks = int(memory.kv_tokens(shape) // engine.block_tokens)
        self.reserves_whole = engine.reserves_whole
        self.batch_max = int(c.batch_max[0, 0])
        self.tokens_max = int(c.batched_tokens_max[0, 0])
        self.request_s = float((factor(z, "request") * BASES["request"])[0, 0])
        self.kv_bytes = memory.kv_bytes_per_token(shape) * shape.tp * shape.pp
        self._stages = shape.pp
        self._full = float(c.full_share[0, 0])
        self._window = float(c.window[0, 0])
        self._tabulate(c, z)

    def _tabulate(self, c: Columns, z: Floats) -> None:
        most = self.tokens_max + self.batch_max
        knots = np.unique(np.geomspace(1, most, _KNOTS).round())

        def cost(
            decoding: Floats, context: float, prompt: Floats, pairs: Floats, prompts: Floats
        ) -> Floats:
            work = Work(*np.broadcast_arrays(decoding, context, prompt, pairs, prompts))
            found: Floats = seconds(c, z, Work(*(part[None, :] for part in work)))[0]
            return found

        zero, one = np.zeros(1), np.ones(1)
        none = np.zeros_like(knots)
        # One knot more than one token of prompt, none of which scores anything: tokens alone.
        tokens = cost(none, 1.0, knots, none, none)
        base = float(tokens[0])
        rows = cost(none, 1.0, one, zero, knots) - base
        decoding = cost(one, 1.0, zero, zero, zero) - float(cost(zero, 1.0, one, zero, one)[0])
        two = cost(2 * one, 1.0, zero, zero, zero) - float(
            cost(zero, 1.0, 2 * one, zero, 2 * one)[0]
        )
        self._per_seq = float((two - decoding)[0])
        self._decode_floor = float(decoding[0]) - self._per_seq
        far = cost(one, 1001.0, zero, zero, zero) - cost(one, 1.0, zero, zero, zero)
        seen = self._seen(1.0, 1001.0) - self._seen(1.0, 1.0)
        self._per_context = float(far[0]) / seen
        none_scored, some, more = (
            float(cost(zero, 1.0, one, pairs * one, zero)[0]) for pairs in (0.0, 1000.0, 2000.0)
        )
        self._per_pair = (more - some) / 1000
        self._per_prompt_token = some - none_scored - 1000 * self._per_pair
        # Who only decodes does not meet the floor of attention within prompts.
        work = Work(*(np.array([[value]]) for value in (0.0, 1.0, 1.0, 0.0, 0.0)))
        self._prompt_floor = float((parts(c, z, work).attention * factor(z, "whole"))[0, 0])
        self._decode_floor += self._prompt_floor
        tokens = tokens - self._prompt_floor
        every = np.arange(most + 2)
        self._of_tokens: list[float] = np.interp(every, knots, tokens).tolist()
        self._of_rows: list[float] = np.interp(every, knots, rows).tolist()

    def _seen(self, sequences: float, context: float) -> float:
        """Return the context that *sequences* read, *context* in all, windows considered."""
        if self._full >= 1.0 or sequences <= 0:
            return context
        mean = context / sequences
        return sequences * (self._full * mean + (1 - self._full) * min(mean, self._window))

    def step_s(
        self, decoding: int, context: float, prompt_tokens: int, pairs: float, prompts: int
    ) -> float:
        """Return the seconds of a step in which *decoding* sequences read *context* in all."""
        running, stages = decoding, self._stages
        tokens = -(-(running + prompt_tokens) // stages)
        total = self._of_tokens[tokens] + self._of_rows[-(-(running + prompts) // stages)]
        if running:
            total += self._decode_floor + self._per_seq * running / stages
            total += self._per_context * self._seen(running, context) / stages
        if prompt_tokens:
            scored = self._per_pair * pairs + self._per_prompt_token * prompt_tokens
            total += self._prompt_floor + scored / stages
        return total

    def run_s(self, decoding: int, context: float, steps: int) -> float:
        """Return the seconds of *steps* steps in which *decoding* sequences get a token each."""
        middle = context + decoding * (steps - 1) / 2
        return steps * self.step_s(decoding, middle, 0, 0.0, 0)

    def steps_within(self, decoding: int, context: float, span_s: float, most: int) -> int:
        """Return how many such steps it takes until *span_s* is over, *most* at most."""
        first = self.step_s(decoding, context, 0, 0.0, 0)
        guess = min(max(int(span_s / first), 1), most)
        while guess > 1 and self.run_s(decoding, context, guess - 1) >= span_s:
            guess -= 1
        while guess < most and self.run_s(decoding, context, guess) < span_s:
            guess += 1
        return guess
