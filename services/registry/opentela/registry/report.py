"""What a registry tells its operators: logs and metrics."""

from functools import partial
from typing import Final

from opentela.core.record import Lifecycle, is_suspected, lifecycle_of
from opentela.registry.letters import Letter, Published
from opentela.registry.machine import RegistryMachine
from opentela.registry.messages import PublishEvent
from opentela.telemetry import metrics
from opentela.telemetry.log import get_logger
from opentela.wire.events import LifecycleEvent
from opentela.wire.subjects import ROOT

log: Final = get_logger()

_published: Final = metrics.counter(
    "otela_registry_messages_published_total", "Messages that a registry has sent.", ("kind",)
)
_bytes: Final = metrics.counter(
    "otela_registry_published_bytes_total", "Payload that a registry has sent, in bytes.", ("kind",)
)
_events: Final = metrics.counter(
    "otela_registry_events_total", "Lifecycle events that a registry has published.", ("kind",)
)
_sessions: Final = metrics.gauge(
    "otela_registry_sessions", "Sessions that a registry holds.", ("lifecycle",)
)
_suspected: Final = metrics.gauge(
    "otela_registry_sessions_suspected", "Sessions that get no requests for now."
)
_unroutable: Final = metrics.gauge(
    "otela_registry_models_unroutable", "Models that are offered but have no routable session."
)


class Report:
    """Counts and logs what one registry does."""

    def __init__(self, machine: RegistryMachine) -> None:
        self._machine = machine
        for lifecycle in Lifecycle:
            _sessions.labels(lifecycle.name).set_function(partial(self._count, lifecycle))
        _suspected.set_function(self._count_suspected)
        _unroutable.set_function(lambda: sum(not sessions for sessions in machine.models.values()))

    def published(self, action: Published, letter: Letter) -> None:
        """Report a message that is about to be sent."""
        kind = letter.subject.removeprefix(f"{ROOT}.").partition(".")[0]
        _published.labels(kind).inc()
        _bytes.labels(kind).inc(len(letter.payload))
        if isinstance(action, PublishEvent):
            _events.labels(action.event.kind).inc()
            _log(action.event)

    def _count(self, lifecycle: Lifecycle) -> int:
        records = self._machine.held.records.values()
        return sum(lifecycle_of(record) is lifecycle for record in records)

    def _count_suspected(self) -> int:
        living = self._machine.held.living.values()
        return sum(is_suspected(r) for r in living if lifecycle_of(r) < Lifecycle.DOWN)


def _log(event: LifecycleEvent) -> None:
    told = log.bind(
        session=event.session,
        provider=event.provider,
        site=event.site,
        node=event.node,
        models=event.models,
        incarnation=event.incarnation,
        reason=event.reason,
    )
    match event.kind:
        case "JOINING":
            told.info("session_joined")
        case "SERVING":
            told.info("session_served")
        case "DRAINING":
            told.info("session_drained")
        case "DOWN":
            told.warning("session_went_down")
        case "LEFT":
            told.info("session_left")
        case "SUSPECTED":
            told.warning("suspicion_raised")
        case "TRUSTED":
            told.info("suspicion_refuted")
        case "CHANGED":
            told.info("offer_changed")
