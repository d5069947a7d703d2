"""What the health page tells of an agent."""

from collections.abc import Mapping
from typing import Any, Final

from opentela.core.record import Lifecycle
from opentela.supervisor.agent.actions import Answer
from opentela.supervisor.agent.machine import AgentMachine
from opentela.supervisor.status import moment
from opentela.telemetry import metrics

_gpus: Final = metrics.gauge(
    "otela_agent_gpus", "GPUs, or places on the CPU, that an agent has.", ("state",)
)
_replicas: Final = metrics.gauge("otela_agent_replicas", "Replicas that hold GPUs of an agent.")
_commands: Final = metrics.counter(
    "otela_agent_commands_total", "Commands that an agent has answered.", ("kind", "outcome")
)


def measure(machine: AgentMachine) -> None:
    """Set the metrics."""
    held = len(machine.fleet.held)
    _gpus.labels("held").set(held)
    _gpus.labels("free").set(len(machine.fleet.gpus) - held)
    _replicas.set(len(machine.fleet.living))


def count(answer: Answer) -> None:
    """Count a command by what became of it."""
    accepted = "taken" if answer.holding.accepted else "refused"
    _commands.labels(answer.kind, "repeated" if answer.is_repeated else accepted).inc()


def readiness(machine: AgentMachine, *, is_connected: bool) -> tuple[bool, str]:
    """Return whether commands are taken and, if not, why."""
    session = machine.session
    if machine.leaving:
        return False, f"leaving: {machine.leaving}"
    if session is None or session.claim.lifecycle is not Lifecycle.SERVING:
        return False, "starting"
    return (True, "") if is_connected else (False, "no connection to the mesh")


def document(machine: AgentMachine, pids: Mapping[str, int]) -> dict[str, Any]:
    """Return everything for `/status`; *pids* are those of replicas' supervisors."""
    claim = machine.session.claim if machine.session else None
    held = machine.fleet.held
    return {
        "session": claim.session if claim else "",
        "provider": claim.provider if claim else "",
        "site": claim.site if claim else "",
        "node": claim.node if claim else "",
        "lifecycle": claim.lifecycle.name if claim else "",
        "hardware": claim.offer.hardware if claim else "",
        "walltime_ends_at": moment(claim.offer.walltime_ends_at) if claim else "",
        "leaving": machine.leaving,
        "term": machine.term,
        "gpus": list(machine.fleet.gpus),
        "gpus_free": [gpu for gpu in machine.fleet.gpus if gpu not in held],
        "replicas": [
            {
                "start": one.start,
                "template": one.template,
                "model": one.model,
                "gpus": list(one.gpus),
                "state": one.state,
                "session": one.session,
                "reason": one.reason,
                "pid": pids.get(one.start, 0),
            }
            for one in machine.fleet.told()
        ],
        "story": [{"at": moment(at), "what": what} for at, what in machine.story],
    }
