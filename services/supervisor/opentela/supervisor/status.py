"""What the health page tells of a supervisor."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from opentela.core.record import Lifecycle
from opentela.supervisor.engine_state import EngineState
from opentela.supervisor.machine import Machine
from opentela.telemetry import metrics

_state: Final = metrics.gauge(
    "otela_supervisor_engine_state", "1 for the state that the engine is in.", ("state",)
)
_restarts: Final = metrics.gauge("otela_supervisor_engine_restarts", "Restarts of the engine.")
_running: Final = metrics.gauge(
    "otela_supervisor_requests_running", "Requests in progress at the gateways."
)

_dropped: Final = metrics.gauge(
    "otela_supervisor_output_dropped_bytes",
    "Engine output that was dropped because the reader of the supervisor's output was too slow.",
)


def measure(machine: Machine, running: int, dropped_bytes: int = 0) -> None:
    """Set the metrics."""
    for state in EngineState:
        _state.labels(state.value).set(state is machine.state)
    _restarts.set(max(0, machine.restarts))
    _running.set(running)
    _dropped.set(dropped_bytes)


def readiness(machine: Machine, *, is_connected: bool) -> tuple[bool, str]:
    """Return whether requests are taken and, if not, why."""
    session, life = machine.session, machine.life
    if session is None or life is None:
        return False, machine.leaving or "starting"
    if machine.leaving:
        return False, f"leaving: {machine.leaving}"
    if life.state is not EngineState.READY:
        return False, ": ".join(filter(None, (str(life.state), _obstacle(machine))))
    if session.claim.lifecycle is not Lifecycle.SERVING:
        return False, session.claim.lifecycle.name.lower()
    return (True, "") if is_connected else (False, "no connection to the mesh")


def _obstacle(machine: Machine) -> str:
    """Return what a session that does not serve yet waits for, as far as it is known."""
    assert machine.session is not None
    assert machine.life is not None
    if machine.session.claim.reason:
        return machine.session.claim.reason
    if machine.life.offer_failure:
        return f"its models cannot be read: {machine.life.offer_failure}"
    return machine.life.progress.stage if machine.life.progress else ""


def document(
    machine: Machine, *, pid: int, address: str, running: int, tail: Sequence[str]
) -> dict[str, Any]:
    """Return everything for `/status`."""
    session, life = machine.session, machine.life
    claim = session.claim if session else None
    return {
        "session": claim.session if claim else "",
        "provider": claim.provider if claim else "",
        "site": claim.site if claim else "",
        "node": claim.node if claim else "",
        "lifecycle": claim.lifecycle.name if claim else "",
        "incarnation": claim.incarnation if claim else 0,
        "reason": claim.reason if claim else "",
        "models": [model.name for model in claim.offer.models] if claim else [],
        "models_left_out": list(machine.left_out),
        "walltime_ends_at": moment(claim.offer.walltime_ends_at) if claim else "",
        "running": running,
        "restarts": max(0, machine.restarts),
        "engine": {
            "kind": claim.offer.engine if claim else "",
            "version": claim.offer.engine_version if claim else "",
            "state": machine.state.value,
            "pid": pid,
            "address": address,
            "progress": life.progress._asdict() if life and life.progress else None,
            "offer_failure": life.offer_failure if life else "",
        },
        "story": [{"at": moment(at), "what": what} for at, what in machine.story],
        "log": list(tail),
    }


def moment(wall: float) -> str:
    """Return an instant as people read it; empty for 0, which is never."""
    return datetime.fromtimestamp(wall, UTC).isoformat(timespec="milliseconds") if wall else ""
