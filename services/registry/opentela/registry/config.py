"""Every knob of a registry: its unit, what it trades, how it relates to others.

`LAN` is what the defaults are made for: sites joined by the hub. `LOCAL` is for one machine, where
nothing is far and somebody watches; `WAN` for sites behind links that are slow, lossy or often cut.
"""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from opentela.core.errors import ConfigError
from opentela.core.session_map import SESSIONS_PER_PROVIDER
from opentela.telemetry.config import HealthConfig, LogConfig
from opentela.wire import history
from opentela.wire.control import BEAT_EVERY_S

Seconds = Annotated[float, Meta(gt=0)]
Share = Annotated[float, Meta(gt=0, le=1)]
Count = Annotated[int, Meta(ge=1)]


class DetectorConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When silence becomes suspicion, and suspicion the end.

    A session says itself how often it beats (`every_s`, 1 s by default).

    Attributes:
        late_beats: Beats; silence of `late_beats * every_s` makes a registry probe. Lower finds the
            dead sooner (at most this long after death when the mesh says "no responders") and
            probes the living more often. Above the 1.1 that owners' jitter makes of a beat.
        lease_beats: Beats; silence of `lease_beats * every_s` together with `probes_min`
            unanswered probes is suspicion. Lower leaves a frozen host or a half-open link sooner,
            and suspects more that were only slow, until they say so. Above `late_beats`.
        probes_min: Probes that must have gone unanswered by then.
        probe_every_s: Seconds between probes of a late session, which wait for no answer to the
            one before. The more fit between being late and the end of the lease, the more losses
            they outlast. Stretched as the lease is, so that their number stays.
        probe_timeout_s: Seconds until a probe counts as unanswered; above a round trip. An answer
            that comes later is a sign of life all the same.
        suspect_probe_every_s: Seconds between probes of a suspected session: what it takes to
            notice that it is back.
        grace_s: Seconds of suspicion until `LEFT`, which cannot be taken back. Above the longest
            pause that is to be survived, with time to reconnect: 32 s of SIGSTOP and 13 s.
        advisory_ttl_s: Seconds for which a scheduler's word on a session holds (`otela advise`).
            While it says that the session ended, silence is believed at once and `grace_s` is not
            waited for; while it says that it runs, no silence is believed.
    """

    late_beats: Annotated[float, Meta(gt=1)] = 1.2
    lease_beats: Annotated[float, Meta(gt=1)] = 1.7
    probes_min: Count = 3
    probe_every_s: Seconds = 0.1
    probe_timeout_s: Seconds = 0.2
    suspect_probe_every_s: Seconds = 2.0
    grace_s: Seconds = 45.0
    advisory_ttl_s: Seconds = 60.0

    def __post_init__(self) -> None:
        if self.lease_beats <= self.late_beats:
            raise ConfigError(
                f"detector.lease_beats = {self.lease_beats} is not above late_beats",
                remedy=f"set it above {self.late_beats}",
            )


class RestraintConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a registry doubts itself instead of the sessions.

    Attributes:
        doubt_share: Share of the watched sessions; when at least this many are silent together,
            it is likelier that the registry is cut off than that all of them died.
        doubt_sessions_min: Sessions; fewer silent ones never cause doubt.
        doubt_max_s: Seconds of doubt after which evictions go on: sites do die.
        evictions_share: Share of the living that may be evicted in `evictions_window_s`.
        evictions_min: Sessions that may be evicted in a window however few live.
        evictions_window_s: Seconds.
        lag_s: Seconds by which a registry may wake up late before it takes itself for slow.
        widen_max: Factor; a registry that is slow, or alone in what it cannot reach, stretches
            `lease_beats`, `probe_every_s` and `probe_timeout_s` by 1, 2, … up to this, and back by
            one a calm round.
            1 never stretches. What the mesh says nobody listens to is dead all the same.
    """

    doubt_share: Share = 0.5
    doubt_sessions_min: Count = 8
    doubt_max_s: Seconds = 600.0
    evictions_share: Share = 0.2
    evictions_min: Count = 8
    evictions_window_s: Seconds = 60.0
    lag_s: Seconds = 0.25
    widen_max: Annotated[float, Meta(ge=1)] = 4.0


class PeersConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How registries keep each other up to date.

    Attributes:
        gossip_s: Seconds between rounds: one presence to all, one digest to a random peer. What
            a lost delta costs at most, times the number of peers; some 400 bytes each.
        heard_s: Seconds without a word after which a peer counts as away: it is not gossiped with,
            and the quorum for suspicion does without it. A few rounds.
        memory_s: Seconds for which an away peer is remembered, and nobody evicted: it may hear whom
            nobody here does, and an eviction cannot be refuted. Above the longest partition that
            is to be survived; so long do silent sessions linger, suspected, when a registry dies.
        quorum: Registries that must fail to reach a session before it is suspected; capped at
            those that were heard within `heard_s`, this one included, so that the last one decides
            alone. One that stops in order is not counted from then on.
        stale_s: Seconds without an answer to a comparison, while peers are there, after which the
            map may be out of date and `/readyz` is red. Several rounds.
        learn_s: Seconds for which a registry without peers and without a state file listens
            before it answers: three beats make every living session known.
    """

    gossip_s: Seconds = 1.0
    heard_s: Seconds = 5.0
    memory_s: Seconds = 600.0
    quorum: Count = 2
    stale_s: Seconds = 15.0
    learn_s: Seconds = 3.0


class RetentionConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long the dead are remembered.

    Attributes:
        tombstone_s: Seconds for which a session that has `LEFT` is kept, so that no old copy of
            its record brings it back. Above the longest partition; some 2 KB each.
        clock_margin_s: Seconds more, because clocks differ.
        sweep_s: Seconds between sweeps.
        state_file: Where the map is kept over a restart, mode 0600; empty for nowhere. Only a
            registry without peers needs it.
        state_every_s: Seconds between writes of that file.
    """

    tombstone_s: Seconds = 86_400.0
    clock_margin_s: Seconds = 3_600.0
    sweep_s: Seconds = 60.0
    state_file: str = ""
    state_every_s: Seconds = 30.0


class EventsConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long the hub keeps lifecycle events, if it has JetStream.

    Attributes:
        keep_days: Days; a later registry with another value changes it for all.
        bytes_max: Bytes of the stream; beyond it the oldest go first. Below what the hub has.
        replicas: Copies, at as many hubs; 1 unless the hub is a cluster of three.
    """

    keep_days: Annotated[float, Meta(gt=0)] = history.DAYS
    bytes_max: Count = history.BYTES_MAX
    replicas: Count = 1


class RegistryConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A registry.

    Attributes:
        access: File that lets this registry into the mesh, as `otela mesh` writes it.
        sessions_per_provider: Sessions of one provider that live at a time; owners' claims to more
            are refused, whatever a runaway or hostile provider starts.
        unroutable_is_unready: Whether `/readyz` is red while a model that is offered has no
            routable session. `/status` and the metrics tell it in any case.
    """

    access: str
    sessions_per_provider: Count = SESSIONS_PER_PROVIDER
    detector: DetectorConfig = DetectorConfig()
    restraint: RestraintConfig = RestraintConfig()
    peers: PeersConfig = PeersConfig()
    retention: RetentionConfig = RetentionConfig()
    events: EventsConfig = EventsConfig()
    health: HealthConfig = HealthConfig()
    log: LogConfig = LogConfig()
    unroutable_is_unready: bool = True


def noticed_s(config: RegistryConfig, every_s: float = BEAT_EVERY_S) -> float:
    """Return after how long a death is known at most that the mesh notices: a process is killed."""
    return config.detector.late_beats * every_s


def frozen_s(config: RegistryConfig, every_s: float = BEAT_EVERY_S) -> float:
    """Return after how long silence is suspicion at most: a host is frozen, a link half-open."""
    detector = config.detector
    probed_s = (detector.probes_min - 1) * detector.probe_every_s + detector.probe_timeout_s
    return max(detector.lease_beats * every_s, detector.late_beats * every_s + probed_s)


def evicted_s(config: RegistryConfig, every_s: float = BEAT_EVERY_S) -> float:
    """Return after how long silence is the end: what no session survives."""
    return frozen_s(config, every_s) + config.detector.grace_s


def alone_s(config: RegistryConfig) -> float:
    """Return after how long a registry decides alone once its last peer is silent."""
    return config.peers.heard_s


LAN: Final = RegistryConfig(access="")
LOCAL: Final = RegistryConfig(
    access="",
    detector=DetectorConfig(grace_s=10.0, suspect_probe_every_s=1.0),
    peers=PeersConfig(gossip_s=0.5, heard_s=2.0, memory_s=30.0, stale_s=8.0, learn_s=1.5),
)
WAN: Final = RegistryConfig(
    access="",
    detector=DetectorConfig(
        late_beats=2.5,
        lease_beats=10.0,
        probes_min=3,
        probe_every_s=2.0,
        probe_timeout_s=3.0,
        suspect_probe_every_s=5.0,
        grace_s=120.0,
    ),
    restraint=RestraintConfig(lag_s=0.5),
    peers=PeersConfig(gossip_s=2.0, heard_s=15.0, memory_s=3600.0, stale_s=45.0, learn_s=5.0),
)
PRESETS: Final = {"local": LOCAL, "lan": LAN, "wan": WAN}
