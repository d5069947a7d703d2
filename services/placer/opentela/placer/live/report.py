"""What a placer tells its operators: logs and metrics."""

from functools import partial
from typing import Final

from opentela.placer.live.account import state
from opentela.placer.live.machine import PlacerMachine
from opentela.telemetry import metrics
from opentela.telemetry.log import get_logger
from opentela.wire.audit import AuditEvent

log: Final = get_logger()

STATES: Final = ("told", "starting", "serving", "stopping")

_decisions: Final = metrics.counter(
    "otela_placer_decisions_total", "Decisions: carried out (`planned`), or not.", ("outcome",)
)
_moves: Final = metrics.counter(
    "otela_placer_moves_total", "Replicas told to start or stop, and the outcomes.", ("what",)
)
_solve: Final = metrics.histogram("otela_placer_solve_seconds", "Time to reach a decision.")
_leads: Final = metrics.gauge("otela_placer_leads", "Whether this placer leads.")
_replicas: Final = metrics.gauge(
    "otela_placer_replicas", "Replicas that a leading placer knows of, by state.", ("state",)
)
_agents: Final = metrics.gauge("otela_placer_agents", "Agents that the placer knows.")
_lost: Final = metrics.counter(
    "otela_placer_usage_lost_total", "Usage records that arrived faster than they could be counted."
)
_MOVES: Final = frozenset({"START", "STOP", "SERVES", "FREED", "FAILED", "ADOPTED"})


class Report:
    """Counts and logs what one placer does."""

    def __init__(self, machine: PlacerMachine) -> None:
        self._machine = machine
        self._lost_usage = 0
        self._differs = ""
        _leads.set_function(lambda: float(machine.is_leading))
        _agents.set_function(lambda: len(machine.fleet.agents))
        for name in STATES:
            _replicas.labels(name).set_function(partial(self._count, name))

    def solved(self, took_s: float) -> None:
        """Report how long a decision took."""
        _solve.observe(took_s)

    def lost_usage(self, total: int) -> None:
        """Report how many usage records could not be kept in all."""
        _lost.inc(total - self._lost_usage)
        self._lost_usage = total

    def differs(self, leader: str) -> None:
        """Report that *leader* leads with other settings; once, until it does no more."""
        if leader and leader != self._differs:
            log.warning("settings_differ", leader=leader)
        self._differs = leader

    def told(self, event: AuditEvent) -> None:
        """Report what the placer tells."""
        if event.kind in _MOVES:
            _moves.labels(event.kind.lower()).inc()
        if event.kind in {"PLANNED", "HELD"}:
            _decisions.labels(event.kind.lower()).inc()
            self._log_decision(event)
        elif event.kind in {"LED", "DEPOSED"}:
            bound = log.bind(term=event.term, dry_run=event.dry_run, reason=event.reason)
            if event.kind == "LED":
                bound.info("placer_led")
            else:
                bound.info("placer_deposed")
        else:
            self._log_move(event)

    def _log_decision(self, event: AuditEvent) -> None:
        changes = [
            {
                "model": one.model,
                "pool": one.pool,
                "tp": one.tp,
                "from": one.running,
                "to": one.planned,
            }
            for one in event.placed
            if one.running != one.planned
        ]
        bound = log.bind(term=event.term, dry_run=event.dry_run, reason=event.reason)
        if event.kind == "PLANNED":
            bound.info("plan_made", changes=changes, notes=event.notes)
        else:
            bound.debug("plan_held", notes=event.notes)

    def _log_move(self, event: AuditEvent) -> None:
        bound = log.bind(
            term=event.term,
            model=event.model,
            command=event.command,
            agent=event.agent,
            site=event.site,
            pool=event.pool,
        )
        match event.kind:
            case "START":
                bound.info("replica_start_told")
            case "STOP":
                bound.info("replica_stop_told", reason=event.reason)
            case "SERVES":
                bound.info("replica_served")
            case "FREED":
                bound.info("replica_freed", reason=event.reason)
            case "FAILED":
                bound.warning("replica_failed", reason=event.reason)
            case _:
                bound.info("replica_found")

    def _count(self, name: str) -> int:
        return sum(state(life) == name for life in self._machine.fleet.lives.values())
