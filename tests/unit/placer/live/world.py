"""Placers, agents and clients under virtual time: messages are late and lost, processes die."""

import random
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tests.unit.placer.live import parts

from opentela.core.record import Lifecycle, SessionRecord, claim_of
from opentela.placer.live import lease
from opentela.placer.live import messages as m
from opentela.placer.live.config import PlacerConfig
from opentela.placer.live.decide import Planner
from opentela.placer.live.machine import PlacerMachine
from opentela.wire.audit import AuditEvent
from opentela.wire.command import Command, Holding, Look, Replica, Start, Stop
from opentela.wire.lease import Held

TURN_S = 0.05
KNOWN_S = 5.0
WALL = 1_800_000_000.0


class Outcome(NamedTuple):
    accepted: bool
    reason: str = ""


class FakeAgent:
    """An agent that obeys the contract: once each command, no GPU twice, no older term."""

    is_honest = True

    def __init__(self, world: "World", number: int, gpus: int, ends_at: float) -> None:
        self.world, self.number, self.gpus, self.ends_at = world, number, gpus, ends_at
        self.record = parts.agent(number, ends_at=ends_at)
        self.session = claim_of(self.record).session
        self.is_alive = True
        self.term = 0
        self.known: dict[str, Outcome] = {}
        self.starts: dict[str, Start] = {}
        self.states: dict[str, str] = {}
        self.numbers: dict[str, int] = {}

    def held(self) -> int:
        living = (one for one, state in self.states.items() if state not in {"stopped", "failed"})
        return sum(self.starts[one].tp for one in living)

    def take(self, command: Command) -> Holding:
        outcome, name = Outcome(accepted=True), ""
        if isinstance(command, Look):
            self.term = max(self.term, command.term)
        else:
            name = command.command
            outcome = self.known.get(name) or self.decide(command)
        return Holding(
            command=name,
            accepted=outcome.accepted,
            reason=outcome.reason,
            term=self.term,
            hardware="cpu",
            gpus=tuple(map(str, range(self.gpus))),
            walltime_ends_at=self.ends_at,
            templates=(parts.TEMPLATE,),
            replicas=tuple(self.told()),
        )

    def told(self) -> Iterator[Replica]:
        for name, start in self.starts.items():
            yield Replica(
                start=name,
                template=start.template,
                model=start.model,
                tp=start.tp,
                pp=1,
                gpus=("0",),
                state=self.states[name],
            )

    def decide(self, command: Start | Stop) -> Outcome:
        if command.term < self.term:
            self.world.outdated += 1
            return Outcome(accepted=False, reason="an older term")
        self.term = command.term
        outcome = self.start(command) if isinstance(command, Start) else self.stop(command)
        self.known[command.command] = outcome
        return outcome

    def start(self, start: Start) -> Outcome:
        if self.held() + start.tp > self.gpus:
            self.world.crowded.append(f"{start.model} at {self.number}")
            return Outcome(accepted=False, reason="no room")
        world = self.world
        self.starts[start.command], self.states[start.command] = start, "loading"
        world.started.append(start)
        if world.rng.random() < world.failing:
            world.later(1.0, lambda: self.end(start.command, "failed"))
        else:
            world.later(world.rng.uniform(2, 6), lambda: self.serve(start.command))
        return Outcome(accepted=True)

    def serve(self, name: str) -> None:
        if self.is_alive and self.states[name] == "loading":
            self.states[name] = "ready"
            self.numbers[name] = self.world.number()
            self.world.tell(parts.engine(self.numbers[name], self.starts[name].model, made_by=name))

    def stop(self, stop: Stop) -> Outcome:
        state = self.states.get(stop.start)
        if state is None:
            self.known[stop.start] = Outcome(accepted=False, reason="stopped before")
        elif state in {"loading", "ready"}:
            if state == "ready":
                self.world.check_stop(self.starts[stop.start])
            self.states[stop.start] = "draining"
            self.leave(stop.start, Lifecycle.DRAINING)
            self.world.later(
                self.world.rng.uniform(0.5, 2), lambda: self.end(stop.start, "stopped")
            )
        return Outcome(accepted=True)

    def leave(self, name: str, lifecycle: Lifecycle) -> None:
        if name in self.numbers:
            model = self.starts[name].model
            self.world.tell(
                parts.engine(self.numbers[name], model, made_by=name, lifecycle=lifecycle)
            )

    def end(self, name: str, state: str) -> None:
        if self.is_alive:
            self.states[name] = state
            self.leave(name, Lifecycle.LEFT)

    def die(self) -> None:
        self.is_alive = False
        for name, state in self.states.items():
            if state in {"ready", "draining"}:
                self.leave(name, Lifecycle.LEFT)
        self.world.tell(parts.agent(self.number, Lifecycle.LEFT))


class World:
    """What happens, in order of time.

    Attributes:
        crowded: Starts that met no free GPU.
        robbed: Models whose last replica was stopped while somebody asked.
        outdated: Commands of older terms that agents refused.
        failing: Share of starts that fail.
        paused: Placers whose processes are stopped, and what they have not read yet.
        cut: Placers that do not reach the hub's bucket.
        by_hand: Models that somebody runs without a placer, by the number of their session.
        may_rob: Whether last replicas may be stopped while somebody asks.
        clocks: By how much each placer's clock is wrong.
        lag: Share of commands that are seconds late.
    """

    def __init__(self, seed: int, config: PlacerConfig, *, loss: float = 0.0) -> None:
        self.rng = random.Random(seed)
        self.config = config
        self.loss = loss
        self.now = 0.0
        self.due: list[tuple[float, int, Callable[[], None]]] = []
        self.count = 0
        self.agents: list[FakeAgent] = []
        self.placers: list[PlacerMachine] = []
        self.dead: set[int] = set()
        self.paused: dict[int, list[m.Event]] = {}
        self.cut: set[int] = set()
        self.clocks: list[float] = []
        self.by_hand: dict[int, str] = {}
        self.lag = 0.0
        self.has_bucket = True
        self.next_revision = 1
        self.records: dict[str, SessionRecord] = {}
        self.lease = Held()
        self.rates: dict[str, float] = {}
        self.since: dict[str, float] = {}
        self.events: list[AuditEvent] = []
        self.started: list[Start] = []
        self.crowded: list[str] = []
        self.robbed: list[str] = []
        self.may_rob = False
        self.outdated = 0
        self.failing = 0.0
        self.planner = Planner(config, {})

    # Making

    def number(self) -> int:
        self.count += 1
        return self.count

    def agent(self, gpus: int, *, lasts_s: float = 0.0) -> FakeAgent:
        ends_at = WALL + self.now + lasts_s if lasts_s else 0.0
        made = FakeAgent(self, self.number(), gpus, ends_at)
        self.agents.append(made)
        self.tell(made.record)
        return made

    def placer(self, *, clock_s: float = 0.0) -> int:
        place = len(self.placers)
        self.clocks.append(clock_s)
        machine = PlacerMachine(
            self.config,
            name=f"placer{place}",
            instance=f"i{place}",
            rng=self.rng,
            now=self.now,
            wall=self.wall(place),
        )
        self.placers.append(machine)
        self.feed(place, m.Changed(records=tuple(self.records.values()), is_whole=True))
        return place

    def wall(self, place: int) -> float:
        return WALL + self.now + self.clocks[place]

    def pause(self, place: int) -> None:
        """Stop its process; what is on its way to it waits."""
        self.paused.setdefault(place, [])

    def resume(self, place: int) -> None:
        """Let it go on, with all that it has not read."""
        for event in self.paused.pop(place, ()):
            self.feed(place, event)

    def lose_bucket(self) -> None:
        """Have the bucket deleted, and the lease with it."""
        self.has_bucket, self.lease = False, Held()

    def leader(self) -> PlacerMachine | None:
        awake = [
            one
            for at, one in enumerate(self.placers)
            if at not in self.dead and at not in self.paused
        ]
        leading = [one for one in awake if one.may_act(self.now)]
        assert len(leading) <= 1
        return leading[0] if leading else None

    # Happening

    def later(self, delay_s: float, do: Callable[[], None]) -> None:
        self.due.append((self.now + delay_s, self.number(), do))

    def start_by_hand(self, model: str, *, lasts_s: float) -> None:
        """Have somebody start an engine, and end it after a while."""
        number = self.number()
        self.by_hand[number] = model
        self.tell(parts.engine(number, model))

        def end() -> None:
            del self.by_hand[number]
            self.tell(parts.engine(number, model, lifecycle=Lifecycle.LEFT))

        self.later(lasts_s, end)

    def tell(self, record: SessionRecord) -> None:
        """Have every view hear of a record, a little later."""
        self.records[claim_of(record).session] = record
        for place in range(len(self.placers)):
            self.later(
                self.rng.uniform(0, 0.2),
                lambda at=place: self.feed(at, m.Changed(records=(record,))),  # type: ignore[misc]
            )

    def run(self, seconds: float, *, until: Callable[[], bool] | None = None) -> float:
        """Let time pass, or until something holds; return how much did."""
        began = self.now
        while self.now < began + seconds and not (until and until()):
            self.now += TURN_S
            for one in sorted(one for one in self.due if one[0] <= self.now):
                self.due.remove(one)
                one[2]()
            self.ask()
            for place in range(len(self.placers)):
                self.feed(place, m.Tick())
            self.check()
        return self.now - began

    def ask(self) -> None:
        """Have clients ask for what they ask for."""
        self.since = {model: at for model, at in self.since.items() if self.rates.get(model)}
        for model, rate in self.rates.items():
            if self.rng.random() < rate * TURN_S:
                self.since.setdefault(model, self.now)
                record = parts.used(model, status=200 if self.serving(model) else 503)
                for place in range(len(self.placers)):
                    self.feed(place, m.Used(records=(record,)))

    def feed(self, place: int, event: m.Event) -> None:
        if place in self.dead:
            return
        if place in self.paused:
            if not isinstance(event, m.Tick):
                self.paused[place].append(event)
            return
        for action in self.placers[place].step(self.now, self.wall(place), event):
            match action:
                case m.Tell():
                    self.command(place, action)
                case m.AskBucket():
                    self.ask_bucket(place, action.action)
                case m.Plan():
                    self.plan(place, action)
                case m.Audit(event=told):
                    self.events.append(told)

    def command(self, place: int, tell: m.Tell) -> None:
        agent = next(one for one in self.agents if one.session == tell.path.session)

        def arrive() -> None:
            if not agent.is_alive:
                return
            holding = agent.take(tell.command)
            if self.rng.random() < self.loss:
                return
            held = m.Held(epoch=tell.epoch, provider="p", agent=agent.session, holding=holding)
            self.later(self.rng.uniform(0.005, 0.1), lambda: self.feed(place, held))

        if self.rng.random() >= self.loss:
            is_late = self.rng.random() < self.lag
            self.later(self.rng.uniform(0.005, 10.0 if is_late else 0.1), arrive)

    def ask_bucket(self, place: int, action: lease.Action) -> None:
        if place in self.cut:
            lost = m.Elected(event=lease.Unanswered(why="cut off"))
            self.later(self.config.lease.renew_s, lambda: self.feed(place, lost))
            return
        answer = self.bucket(place, action)
        self.later(self.rng.uniform(0.01, 0.1), lambda: self.feed(place, m.Elected(event=answer)))

    def bucket(self, place: int, action: lease.Action) -> lease.Event:
        """Return what JetStream answers."""
        if isinstance(action, lease.Make) and not self.has_bucket:
            self.has_bucket, self.next_revision = True, int(self.wall(place) * 1000)
        if not self.has_bucket:
            is_read = isinstance(action, lease.Read)
            return lease.Seen(held=None) if is_read else lease.Unanswered(why="no such stream")
        if not isinstance(action, lease.Write):
            return lease.Seen(held=self.lease)
        if action.revision != self.lease.revision:
            return lease.Written(revision=0, sent_at=self.now)
        self.lease = Held(revision=self.next_revision, entry=action.entry)
        self.next_revision += 1
        return lease.Written(revision=self.lease.revision, sent_at=self.now)

    def plan(self, place: int, plan: m.Plan) -> None:
        planned = m.Planned(number=plan.number, decided=self.planner.answer(plan.question))
        self.later(self.rng.uniform(0.02, 0.3), lambda: self.feed(place, planned))

    # Looking

    def serving(self, model: str, state: str = "ready") -> int:
        """Return how many replicas of *model* serve."""
        return sum(
            agent.starts[name].model == model and told == state
            for agent in self.agents
            if agent.is_alive
            for name, told in agent.states.items()
        )

    def check_stop(self, start: Start) -> None:
        # Who has just begun to ask cannot be known of yet.
        asked_s = self.now - self.since.get(start.model, self.now)
        others = list(self.by_hand.values()).count(start.model)
        if asked_s > KNOWN_S and self.serving(start.model) + others < 2:
            self.robbed.append(start.model)

    def check(self) -> None:
        leader = self.leader()
        if leader is not None:
            honest = {agent.session for agent in self.agents if agent.is_honest}
            for agent in leader.fleet.agents.values():
                if agent.session in honest and agent.holding:
                    assert leader.fleet.free(agent) >= 0, "a GPU held twice"
        assert self.crowded == []
        assert self.robbed == [] or self.may_rob

    def kinds(self, kind: str) -> list[AuditEvent]:
        """Return what was told of that kind."""
        return [one for one in self.events if one.kind == kind]
