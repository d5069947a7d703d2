"""Both halves of a stream, joined by a wire that loses, repeats and reorders frames."""

from collections import deque
from collections.abc import Callable
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from opentela.stream.callee import Callee, CalleeSettings
from opentela.stream.caller import Caller, CallerSettings, Request
from opentela.stream.events import (
    TICK,
    AbortEngine,
    Acknowledged,
    Begin,
    CalleeEvent,
    CallerEvent,
    Consumed,
    EngineConnected,
    EngineData,
    EngineEnd,
    EngineFailed,
    EngineHead,
    EngineTook,
    PauseEngine,
    ResumeEngine,
    StartEngine,
    Withdraw,
    WriteBody,
)
from opentela.wire import frames
from opentela.wire.frames import Data, End, Fail, FailKind, Head, Timings

WINDOW_BYTES = 1000
TURNS_MAX = 5000
CALLER = CallerSettings(window_bytes=WINDOW_BYTES)
CALLEE = CalleeSettings(window_bytes=WINDOW_BYTES)


Trouble = Callable[[int], str]
KINDS = ("lost", "twice", "early")


def no_trouble(_: int) -> str:
    return ""


def one_fault(at: int, kind: str) -> Trouble:
    return lambda index: kind if index == at else ""


def many_faults(rng: Random, share: float) -> Trouble:
    return lambda _: rng.choice(KINDS) if rng.random() < share else ""


class Wire:
    """One direction, and what happens to some of its frames."""

    def __init__(self, trouble: Trouble) -> None:
        self.trouble = trouble
        self.under_way: deque[bytes] = deque()
        self.sent = 0

    def send(self, frame: frames.Frame) -> None:
        what = self.trouble(self.sent)
        self.sent += 1
        self.under_way.append(frames.encode(frame))
        if what == "lost":
            self.under_way.pop()
        elif what == "twice":
            self.under_way.append(self.under_way[-1])
        elif what == "early":
            self.under_way.rotate(1)

    def receive(self) -> frames.Frame:
        return frames.decode(self.under_way.popleft())


class World:
    """A router, a session and an engine, with time that jumps to the next deadline."""

    def __init__(
        self,
        rng: Random,
        body: bytes,
        answer: list[bytes],
        to_session: Trouble = no_trouble,
        to_router: Trouble = no_trouble,
    ) -> None:
        self.rng = rng
        self.now = 0.0
        request = Request(method="POST", path="/", headers=(), body=body, deadline_s=60.0)
        self.caller = Caller(1, request, CALLER)
        self.callee = Callee(1, CALLEE)
        self.to_session = Wire(to_session)
        self.to_router = Wire(to_router)
        self.told: list[Head | End | Fail] = []
        self.received = b""
        self.consumed = 0
        self.script: deque[CalleeEvent] = deque([EngineHead(200, ()), *map(EngineData, answer)])
        self.script.append(EngineEnd())
        self.join_reads()
        self.engine_got = b""
        self.engine_taken = 0
        self.engine_starts = 0
        self.engine_has_all = False
        self.engine_runs = False
        self.engine_held = False
        self.multipart = len(body) > frames.PART_BYTES

    def join_reads(self) -> None:
        """Let the engine's first or last read hold more than one thing, as chance has it."""
        script = self.script
        if len(script) > 2 and self.rng.randrange(2):
            last, data = script.pop(), script.pop()
            assert isinstance(last, EngineEnd)
            assert isinstance(data, EngineData)
            script.append(EngineData(data.data, ended=True))
        if self.rng.randrange(2):
            script.popleft()
            second = script.popleft()
            if isinstance(second, EngineData):
                script.appendleft(EngineHead(200, (), second.data, second.ended))
            else:
                script.appendleft(EngineHead(200, (), ended=True))

    def router(self, event: CallerEvent) -> None:
        if isinstance(event, Data) and self.caller.passes(self.now, event):
            self.received += event.data
            assert len(self.received) - self.consumed <= WINDOW_BYTES
            return
        for action in self.caller.step(self.now, event):
            match action:
                case Acknowledged():
                    assert not self.told
                case Data():
                    self.received += action.data
                    assert len(self.received) - self.consumed <= WINDOW_BYTES
                case Head(end=Timings() as timings):
                    self.received += action.data
                    self.told += (action, End(action.stream, int(bool(action.data)), timings))
                case Head() | End() | Fail():
                    self.told.append(action)
                case _:
                    self.to_session.send(action)

    def session(self, event: CalleeEvent) -> None:
        if isinstance(event, EngineData) and event.data and not event.ended:
            seq = self.callee.passes(self.now, len(event.data))
            if seq >= 0:
                self.to_router.send(Data(1, seq, event.data))
                return
        for action in self.callee.step(self.now, event):
            match action:
                case StartEngine():
                    self.engine_starts += 1
                    self.engine_runs = True
                    self.engine_got = action.request.body
                    self.engine_has_all = not action.request.more
                    self.session(EngineConnected())
                case WriteBody():
                    self.engine_got += action.data
                    self.engine_has_all = not action.more
                    waiting = len(self.engine_got) - self.engine_taken
                    assert waiting <= max(WINDOW_BYTES, frames.PART_BYTES)
                case AbortEngine():
                    self.engine_runs = False
                case PauseEngine():
                    self.engine_held = True
                case ResumeEngine():
                    self.engine_held = False
                case _:
                    self.to_router.send(action)

    def turns(self) -> list[object]:
        """Return what may happen next, at this moment."""
        possible: list[object] = []
        if self.to_session.under_way:
            possible.append(self.deliver_to_session)
        if self.to_router.under_way:
            possible.append(self.deliver_to_router)
        if self.consumed < len(self.received) and not self.caller.ended:
            possible.append(self.consume)
        if self.multipart and self.engine_taken < len(self.engine_got):
            possible.append(self.take)
        if self.engine_runs and self.engine_has_all and not self.engine_held and self.script:
            possible.append(self.answer)
        if self.engine_runs and self.engine_held and len(self.script) == 1:
            # One read held the end as well.
            possible.append(self.answer)
        return possible

    def deliver_to_session(self) -> None:
        self.session(self.to_session.receive())

    def deliver_to_router(self) -> None:
        self.router(self.to_router.receive())

    def consume(self) -> None:
        size = self.rng.randrange(1, len(self.received) - self.consumed + 1)
        self.consumed += size
        self.router(Consumed(size))

    def take(self) -> None:
        size = len(self.engine_got) - self.engine_taken
        self.engine_taken += size
        self.session(EngineTook(size))

    def answer(self) -> None:
        event = self.script.popleft()
        if not self.script:
            self.engine_runs = False
        self.session(event)

    def jump(self) -> bool:
        """Move time to the next deadline; False when there is none."""
        moments = [m for m in (self.caller.next_deadline(), self.callee.next_deadline()) if m]
        if not moments:
            return False
        self.now = max(self.now, min(moments))
        self.router(TICK)
        self.session(TICK)
        return True

    def run(self) -> None:
        for _ in range(TURNS_MAX):
            possible = self.turns()
            if possible:
                self.rng.choice(possible)()  # type: ignore[operator]
            elif not self.jump():
                return
        raise AssertionError("the stream did not end")


PATTERN = b"".join(n.to_bytes(3, "big") for n in range(frames.PART_BYTES))
bodies = st.one_of(
    st.binary(max_size=50), st.integers(1, 3 * frames.PART_BYTES).map(lambda size: PATTERN[:size])
)
answers = st.lists(st.integers(1, 3000), max_size=12).map(
    lambda sizes: [bytes([index]) * size for index, size in enumerate(sizes)]
)
seeds = st.integers(0, 2**32)


def check(world: World, body: bytes, answer: list[bytes]) -> None:
    ends = [told for told in world.told if not isinstance(told, Head)]
    assert len(ends) == 1
    assert world.caller.ended
    assert world.engine_starts <= 1
    assert body.startswith(world.engine_got)
    whole = b"".join(answer)
    assert whole.startswith(world.received)
    if isinstance(ends[0], End):
        assert world.received == whole
        assert world.engine_got == body
    elif ends[0].definite:
        assert world.engine_got != body or not world.engine_has_all


@given(seeds, bodies, answers)
def test_without_trouble_every_byte_arrives(seed: int, body: bytes, answer: list[bytes]) -> None:
    """Whatever the order of turns and however slow the client: success, bytes intact."""
    world = World(Random(seed), body, answer)
    world.router(Begin())
    world.run()
    check(world, body, answer)
    assert isinstance(world.told[-1], End)
    assert world.callee.ended


@given(seeds, bodies, answers, st.sampled_from([0.02, 0.1, 0.5]))
def test_with_trouble_nothing_false_is_told(
    seed: int, body: bytes, answer: list[bytes], share: float
) -> None:
    """Lost, repeated, reordered frames: the whole answer or one failure, never a false success."""
    rng = Random(seed)
    faults = many_faults(rng, share)
    check_with(World(rng, body, answer, faults, faults), body, answer)


one_faults = st.builds(one_fault, st.integers(0, 20), st.sampled_from(KINDS))
faulty_sides = one_faults.flatmap(
    lambda fault: st.sampled_from([(fault, no_trouble), (no_trouble, fault)])
)


@given(seeds, bodies, answers, faulty_sides)
def test_one_fault_anywhere_is_survived_or_told(
    seed: int, body: bytes, answer: list[bytes], sides: tuple[Trouble, Trouble]
) -> None:
    """The hardest to see: everything else is in order."""
    check_with(World(Random(seed), body, answer, *sides), body, answer)


def check_with(world: World, body: bytes, answer: list[bytes]) -> None:
    world.router(Begin())
    world.run()
    check(world, body, answer)
    if world.engine_starts:
        assert world.callee.ended
        assert not world.engine_runs


@given(seeds, answers, st.integers(0, 30))
def test_withdrawing_stops_the_engine_at_any_moment(
    seed: int, answer: list[bytes], turns: int
) -> None:
    """The engine stops, the session's half ends, and the router is told nothing more."""
    world = World(Random(seed), b"{}", answer)
    world.router(Begin())
    for _ in range(turns):
        possible = world.turns()
        if possible:
            world.rng.choice(possible)()  # type: ignore[operator]
    told = len(world.told)
    world.router(Withdraw("client gone"))
    world.run()
    assert world.callee.ended
    assert not world.engine_runs
    assert len(world.told) == told


@given(seeds, answers, st.integers(0, 12))
def test_an_engine_that_breaks_gives_what_it_gave_and_a_failure(
    seed: int, answer: list[bytes], after: int
) -> None:
    """Every byte before the break arrives, then the failure; never an end."""
    world = World(Random(seed), b"{}", answer[:after])
    world.script = deque([EngineHead(200, ()), *map(EngineData, answer[:after])])
    world.script.append(EngineFailed(FailKind.ENGINE_LOST, "reset"))
    world.router(Begin())
    world.run()
    assert world.received == b"".join(answer[:after])
    assert world.told[-1] == Fail(1, FailKind.ENGINE_LOST, False, True, "reset")  # noqa: FBT003
