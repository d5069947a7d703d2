"""The simulated mesh does what a mesh does, on purpose and by seed."""

from functools import partial

from opentela.mesh.bus import Message
from opentela.testing.world import World
from opentela.testing.world_network import DETECT_S, LinkForm
from opentela.testing.world_node import STALE_S, ClockForm, Node
from opentela.testing.world_trace import Silence


class Ear:
    """Keeps what a node hears."""

    def __init__(self, node: Node, subject: str, *, queue: str = "") -> None:
        self.node = node
        self.heard: list[bytes] = []
        self.times: list[float] = []
        node.subscribe(subject, self._hear, queue=queue)

    def _hear(self, message: Message) -> None:
        self.heard.append(message.payload)
        self.times.append(self.node.world.now)


def _mesh(seed: int, *names_at_sites: str) -> tuple[World, list[Node]]:
    world = World(seed)
    nodes = []
    for both in names_at_sites:
        name, site = both.split("@")
        node = world.add_node(name, site=site)
        node.start()
        nodes.append(node)
    return world, nodes


def test_wildcards_match_as_in_nats() -> None:
    """A star is one token, a greater sign is one or more."""
    world, (a, b) = _mesh(1, "a@x", "b@y")
    star, rest, exact = Ear(b, "t.*.c"), Ear(b, "t.>"), Ear(b, "t.b.c")
    for subject in ("t.b.c", "t.b", "t", "t.x.c", "t.b.c.d"):
        a.publish(subject, subject.encode())
    world.run(1.0)
    assert star.heard == [b"t.b.c", b"t.x.c"]
    assert rest.heard == [b"t.b.c", b"t.b", b"t.x.c", b"t.b.c.d"]
    assert exact.heard == [b"t.b.c"]


def test_a_queue_group_prefers_the_senders_site() -> None:
    """One member gets the message, and a near one if there is any."""
    world, (a, near, far) = _mesh(1, "a@x", "near@x", "far@y")
    ears = [Ear(node, "q", queue="g") for node in (near, far)]
    for _ in range(20):
        a.publish("q", b"1")
    world.run(1.0)
    assert [len(ear.heard) for ear in ears] == [20, 0]
    near.crash()
    a.publish("q", b"2")
    world.run(2.0)
    assert ears[1].heard == [b"2"]


def test_nobody_listening_is_told_at_once() -> None:
    """A request without interest comes back; one to interest just lost is swallowed."""
    world, (a, b) = _mesh(1, "a@x", "b@y")
    nobody: list[str] = []
    a.on_no_responders = nobody.append
    a.publish("s", b"", reply="r.1")
    world.run(0.1)
    assert nobody == ["r.1"]
    Ear(b, "s")
    b.crash()
    a.publish("s", b"", reply="r.2")
    world.run(1.0)
    assert nobody == ["r.1"]
    a.publish("s", b"", reply="r.3")
    world.run(2.0)
    assert nobody == ["r.1", "r.3"]


def test_a_silent_cut_is_found_by_pings() -> None:
    """Until pings miss, a cut swallows; then the interest behind it is gone."""
    world, (a, b) = _mesh(1, "a@x", "b@y")
    ear, nobody = Ear(b, "s"), list[str]()
    a.on_no_responders = nobody.append
    world.network.cut("x", "y")
    a.publish("s", b"early", reply="r.1")
    world.run(DETECT_S + 1)
    a.publish("s", b"late", reply="r.2")
    world.run(DETECT_S + 2)
    assert (ear.heard, nobody) == ([], ["r.2"])
    world.network.heal()
    a.publish("s", b"healed", reply="r.3")
    world.run(DETECT_S + 3)
    assert ear.heard == [b"healed"]


def test_a_cut_may_be_one_way() -> None:
    """What is cut is a direction."""
    world, (a, b) = _mesh(1, "a@x", "b@y")
    at_a, at_b = Ear(a, "s"), Ear(b, "s")
    world.network.cut("x", "y")
    a.publish("s", b"from a")
    b.publish("s", b"from b")
    world.run(1.0)
    assert at_a.heard == [b"from a", b"from b"]
    assert at_b.heard == [b"from b"]


def test_order_holds_unless_the_link_reorders() -> None:
    """Messages of one process to another keep their order by default."""
    for reorder, kept in ((0.0, True), (0.9, False)):
        world, (a, b) = _mesh(3, "a@x", "b@y")
        world.network.shape("x", "y", LinkForm(delay_s=0.05, reorder=reorder))
        ear = Ear(b, "s")
        sent = [bytes([number]) for number in range(50)]
        for payload in sent:
            a.publish("s", payload)
        world.run(5.0)
        assert sorted(ear.heard) == sent
        assert (ear.heard == sent) is kept


def test_loss_and_duplication_follow_their_shares() -> None:
    """A lossy link loses about its share and a duplicating one doubles about its share."""
    world, (a, b) = _mesh(5, "a@x", "b@y")
    ear = Ear(b, "s")
    world.network.shape("x", "y", LinkForm(loss=0.3))
    for _ in range(1000):
        a.publish("s", b"l")
    world.run(10.0)
    world.network.shape("x", "y", LinkForm(duplicate=0.3))
    for _ in range(1000):
        a.publish("s", b"d")
    world.run(20.0)
    assert 650 < ear.heard.count(b"l") < 750
    assert 1250 < ear.heard.count(b"d") < 1350


def test_a_clog_delays_and_loses_nothing() -> None:
    """All that was sent into a clogged link arrives when it opens."""
    world, (a, b) = _mesh(1, "a@x", "b@y")
    ear = Ear(b, "s")
    world.network.clog("x", "y", 3.0)
    a.publish("s", b"1")
    world.run(2.9)
    assert ear.heard == []
    world.run(4.0)
    assert ear.heard == [b"1"]


def test_a_paused_process_works_off_what_queued_up() -> None:
    """Messages and timers wait for SIGCONT; a long pause also costs the connection."""
    world, (a, b) = _mesh(1, "a@x", "b@y")
    ear, rung, mesh = Ear(b, "s"), [], []
    b.on_mesh_lost = lambda: mesh.append("lost")
    b.on_mesh_back = lambda: mesh.append("back")
    b.arm("t", b.now() + 1.0, lambda _now: rung.append(world.now))
    b.pause()
    a.publish("s", b"1")
    world.run(3.0)
    assert (ear.heard, rung) == ([], [])
    b.resume()
    assert (ear.heard, rung, mesh) == ([b"1"], [3.0], [])
    b.pause()
    world.run(4.0 + STALE_S)
    b.resume()
    world.run(60.0)
    assert mesh == ["lost", "back"]


def test_a_process_that_stalls_again_and_again_keeps_its_connection() -> None:
    """In between it answers the server's pings: only one long silence costs it."""
    world, (b,) = _mesh(1, "b@y")
    mesh: list[str] = []
    b.on_mesh_lost = lambda: mesh.append("lost")
    for _ in range(6):
        b.pause()
        world.run(world.now + STALE_S / 2)
        b.resume()
    assert (mesh, b.attached) == ([], True)


def test_datagrams_need_no_server() -> None:
    """Who is silent for long is dropped by nobody, and is back as soon as the link is."""
    world, (a, b) = _mesh(1, "a@x", "b@y")
    world.network.is_datagrams = True
    ear = Ear(b, "s")
    b.pause()
    world.run(2 * STALE_S)
    b.resume()
    world.network.isolate(a)
    world.run(world.now + 2 * DETECT_S)
    a.publish("s", b"lost")
    world.network.heal()
    a.publish("s", b"1")
    world.run(world.now + 1.0)
    assert ear.heard == [b"1"]


def test_cuts_heal_alone() -> None:
    """Who was cut off alone stays so."""
    world, (a, b, c) = _mesh(1, "a@x", "b@y", "c@x")
    ear = Ear(b, "s")
    world.network.cut("x", "y")
    world.network.isolate(c)
    world.network.heal_cuts()
    a.publish("s", b"1")
    c.publish("s", b"2")
    world.run(1.0)
    assert ear.heard == [b"1"]


def test_a_meter_is_told_of_what_is_lost_too() -> None:
    """The sender has sent it all the same."""
    world, (a, b) = _mesh(1, "a@x", "b@y")
    Ear(b, "s")
    told: list[tuple[str, int, bytes]] = []
    world.network.meter = lambda source, receivers, message: told.append(
        (source.name, len(receivers), message.payload)
    )
    world.network.shape("x", "y", LinkForm(loss=1.0))
    a.publish("s", b"1")
    a.publish("t", b"2")
    assert told == [("a", 1, b"1"), ("a", 0, b"2")]
    assert world.network.loss(a, b) == 1.0
    assert world.network.trip_s(a, b) > 0


def test_a_silent_trace_changes_nothing_else() -> None:
    """And keeps nothing."""
    heard = []
    for trace in (None, Silence()):
        world = World(3, trace=trace)
        a, b = (world.add_node(name, site=name) for name in "ab")
        a.start()
        b.start()
        ear = Ear(b, "s")
        for number in range(10):
            a.publish("s", bytes([number]))
        world.run(1.0)
        heard.append((ear.times, bool(world.trace.entries)))
    assert heard[0][0] == heard[1][0]
    assert [has_entries for _, has_entries in heard] == [True, False]


def test_a_slow_process_takes_its_time_and_loses_nothing() -> None:
    """Each message occupies a slow process for a while."""
    world, (a, b) = _mesh(1, "a@x", "b@y")
    ear = Ear(b, "s")
    b.service_s = 0.5
    for _ in range(20):
        a.publish("s", b"1")
    world.run(1.0)
    assert 0 < len(ear.heard) < 10
    world.run(60.0)
    assert len(ear.heard) == 20


def test_a_restarted_process_hears_nothing_of_its_former_life() -> None:
    """Interest, timers and messages under way end with a crash."""
    world, (a, b) = _mesh(1, "a@x", "b@y")
    ear, rung = Ear(b, "s"), list[float]()
    b.arm("t", b.now() + 1.0, rung.append)
    a.publish("s", b"1")
    b.crash()
    b.start()
    world.run(5.0)
    assert (ear.heard, rung) == ([], [])


def test_an_isolated_process_loses_its_server_and_comes_back() -> None:
    """One process can be cut off alone; it learns so by pings and reconnects once healed."""
    world, (a, b) = _mesh(1, "a@x", "b@x")
    ear, mesh = Ear(b, "s"), []
    b.on_mesh_lost = lambda: mesh.append("lost")
    b.on_mesh_back = lambda: mesh.append("back")
    world.network.isolate(b)
    a.publish("s", b"1")
    world.run(DETECT_S + 1)
    assert (ear.heard, mesh) == ([], ["lost"])
    world.network.heal()
    world.run(60.0)
    assert mesh == ["lost", "back"]
    a.publish("s", b"2")
    world.run(61.0)
    assert ear.heard == [b"2"]


def test_clocks_of_two_nodes_never_compare() -> None:
    """Monotonic clocks start anywhere and drift; the wall may be wrong; a deadline still holds."""
    world = World(1)
    fast = world.add_node("fast", site="x", clock=ClockForm(wall_offset_s=600.0, drift=0.01))
    slow = world.add_node("slow", site="x", clock=ClockForm(wall_offset_s=-600.0, drift=-0.01))
    rung: list[tuple[str, float]] = []

    def ring(node: Node, _now: float) -> None:
        rung.append((node.name, world.now))

    for node in (fast, slow):
        node.start()
        node.arm("t", node.now() + 10.0, partial(ring, node))
    assert abs(fast.now() - slow.now()) > 100
    assert fast.wall() - slow.wall() == 1200.0
    world.run(20.0)
    assert [name for name, _ in rung] == ["fast", "slow"]
    assert 9.85 < rung[0][1] < 9.95
    assert 10.05 < rung[1][1] < 10.15


def test_a_seed_decides_everything() -> None:
    """Two runs of a seed leave the same trace; another seed leaves another."""

    def digest(seed: int) -> str:
        world, (a, b) = _mesh(seed, "a@x", "b@y")
        Ear(b, "s")
        world.network.shape("x", "y", LinkForm(loss=0.2, duplicate=0.2, reorder=0.5))
        for number in range(100):
            a.publish("s", bytes([number]))
        world.run(5.0)
        return world.trace.digest()

    assert digest(1) == digest(1) != digest(2)
