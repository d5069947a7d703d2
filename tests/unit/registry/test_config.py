"""Knobs of a registry and how they hang together."""

from pathlib import Path

import msgspec
import pytest

from opentela.core.errors import ConfigError
from opentela.local import recipe
from opentela.registry.config import (
    LAN,
    LOCAL,
    PRESETS,
    WAN,
    DetectorConfig,
    RegistryConfig,
    alone_s,
    evicted_s,
    frozen_s,
    noticed_s,
)
from opentela.settings import load
from opentela.wire.control import BEAT_EVERY_S

JITTER = 0.1
"""Owners spread their beats by so much."""


def test_death_that_the_mesh_notices_is_known_within_two_seconds() -> None:
    """The last beat may have been just before: silence until late, then one round trip."""
    assert LAN.detector.late_beats * BEAT_EVERY_S < 1.8


def test_the_longest_pause_that_is_to_be_survived_ends_before_grace_does() -> None:
    """32 s of SIGSTOP are suspected no earlier than `lease_beats`, and the process reconnects."""
    lease_s = LAN.detector.lease_beats * BEAT_EVERY_S
    assert lease_s + LAN.detector.grace_s > 32 + 10


def test_probes_fit_into_the_lease() -> None:
    """Otherwise the lease would end before enough probes could go unanswered."""
    for config in PRESETS.values():
        detector = config.detector
        silent_s = (detector.lease_beats - detector.late_beats) * BEAT_EVERY_S
        needed_s = (detector.probes_min - 1) * detector.probe_every_s
        assert silent_s >= needed_s


def test_silence_is_suspicion_within_two_seconds_of_death() -> None:
    """Also of a link that says nothing, and of who beats as rarely as jitter allows."""
    for config in (LOCAL, LAN):
        assert frozen_s(config, every_s=BEAT_EVERY_S * (1 + JITTER)) < 1.9


def test_a_lease_that_ends_before_a_beat_is_late_is_refused() -> None:
    """With the field and what to write instead."""
    with pytest.raises(ConfigError, match="lease_beats") as caught:
        DetectorConfig(late_beats=3.0, lease_beats=3.0)
    assert "3.0" in caught.value.remedy


@pytest.mark.parametrize(
    "wrong",
    [
        {"access": "a", "detector": {"grace_s": 0}},
        {"access": "a", "restraint": {"doubt_share": 1.5}},
        {"access": "a", "peers": {"quorum": 0}},
        {"access": "a", "gossip": {}},
        {},
    ],
    ids=["grace", "share", "quorum", "unknown", "no access"],
)
def test_nonsense_is_refused(wrong: dict[str, object]) -> None:
    """At start, not when it matters."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(wrong, RegistryConfig)


def test_one_machine_is_configured_as_the_preset_for_it(tmp_path: Path) -> None:
    """`otela up` cannot import a service, so it repeats the numbers; here they are compared."""
    file = tmp_path / "registry.toml"
    text = recipe.registry(access=file, token_file=file, state_file=file, is_new=False)
    file.write_text(text, encoding="utf-8")
    config = load(RegistryConfig, service="registry", file=file, environ={}).value
    assert (config.detector, config.peers) == (LOCAL.detector, LOCAL.peers)


def test_the_farther_the_longer_one_waits() -> None:
    """Each preset is more patient than the one before, in everything."""
    for quicker, slower in ((LOCAL, LAN), (LAN, WAN)):
        for measure in (noticed_s, frozen_s, evicted_s, alone_s):
            assert measure(quicker) <= measure(slower)
        assert quicker.peers.memory_s < slower.peers.memory_s


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_agrees_with_itself(name: str) -> None:
    """A peer is given several rounds, and remembered for longer than any grace."""
    config = PRESETS[name]
    assert config.peers.heard_s >= 3 * config.peers.gossip_s
    assert config.peers.memory_s > config.detector.grace_s
    assert config.peers.learn_s > noticed_s(config, every_s=0.9)
    assert config.detector.probe_timeout_s < config.detector.grace_s


def test_what_knobs_amount_to_is_computed_from_them() -> None:
    """What the documentation says of the default."""
    assert (noticed_s(LAN), frozen_s(LAN), evicted_s(LAN), alone_s(LAN)) == (1.2, 1.7, 46.7, 5.0)
    assert frozen_s(LAN, every_s=0.1) == pytest.approx(0.52)
