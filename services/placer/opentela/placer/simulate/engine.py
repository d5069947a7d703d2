"""One engine as its scheduler works: continuous batching, prompts in chunks, KV in blocks.

Sequences that run get a token a step; what is left of the step's budget goes to prompts, oldest
first. KV blocks are handed out as sequences grow, and when none are left the youngest sequence
loses its own and starts anew. Steps in which nothing else can happen are taken at once: their times
add up in closed form.
"""

import heapq
from collections import deque
from typing import NamedTuple

from opentela.placer.simulate.table import StepTable


class Job:
    """What an engine knows of one request.

    Attributes:
        prompt: Tokens to be worked on before the next token comes, those in the cache left out.
        cached: Tokens of the prompt that are in the prefix cache.
        todo: Tokens of the prompt that are still to be worked on.
        left: Tokens that are still to come here.
        later: Tokens that are to come elsewhere afterwards.
    """

    __slots__ = ("blocks", "cached", "end", "index", "later", "left", "prompt", "start", "todo")

    def __init__(self, index: int, prompt: int, cached: int, left: int) -> None:
        self.index, self.prompt, self.cached, self.left = index, prompt, cached, left
        self.todo = prompt
        self.blocks = self.later = 0
        self.start = self.end = 0


class Done(NamedTuple):
    """What a step brought: jobs that got their first token, jobs that ended, jobs that lost all."""

    first: list[Job]
    ended: list[Job]
    preempted: list[Job]


class Engine:
    """One engine: what waits, what runs, and when its next step ends."""

    def __init__(self, table: StepTable) -> None:
        self.table = table
        self.ends_at = float("inf")
        self.outstanding = 0
        self._waiting: deque[Job] = deque()
        self._prompts: deque[Job] = deque()
        self._running: dict[int, Job] = {}
        self._finishing: list[tuple[int, int]] = []
        self._step = 0
        self._context = 0
        self.free_blocks = table.blocks
        # How many running sequences fill a block at a step that leaves this remainder.
        self._filling = [0] * table.block_tokens
        self._began_at = 0.0
        self._steps = 0
        self._chunks: list[tuple[Job, int]] = []
        self._lost: list[Job] = []

    @property
    def is_idle(self) -> bool:
        """Whether no step runs."""
        return not self._steps

    def fits(self, job: Job) -> bool:
        """Return whether the KV cache could ever hold *job*."""
        return self._blocks_of(job.cached + job.prompt + job.left) <= self.table.blocks

    def add(self, now: float, job: Job) -> None:
        """Take *job* in; a run of steps is cut at the step that ends after *now*."""
        self._waiting.append(job)
        self.outstanding += 1
        if self.is_idle:
            self._plan(now)
        elif self._steps > 1 and len(self._running) < self.table.batch_max:
            self._steps = self.table.steps_within(
                len(self._running), self._context, now - self._began_at, self._steps
            )
            took = self.table.run_s(len(self._running), self._context, self._steps)
            self.ends_at = self._began_at + took

    def finish_step(self) -> Done:
        """Return what the steps that end now brought, and begin the next."""
        now, first, ended = self.ends_at, [], []
        lost, self._lost = self._lost, []
        self._advance(self._steps)
        for job, tokens in self._chunks:
            job.todo -= tokens
            if job.todo == 0:
                self._prompts.remove(job)
                first.append(job)
                job.left -= 1
                if job.left > 0:
                    self._run(job)
                else:
                    self.free_blocks += job.blocks
                    ended.append(job)
        while self._finishing and self._finishing[0][0] <= self._step:
            _, index = heapq.heappop(self._finishing)
            running = self._running.get(index)
            if running is not None and running.end <= self._step:
                self._stop(running)
                ended.append(running)
        self.outstanding -= len(ended)
        self._plan(now)
        return Done(first, ended, lost)

    def _advance(self, steps: int) -> None:
        """Let every running sequence grow by *steps* tokens."""
        self._context += steps * len(self._running)
        if not self.table.reserves_whole:
            self.free_blocks -= self.blocks_taken(steps)
        self._step += steps

    def blocks_taken(self, steps: int) -> int:
        """Return the blocks that running sequences take within *steps* steps."""
        size = self.table.block_tokens
        whole, rest = divmod(steps, size)
        begun = sum(self._filling[(self._step + i) % size] for i in range(rest))
        return whole * len(self._running) + begun

    def _run(self, job: Job) -> None:
        """Let *job*, whose prompt is done, get a token a step."""
        job.start, job.end = self._step, self._step + job.left
        self._running[job.index] = job
        heapq.heappush(self._finishing, (job.end, job.index))
        self._context += job.prompt + job.cached + 1
        self._filling[self._remainder(job)] += 1

    def _remainder(self, job: Job) -> int:
        """Return the remainder of those steps at which *job* takes a block."""
        size = self.table.block_tokens
        return (job.start - job.prompt - job.cached) % size

    def _stop(self, job: Job) -> None:
        """Take *job* out of those that run, and its blocks back."""
        del self._running[job.index]
        grown = self._step - job.start
        self._context -= job.prompt + job.cached + 1 + grown
        self._filling[self._remainder(job)] -= 1
        size = self.table.block_tokens
        held = job.blocks
        if not self.table.reserves_whole:
            tokens = job.prompt + job.cached
            held += -(-(tokens + grown) // size) - -(-tokens // size)
        self.free_blocks += held

    def _plan(self, now: float) -> None:
        """Begin the next step, or as many as nothing can happen in."""
        while (
            not self.table.reserves_whole
            and self.blocks_taken(1) > self.free_blocks
            and self._running
        ):
            self._preempt()
        self._admit()
        self._began_at = now
        if self._chunks:
            self._steps = 1
            took = self._mixed_s()
        elif self._running:
            self._steps = self._quiet_steps()
            took = self.table.run_s(len(self._running), self._context, self._steps)
        else:
            self._steps, self.ends_at = 0, float("inf")
            return
        self.ends_at = now + took

    def _mixed_s(self) -> float:
        tokens = pairs = prompts = 0
        for job, chunk in self._chunks:
            seen = job.prompt - job.todo + job.cached
            pairs += chunk * (2 * seen + chunk) // 2
            tokens += chunk
            prompts += chunk == job.todo
        return self.table.step_s(len(self._running), self._context, tokens, pairs, prompts)

    def _quiet_steps(self) -> int:
        """Return after how many steps something may happen: an end, or blocks that run short."""
        while self._finishing[0][1] not in self._running or (
            self._running[self._finishing[0][1]].end != self._finishing[0][0]
        ):
            heapq.heappop(self._finishing)
        steps = self._finishing[0][0] - self._step
        if not self.table.reserves_whole:
            safe = self.free_blocks // len(self._running) * self.table.block_tokens
            steps = min(steps, max(safe, 1))
        return max(steps, 1)

    def _admit(self) -> None:
        """Choose the prompts that the next step works on, and let in what waits for its turn."""
        self._chunks = []
        budget = self.table.tokens_max - len(self._running)
        for job in self._prompts:
            if budget <= 0:
                return
            chunk = min(job.todo, budget)
            self._chunks.append((job, chunk))
            budget -= chunk
        while self._waiting and budget > 0 and self._has_slot():
            job = self._waiting[0]
            if not self._allot(job):
                return
            self._waiting.popleft()
            if job.todo == 0:
                self._run(job)
                budget -= 1
                continue
            self._prompts.append(job)
            chunk = min(job.todo, budget)
            self._chunks.append((job, chunk))
            budget -= chunk

    def _has_slot(self) -> bool:
        return len(self._running) + len(self._prompts) < self.table.batch_max

    def _allot(self, job: Job) -> bool:
        """Hand out the blocks that *job* needs to begin; return whether there were enough."""
        # What is cached stays for as long as somebody runs on it.
        tokens = job.prompt + job.cached
        blocks = self._blocks_of(tokens + job.left if self.table.reserves_whole else tokens)
        # Who runs already shall not be preempted at the next step.
        spare = 0 if self.table.reserves_whole else len(self._running) // self.table.block_tokens
        if blocks + spare > self.free_blocks:
            return False
        self.free_blocks -= blocks
        job.blocks = blocks
        return True

    def _blocks_of(self, tokens: int) -> int:
        return -(-tokens // self.table.block_tokens)

    def _preempt(self) -> None:
        """Take all from the youngest sequence, which will work on all its tokens again."""
        job = next(reversed(self._running.values()))
        grown = self._step - job.start
        self._stop(job)
        job.prompt = job.todo = job.prompt + grown + 1
        job.left -= grown
        job.blocks = 0
        self._waiting.appendleft(job)
        self._lost.append(job)
