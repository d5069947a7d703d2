"""An agent's machine under test, with the clock in the test's hand."""

from collections.abc import Sequence
from typing import Any, TypeVar

from opentela.core.ids import NodeId, ProviderId, SessionId, SiteId
from opentela.core.record import Claim
from opentela.supervisor.actions import Announce
from opentela.supervisor.agent import devices
from opentela.supervisor.agent.actions import AgentAction, Answer, LaunchReplica
from opentela.supervisor.agent.config import AgentConfig, TemplateConfig
from opentela.supervisor.agent.events import (
    AgentEvent,
    CommandArrived,
    Ended,
    Listening,
    ReplicaEnded,
    ReplicaSpoke,
)
from opentela.supervisor.agent.machine import AgentMachine, Allocation
from opentela.supervisor.claims import Place
from opentela.supervisor.config import (
    DrainConfig,
    EngineConfig,
    RestartConfig,
    SupervisorConfig,
)
from opentela.supervisor.events import Tick
from opentela.supervisor.walltime import Walltime
from opentela.wire.command import Command, Holding, Look, Replica, Start, Stop
from opentela.wire.subjects import SessionPath

WALL = 1_800_000_000.0
TERM_S = 18.0 + 8.0 + 4.0
SUPERVISOR = SupervisorConfig(
    beat_s=2.0,
    engine=EngineConfig(stop_s=8.0),
    drain=DrainConfig(limit_s=18.0),
    restart=RestartConfig(delay_s=4.0, failures_max=3, unserved_max=9),
)
TEMPLATE = TemplateConfig(
    command=("run", "{model}", "--port", "{port}"),
    options={"tp": ("--tp", "{tp}"), "pp": ("--pp", "{pp}")},
)

KindT = TypeVar("KindT")


class Even:
    """Draws the middle, so that jitter is none and back-off takes a quarter off."""

    def random(self) -> float:
        return 0.5

    def randrange(self, stop: int, /) -> int:
        return stop // 2

    def randbytes(self, n: int, /) -> bytes:
        return b"\x07" * n


def ulid(number: int) -> str:
    return f"01J{number:023d}"


def start(number: int, *, tp: int = 1, term: int = 1, **fields: Any) -> Start:
    named = {"template": "t", "model": "m", **fields}
    return Start(command=ulid(number), term=term, tp=tp, **named)


def stop(number: int, of: int, *, term: int = 1, reason: str = "") -> Stop:
    return Stop(command=ulid(number), term=term, start=ulid(of), reason=reason)


def spoke(of: int, state: str, *, launch: int = 0, session: str = "s", reason: str = "") -> Any:
    return ReplicaSpoke(ulid(of), launch, state, SessionId(session), reason)


def ended(of: int, how: Ended, *, launch: int = 0, reason: str = "") -> ReplicaEnded:
    return ReplicaEnded(ulid(of), launch, how, reason)


def only(actions: Sequence[AgentAction], kind: type[KindT]) -> KindT:
    """Return the one action of a kind."""
    (found,) = [action for action in actions if isinstance(action, kind)]
    return found


def config(**fields: Any) -> AgentConfig:
    return AgentConfig(**{"supervisor": SUPERVISOR, **fields})


class Bench:
    """A machine that serves, unless it is told not to."""

    def __init__(
        self,
        given: AgentConfig | None = None,
        *,
        gpus: int = 4,
        walltime: Walltime | None = None,
        serves: bool = True,
    ) -> None:
        self.machine = AgentMachine(
            given or config(),
            place=Place(ProviderId("p"), SiteId("a"), NodeId("n")),
            key="U" * 56,
            allocation=Allocation(devices.slots(gpus), {"t": TEMPLATE}, walltime),
            rng=Even(),
            now=0.0,
        )
        self.now = 0.0
        if serves:
            self.at(0.0)
            self.at(0.0, Listening(self.claim.session))

    @property
    def claim(self) -> Claim:
        assert self.machine.session is not None
        return self.machine.session.claim

    @property
    def path(self) -> SessionPath:
        assert self.machine.session is not None
        return self.machine.session.path

    def at(self, now: float, event: AgentEvent | None = None) -> list[AgentAction]:
        """Step once, at so many seconds after the beginning."""
        self.now = now
        return self.machine.step(now, WALL + now, event or Tick())

    def do(self, command: Command, now: float | None = None) -> list[AgentAction]:
        return self.at(self.now if now is None else now, CommandArrived(command, "to"))

    def told(self, command: Command) -> Holding:
        return only(self.do(command), Answer).holding

    def launch(self, command: Start) -> LaunchReplica:
        return only(self.do(command), LaunchReplica)

    def replica(self, of: int) -> Replica:
        return next(one for one in self.told(Look()).replicas if one.start == ulid(of))

    def due(self) -> float:
        """Return in how many seconds after the beginning something is due."""
        return self.machine.next_deadline(self.now, WALL + self.now)


def announced(actions: Sequence[AgentAction]) -> list[str]:
    return [action.claim.lifecycle.name for action in actions if isinstance(action, Announce)]
