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
        late_beats: Beats; after `late_beats * every_s` of silence, a registry starts to probe.
            Lower finds dead sessions sooner (at the latest after this time, if the mesh answers "no
            responders"), but probes living ones more often. Must be above 1.1, because heartbeats
            have jitter.
        lease_beats: Beats; after `lease_beats * every_s` of silence and `probes_min` unanswered
            probes, a session is suspected. Lower stops using frozen hosts and half-open links
            sooner, but suspects more sessions that were only slow, until they refute it. Must be
            above `late_beats`.
        probes_min: Probes that must be unanswered before a session is suspected.
        probe_every_s: Seconds between probes of a late session; a probe does not wait for the
            answer to the one before. Lower fits more probes between being late and the end of the
            lease, and so survives more losses. Stretched together with the lease, so that their
            number stays the same.
        probe_timeout_s: Seconds until a probe counts as unanswered; must be above a round trip. A
            later answer still proves life.
        suspect_probe_every_s: Seconds between probes of a suspected session: how long it may take
            to notice that it is back.
        grace_s: Seconds of suspicion until a session is evicted (`LEFT`), which cannot be undone.
            Must be above the longest pause that a session should survive, plus the time to
            reconnect: 32 s of SIGSTOP and 13 s.
        advisory_ttl_s: Seconds for which advice from a scheduler (`otela advise`) is valid. While
            it says that a session has ended, silence is believed at once and `grace_s` is skipped;
            while it says that a session runs, silence is not held against it.
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
        doubt_share: Share of the watched sessions; if at least this many are silent at once, the
            registry assumes that it is cut off itself.
        doubt_sessions_min: Sessions; fewer silent ones never cause that doubt.
        doubt_max_s: Seconds of doubt after which evictions continue, because whole sites do die.
        evictions_share: Share of the living sessions that may be evicted within
            `evictions_window_s`.
        evictions_min: Sessions that may be evicted within that window, however few live.
        evictions_window_s: Seconds, the length of that window.
        lag_s: Seconds by which a registry may wake up late before it considers itself slow.
        widen_max: Factor; a registry that is slow, or alone in what it cannot reach, stretches
            `lease_beats`, `probe_every_s` and `probe_timeout_s` to 2, 3, … times, at most to this,
            and back by one step per calm round. 1 never stretches. "No responders" is believed in
            any case.
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
        gossip_s: Seconds between gossip rounds: one presence to all, one digest to a random peer,
            some 400 bytes each. Times the number of peers, this is how long a lost delta may go
            unnoticed.
        heard_s: Seconds without a message after which a peer counts as away: it gets no gossip and
            does not count for the quorum of suspicion. Should be a few rounds.
        memory_s: Seconds for which an away peer is remembered. Until then nobody is evicted,
            because that peer may hear sessions that nobody here does, and an eviction cannot be
            refuted. Must be above the longest partition to be survived; when a registry dies,
            silent sessions stay suspected for this long.
        quorum: Registries that must fail to reach a session before it is suspected. Capped at the
            number heard within `heard_s`, this one included, so that the last one decides alone. A
            registry that stops gracefully is no longer counted.
        stale_s: Seconds without an answer to a comparison, while peers are there, after which the
            map may be out of date and `/readyz` reports not ready. Should be several rounds.
        learn_s: Seconds for which a registry without peers and without a state file listens before
            it answers; after three heartbeats it knows every living session.
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
        tombstone_s: Seconds for which a session that has `LEFT` is remembered, so that no old copy
            of its record revives it. Must be above the longest partition; some 2 KB per session.
        clock_margin_s: Seconds added to that, because clocks differ.
        sweep_s: Seconds between sweeps that remove expired records.
        state_file: File in which the map survives a restart, mode 0600; empty for none. Only a
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
        keep_days: Days for which events are kept. If registries differ, the one that started last
            sets it for all.
        bytes_max: Bytes that the stream may take; beyond this, the oldest events are dropped. Must
            be below the hub's limit.
        replicas: Copies of the stream, each on another hub; 1 unless the hub is a cluster of three.
    """

    keep_days: Annotated[float, Meta(gt=0)] = history.DAYS
    bytes_max: Count = history.BYTES_MAX
    replicas: Count = 1


class RegistryConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A registry.

    Attributes:
        access: Access file of this registry, from `otela mesh`.
        sessions_per_provider: Living sessions that one provider may have; further ones are refused,
            so that a runaway or hostile provider cannot fill the map.
        unroutable_is_unready: Whether `/readyz` reports not ready while an offered model has no
            routable session. `/status` and the metrics show it in any case.
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
    """Return after how long a killed process is noticed, at the latest."""
    return config.detector.late_beats * every_s


def frozen_s(config: RegistryConfig, every_s: float = BEAT_EVERY_S) -> float:
    """Return after how long a frozen host or half-open link is suspected, at the latest."""
    detector = config.detector
    probed_s = (detector.probes_min - 1) * detector.probe_every_s + detector.probe_timeout_s
    return max(detector.lease_beats * every_s, detector.late_beats * every_s + probed_s)


def evicted_s(config: RegistryConfig, every_s: float = BEAT_EVERY_S) -> float:
    """Return after how long a silent session is evicted: no session survives longer silence."""
    return frozen_s(config, every_s) + config.detector.grace_s


def alone_s(config: RegistryConfig) -> float:
    """Return after how long a registry decides alone, once its last peer is silent."""
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
