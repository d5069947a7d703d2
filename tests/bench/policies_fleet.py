"""Routers before unequal engines, simulated: what becomes of latency under each policy.

The policies are the product's own. The engines are those of the placer's simulator: continuous
batches, prompts in chunks, KV in blocks, by the rooflines of real GPUs. Each has a prefix cache in
the blocks that are free, the least recently used leave first. Several routers do not know of each
other, and each turn of a conversation comes to one by chance. Seeded; no clock is read.
"""

import heapq
import random
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

from tests.bench.policies_work import Talk, talks

from opentela.core.ids import ProviderId, SessionId, SiteId
from opentela.core.record import ModelOffer, Offer
from opentela.core.rng import Rng
from opentela.placer import catalogue, fit
from opentela.placer.shapes import ReplicaShape
from opentela.placer.simulate.engine import Engine, Job
from opentela.placer.simulate.table import StepTable
from opentela.router.directory import Candidate
from opentela.router.outcomes import Result
from opentela.router.policies.base import Call, Observed, Policy
from opentela.router.policies.least_load import LeastLoad
from opentela.wire.subjects import SessionPath

MODEL: Final = "llama-3.1-8b"
MIX: Final = (
    ("h100-80g-sxm", "NVIDIA H100 80GB HBM3", 20),
    ("gh200-96g", "NVIDIA GH200 480GB", 15),
    ("a100-80g-sxm", "NVIDIA A100-SXM4-80GB", 20),
    ("a100-40g-sxm", "NVIDIA A100-SXM4-40GB", 15),
    ("l40s-48g", "NVIDIA L40S", 10),
    ("rtx4090-24g", "NVIDIA GeForce RTX 4090", 10),
    ("a10-24g", "NVIDIA A10", 10),
)
"""GPUs of one hundred engines: id of the catalogue, what the offer calls it, how many."""
ALIKE: Final = ("a100-80g-sxm", "NVIDIA A100-SXM4-80GB")
Make: TypeAlias = Callable[[Rng], Policy]


class Setting(NamedTuple):
    """What is simulated.

    Attributes:
        engines: At most as many as `MIX` has; a smaller fleet has the same shares of each.
        alike: All have the same GPU instead.
        requests_s: A second, of all clients.
        warm_s: What arrives before is served and not counted.
    """

    engines: int = 100
    alike: bool = False
    routers: int = 4
    requests_s: float = 400.0
    lasts_s: float = 30.0
    warm_s: float = 10.0
    seed: int = 1


class Outcome(NamedTuple):
    """What one policy made of it.

    Attributes:
        latencies: Seconds from arrival to the last token, sorted.
        firsts: To the first token, sorted.
        imbalance: Requests at the fullest engine by those at the mean one, over all the time.
        hit_ratio: Prompt tokens that were in a cache.
    """

    latencies: list[float]
    firsts: list[float]
    imbalance: float
    hit_ratio: float

    def latency(self, share: float) -> float:
        """Return the latency that *share* of the requests stay below."""
        return _quantile(self.latencies, share)

    def first(self, share: float) -> float:
        """Return the time to the first token that *share* of the requests stay below."""
        return _quantile(self.firsts, share)


def _quantile(values: Sequence[float], share: float) -> float:
    return values[min(int(share * len(values)), len(values) - 1)]


class _Cache:
    """What an engine's free KV blocks still hold, the least recently used first."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._held: OrderedDict[str, int] = OrderedDict()
        self._tokens = 0

    def hit(self, *names: str) -> int:
        """Return the tokens of the first of *names* that is held."""
        for name in names:
            if name in self._held:
                self._held.move_to_end(name)
                return self._held[name]
        return 0

    def keep(self, name: str, tokens: int) -> None:
        """Hold so many tokens under *name*, and let go what finds no room."""
        self._tokens += tokens - self._held.pop(name, 0)
        self._held[name] = tokens
        room = self._engine.free_blocks * self._engine.table.block_tokens
        while self._tokens > room and self._held:
            self._tokens -= self._held.popitem(last=False)[1]


class _Request:
    """One request on its way."""

    __slots__ = (
        "arrived_at", "call", "context", "engine", "first_at", "prompt", "router", "talk", "turn",
    )  # fmt: skip

    def __init__(self, talk: Talk, turn: int, context: int, at: float, router: int) -> None:
        self.talk, self.turn, self.context = talk, turn, context
        self.prompt = context + talk.turns[turn].fresh
        self.arrived_at, self.router = at, router
        self.call = Call("m", "r", talk.body)
        self.engine = -1
        self.first_at = 0.0


class Told(LeastLoad):
    """`least_load` as it would be if each answer told how many requests its session has.

    No answer does: this shows what it would be worth.
    """

    def __init__(self, rng: Rng) -> None:
        super().__init__(rng)
        self._others: dict[SessionId, int] = {}

    def pick(self, _call: Call, candidates: Sequence[Candidate]) -> Candidate:
        """Return the better of two, by what all routers have there."""
        first = self._rng.randrange(len(candidates))
        second = self._rng.randrange(len(candidates) - 1)
        one, other = candidates[first], candidates[second + (second >= first)]
        return other if self._load(other) < self._load(one) else one

    def told(self, session: SessionId, outstanding: int) -> None:
        """Take note of what an answer told."""
        self._others[session] = max(outstanding - self._in_flight.of(session), 0)

    def _load(self, candidate: Candidate) -> int:
        return self._in_flight.of(candidate.session) + self._others.get(candidate.session, 0)


class Fleet:
    """One run of one policy."""

    def __init__(self, setting: Setting, make: Make) -> None:
        self.setting = setting
        self.candidates, self.engines = fleet(setting)
        self.caches = [_Cache(engine) for engine in self.engines]
        self.policies = [
            make(random.Random(f"{setting.seed}/{number}")) for number in range(setting.routers)
        ]
        self._by_session = {one.session: number for number, one in enumerate(self.candidates)}
        self._drawn = random.Random(setting.seed)
        self._events: list[tuple[float, int, int, _Request | None]] = []
        self._written = self._taken = 0
        self._under_way: dict[int, _Request] = {}
        self._spent = [0.0] * len(self.engines)
        self._latencies: list[float] = []
        self._firsts: list[float] = []
        self._prompted = self._hit = 0

    def run(self) -> Outcome:
        """Serve everything that comes."""
        setting = self.setting
        work = talks(
            random.Random(setting.seed), requests_s=setting.requests_s, lasts_s=setting.lasts_s
        )
        for talk in work:
            self._ask(talk, 0, talk.shared_tokens, talk.starts_at)
        while self._events:
            at, _, number, request = heapq.heappop(self._events)
            if request is not None:
                if at < setting.lasts_s:
                    self._arrive(at, request)
            elif at == self.engines[number].ends_at:
                self._step(at, number)
        mean = sum(self._spent) / len(self._spent)
        return Outcome(
            sorted(self._latencies),
            sorted(self._firsts),
            max(self._spent) / mean,
            self._hit / self._prompted,
        )

    def _ask(self, talk: Talk, turn: int, context: int, at: float) -> None:
        router = self._drawn.randrange(self.setting.routers)
        self._write(at, -1, _Request(talk, turn, context, at, router))

    def _write(self, at: float, number: int, request: _Request | None = None) -> None:
        self._written += 1
        heapq.heappush(self._events, (at, self._written, number, request))

    def _arrive(self, at: float, request: _Request) -> None:
        chooser = self.policies[request.router]
        chosen = chooser.pick(request.call, self.candidates)
        chooser.on_request_start(request.call, chosen)
        number = request.engine = self._by_session[chosen.session]
        talk = request.talk
        hit = min(self.caches[number].hit(f"talk {talk.number}", talk.shared), request.prompt - 1)
        if request.arrived_at >= self.setting.warm_s:
            self._prompted += request.prompt
            self._hit += hit
        self._taken += 1
        self._under_way[self._taken] = request
        engine = self.engines[number]
        before = engine.ends_at
        answer = talk.turns[request.turn].answer
        engine.add(at, Job(self._taken, request.prompt - hit, hit, answer))
        if engine.ends_at != before:
            self._write(engine.ends_at, number)

    def _step(self, now: float, number: int) -> None:
        engine = self.engines[number]
        done = engine.finish_step()
        for job in done.first:
            request = self._under_way[job.index]
            request.first_at = request.first_at or now
            self.caches[number].keep(request.talk.shared, request.talk.shared_tokens)
        for job in done.ended:
            self._end(now + engine.table.request_s, self._under_way.pop(job.index))
        if engine.ends_at < float("inf"):
            self._write(engine.ends_at, number)

    def _end(self, now: float, request: _Request) -> None:
        talk, turn = request.talk, request.talk.turns[request.turn]
        took = now - request.arrived_at
        observed = Observed(Result.ANSWERED, took, tokens_in=request.prompt, tokens_out=turn.answer)
        chosen = self.candidates[request.engine]
        chooser = self.policies[request.router]
        chooser.on_request_end(request.call, chosen, observed)
        if isinstance(chooser, Told):
            chooser.told(chosen.session, self.engines[request.engine].outstanding)
        context = request.prompt + turn.answer
        self.caches[request.engine].keep(f"talk {talk.number}", context)
        if request.arrived_at >= self.setting.warm_s:
            self._spent[request.engine] += took
            self._latencies.append(took)
            self._firsts.append(request.first_at - request.arrived_at)
        if request.turn + 1 < len(talk.turns):
            later = now + talk.turns[request.turn + 1].think_s
            self._ask(talk, request.turn + 1, context, later)


def fleet(setting: Setting) -> tuple[tuple[Candidate, ...], list[Engine]]:
    """Return the candidates and their engines, in the same order."""
    names = [(gpu, told) for gpu, told, share in MIX for _ in range(share)]
    count = setting.engines
    picked = [names[index * len(names) // count] for index in range(count)]
    if setting.alike:
        picked = [ALIKE] * count
    # Ids say nothing of the hardware: neighbours in their order are not of one kind.
    random.Random(0).shuffle(picked)
    shipped = fit.shipped()
    tables: dict[str, StepTable] = {}
    candidates: list[Candidate] = []
    engines: list[Engine] = []
    for number, (gpu, told) in enumerate(picked):
        if gpu not in tables:
            shape = ReplicaShape(model=catalogue.model(MODEL), gpu=catalogue.gpu(gpu))
            tables[gpu] = StepTable(shape, shipped)
        engines.append(Engine(tables[gpu]))
        session = SessionId(f"s{number:04}")
        candidates.append(
            Candidate(
                session=session,
                path=SessionPath(ProviderId("p"), SiteId("s"), session),
                offer=ModelOffer(name="m"),
                born_at_ms=0,
                terms=Offer(hardware=told, gpus=1),
            )
        )
    return tuple(candidates), engines
