"""The model of SWIM beside the product is true to what is published of memberlist."""

import math
import random
from statistics import median

from opentela.testing.sim.campaign.harms import CELLS
from opentela.testing.sim.campaign.settings import SETTINGS
from opentela.testing.sim.campaign.swim import TICK, Believes, Send, Stream, SwimMachine
from opentela.testing.sim.campaign.swim_check import published_s, spread
from opentela.testing.sim.campaign.swim_parts import (
    Awareness,
    Packet,
    Rumour,
    Rumours,
    Suspicion,
    SwimConfig,
)
from opentela.testing.sim.campaign.trial import Trial

LAN = SwimConfig()
GROUP = [f"m{number}" for number in range(8)]


def test_suspicions_last_as_published() -> None:
    """From 8.4 to 50.6 seconds among 128 members, by how many confirm."""
    assert [round(bound, 1) for bound in LAN.suspicion_s(128)] == [8.4, 50.6]
    suspicion = Suspicion(LAN, 0.0, 128, "a")
    lengths = [suspicion.ends_at]
    for source, is_news in (("a", False), ("b", True), ("b", False), ("c", True), ("d", False)):
        assert suspicion.confirm(source) is is_news
        lengths.append(suspicion.ends_at)
    assert [round(length, 1) for length in dict.fromkeys(lengths)] == [50.6, 24.0, 8.4]


def test_rumours_spread_no_slower_than_published() -> None:
    """99.99 % of 128 within 1.9 s by the formula; the model also knows the steps in between."""
    assert round(published_s(LAN, 128, 0.9999), 1) == 1.9
    for config in (LAN, SwimConfig(in_step=True)):
        times = [spread(config, seed).all_s for seed in range(6)]
        fastest_s = math.log(128, config.gossip_nodes + 1) * config.gossip_s / 4
        assert fastest_s < median(times) < 1.9


def test_a_death_is_found_after_a_probe_and_the_shortest_suspicion() -> None:
    """Everybody confirms it: some ten seconds among 128."""
    row = Trial(SETTINGS["Serf LAN"], list(CELLS).index("calm")).row()
    assert row.broken == ""
    assert all(8.4 < death.last_s < 14.0 for death in row.deaths), row
    assert (row.out_others, row.lost) == (0, 0)


def test_who_stands_still_beyond_the_suspicion_is_declared_dead() -> None:
    """Which the comparison is about; and comes back afterwards."""
    row = Trial(SETTINGS["Serf LAN"], list(CELLS).index("stopped 16 s")).row()
    assert row.out_victims == row.victims > 0
    assert row.lost == 0


def test_a_rumour_is_told_a_limited_number_of_times() -> None:
    """As often as the group is large, by the logarithm; a newer one ends it."""
    rumours = Rumours(LAN)
    rumours.add(Rumour("suspect", "m1", 1, "m0"))
    newer = Rumour("alive", "m1", 2, "m1")
    rumours.add(newer)
    told = [rumours.draw(128) for _ in range(20)]
    assert told == [(newer,)] * 12 + [()] * 8
    assert not rumours


def test_rumours_beyond_a_packet_wait() -> None:
    """And those told least go first."""
    rumours = Rumours(LAN)
    for number in range(40):
        rumours.add(Rumour("dead", f"m{number}", 1, "m0"))
    first, second = rumours.draw(128), rumours.draw(128)
    assert len(first) == 28
    assert {rumour.member for rumour in second} > {f"m{number}" for number in range(12)}


def test_bad_signs_make_a_member_patient() -> None:
    """Up to eight times; without Lifeguard it never is."""
    awareness = Awareness(LAN)
    assert awareness.scaled(1.0) == 1.0
    awareness.change(20)
    assert awareness.scaled(1.0) == 8.0
    awareness.change(-1)
    assert awareness.scaled(1.0) == 7.0
    plain = Awareness(SwimConfig(lifeguard=False))
    plain.change(5)
    assert plain.scaled(1.0) == 1.0


def _machine() -> SwimMachine:
    return SwimMachine("m0", GROUP, LAN, random.Random(1), 0.0)


def _probed(machine: SwimMachine) -> tuple[float, Send]:
    now = 0.0
    while True:
        now = machine.next_deadline()
        for action in machine.step(now, TICK):
            if isinstance(action, Send) and action.packet.kind == "ping":
                return now, action


def test_a_probe_that_fails_is_tried_by_others_before_it_is_a_suspicion() -> None:
    """Three helpers and a stream have the rest of the interval."""
    machine = _machine()
    now, ping = _probed(machine)
    actions = machine.step(now + LAN.probe_timeout_s, TICK)
    assert [a.packet.kind for a in actions if isinstance(a, Send)] == ["ask"] * 3
    assert [a.to for a in actions if isinstance(a, Stream)] == [ping.to]
    actions = machine.step(now + LAN.probe_interval_s, TICK)
    assert Believes(ping.to, "suspect") in actions


def test_an_answer_by_any_path_ends_a_probe() -> None:
    """By whom it came does not matter, nor that a stream's comes early."""
    for target in ("", "stream"):
        machine = _machine()
        now, ping = _probed(machine)
        machine.step(now + LAN.probe_timeout_s, TICK)
        machine.step(now + 0.6, Packet("ack", "m3", ping.packet.sequence, target))
        actions = machine.step(now + LAN.probe_interval_s, TICK)
        assert not [action for action in actions if isinstance(action, Believes)]


def test_a_member_that_hears_it_is_suspected_refutes() -> None:
    """Under a greater incarnation; others then trust it again."""
    accused, other = _machine(), SwimMachine("m1", GROUP, LAN, random.Random(2), 0.0)
    suspicion = Packet("gossip", "m2", rumours=(Rumour("suspect", "m0", 1, "m2"),))
    assert Believes("m0", "suspect") in other.step(0.0, suspicion)
    accused.step(0.0, suspicion)
    (answer,) = (
        action for action in accused.step(0.0, Packet("ping", "m1", 1)) if isinstance(action, Send)
    )
    assert answer.packet.rumours[0] == Rumour("alive", "m0", 2, "m0")
    assert Believes("m0", "alive") in other.step(0.1, answer.packet)
    assert other.step(0.2, suspicion) == [] or accused.peers["m0"].incarnation == 2


def test_a_helper_answers_for_who_answers_and_says_when_nobody_does() -> None:
    """The latter tells the asker that it is not the asker who is cut off."""
    helper = _machine()
    actions = helper.step(0.0, Packet("ask", "m1", 7, "m2"))
    (ping,) = (a for a in actions if isinstance(a, Send) and a.to == "m2")
    actions = helper.step(0.1, Packet("ack", "m2", ping.packet.sequence))
    assert [(a.to, a.packet.kind, a.packet.sequence) for a in actions if isinstance(a, Send)] == [
        ("m1", "ack", 7)
    ]
    helper.step(0.2, Packet("ask", "m1", 8, "m2"))
    actions = helper.step(0.2 + LAN.probe_timeout_s, TICK)
    assert ("m1", "nack") in [(a.to, a.packet.kind) for a in actions if isinstance(a, Send)]


def test_everything_is_exchanged_once_in_a_while_and_the_dead_are_only_suspected() -> None:
    """So that one who was cut off cannot kill by hearsay."""
    one, other = _machine(), SwimMachine("m1", GROUP, LAN, random.Random(2), 0.0)
    one.step(0.0, Packet("gossip", "m2", rumours=(Rumour("dead", "m3", 1, "m2"),)))
    (answer,) = (a for a in one.step(0.1, Packet("sync", "m1")) if isinstance(a, Stream))
    assert answer.packet.kind == "synced"
    assert Believes("m3", "suspect") in other.step(0.2, answer.packet)
