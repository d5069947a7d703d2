"""Whatever placers say and replicas do, in any order: no GPU is shared, nothing is done twice."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.supervisor.agent.parts import Bench, config, ended, spoke, start, stop, ulid

from opentela.supervisor.actions import Exit
from opentela.supervisor.agent.actions import AgentAction, Answer, LaunchReplica, StopReplica
from opentela.supervisor.agent.events import AgentEvent, CommandArrived, Ended, ReplicaStuck
from opentela.supervisor.events import StopAsked, Tick
from opentela.wire.command import Look, Start, Stop

GPUS = 4
_few = st.integers(0, 4)
_steps = st.one_of(
    st.builds(start, _few, tp=st.integers(1, 3), term=st.integers(1, 4)),
    st.builds(stop, st.integers(5, 8), of=_few, term=st.integers(1, 4)),
    st.builds(Look),
    st.tuples(st.just("ended"), _few, st.sampled_from(Ended)),
    st.tuples(st.just("spoke"), _few, st.sampled_from(["loading", "ready", "stopped"])),
    st.tuples(st.just("late"), _few, st.sampled_from(Ended)),
    st.tuples(st.just("stuck"), _few, st.none()),
    st.tuples(st.just("pass"), st.integers(0, 20), st.none()),
    st.just("leave"),
)


class World:
    """What runs on a host, by what the machine had done; complains of what must never be."""

    def __init__(self, commands_kept: int) -> None:
        self.bench = Bench(config(commands_kept=commands_kept, ended_s=30.0), gpus=GPUS)
        self.now = 0.0
        self.running: dict[str, LaunchReplica] = {}
        self.first_launches: Counter[str] = Counter()
        self.answers: dict[str, tuple[bool, str]] = {}
        self.term = 0
        self.is_over = False

    def tell(self, event: AgentEvent) -> None:
        for action in self.bench.at(self.now, event):
            self._see(action, event)
        held = {
            gpu: one.start
            for one in self.bench.machine.fleet.told()
            for gpu in one.gpus
        }  # fmt: skip
        for launch in self.running.values():
            assert {held[gpu] for gpu in launch.gpus} == {launch.start}

    def _see(self, action: AgentAction, event: AgentEvent) -> None:
        match action:
            case LaunchReplica():
                busy = {gpu for one in self.running.values() for gpu in one.gpus}
                assert not busy & set(action.gpus), "a GPU is shared"
                assert action.start not in self.running
                assert not self.is_over
                self.running[action.start] = action
                if action.launch == 0:
                    self.first_launches[action.start] += 1
                    assert self.first_launches[action.start] == 1, "a command is done twice"
                    assert isinstance(event, CommandArrived)
                    assert isinstance(event.command, Start)
                    assert event.command.term >= self.term, "a late term is obeyed"
            case StopReplica(start=name, launch=launch):
                assert self.running[name].launch == launch
            case Answer(holding=holding):
                assert holding.term >= self.term, "terms go back"
                self.term = holding.term
                self._see_answer(event, accepted=holding.accepted, reason=holding.reason)
            case Exit(reason=reason):
                assert bool(reason) == bool(self.running)
                self.is_over = True
            case _:
                pass

    def _see_answer(self, event: AgentEvent, *, accepted: bool, reason: str) -> None:
        assert isinstance(event, CommandArrived)
        command = event.command
        is_fenced = "is over" in reason or "too old" in reason
        if isinstance(command, Start | Stop) and not is_fenced:
            known = self.answers.setdefault(command.command, (accepted, reason))
            assert known == (accepted, reason), "a repeated command is answered otherwise"


@settings(max_examples=300)
@given(steps=st.lists(_steps, max_size=60), commands_kept=st.sampled_from([1, 3, 100]))
def test_no_order_of_events_shares_a_gpu_or_does_a_command_twice(
    steps: list[object], commands_kept: int
) -> None:
    """Duplicates, late terms, crashes, reports of the past, forgotten commands and the end."""
    world = World(commands_kept)
    for step in steps:
        match step:
            case Start() | Stop() | Look():
                world.tell(CommandArrived(step, "to"))
            case ("ended", int(of), Ended() as how) if ulid(of) in world.running:
                launch = world.running.pop(ulid(of)).launch
                world.tell(ended(of, how, launch=launch))
            case ("spoke", int(of), str(state)) if ulid(of) in world.running:
                world.tell(spoke(of, state, launch=world.running[ulid(of)].launch))
            case ("late", int(of), Ended() as how):
                launch = world.running[ulid(of)].launch if ulid(of) in world.running else 0
                world.tell(ended(of, how, launch=launch - 1))
            case ("stuck", int(of), None) if ulid(of) in world.running:
                world.tell(ReplicaStuck(ulid(of), world.running[ulid(of)].launch, "it hangs"))
            case ("pass", int(seconds), None):
                world.now += seconds
                world.tell(Tick())
            case "leave":
                world.tell(StopAsked("enough"))
            case _:
                pass
