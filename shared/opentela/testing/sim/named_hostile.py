"""Named scenarios of lies and of old news: what must not be believed is not believed."""

from random import Random
from typing import Final

from msgspec.structs import replace

from opentela.core import ids
from opentela.core.errors import WireError
from opentela.core.ids import ProviderId, SiteId
from opentela.core.record import (
    CLAIM_ENCODER,
    Claim,
    Lifecycle,
    SessionRecord,
    SignedClaim,
    Warrant,
    claim_of,
)
from opentela.core.refusal import Reason
from opentela.core.warrant import Seal
from opentela.mesh.bus import Message
from opentela.registry.config import LAN, LOCAL, RetentionConfig
from opentela.testing.sim import keys
from opentela.testing.sim.cluster import Cluster
from opentela.testing.sim.expecting import asked, fixed, must, must_all_succeed, no_evictions
from opentela.testing.sim.keys import FakeIdentity
from opentela.testing.sim.run import Run, Scenario
from opentela.testing.sim.scenarios import mesh
from opentela.testing.sim.supervisor_shell import SupervisorShell
from opentela.testing.sim.workload import WorkloadForm
from opentela.testing.world_node import Node
from opentela.view.presence import presence_of
from opentela.wire import control, subjects
from opentela.wire.subjects import SessionPath

_BUSY: Final = WorkloadForm(every_s=0.5, leave_share=0.0)


class Intruder:
    """A process that hears every claim, and says what it likes where no server forbids it."""

    def __init__(self, cluster: Cluster, rng: Random) -> None:
        self.node: Node = cluster.world.add_node("intruder", site=cluster.sites[0])
        self._heard: dict[bytes, Message] = {}
        self._rng = rng
        self._registries = tuple(cluster.form.registries)
        self._identity = FakeIdentity(rng)
        self.node.start()
        self.node.subscribe(subjects.ALL_DELTAS, self._hear)

    def lie(self, claim: Claim) -> None:
        """Tell every kind of lie about a session."""
        path = SessionPath(claim.provider, claim.site, claim.session)
        ended = replace(claim, incarnation=claim.incarnation + 1, lifecycle=Lifecycle.LEFT)
        # A signature that is not its owner's.
        self._say(path, ended)
        # The same session id with a key of one's own: the id does not follow from it.
        self._say(path, replace(ended, key=self._identity.key))
        # Over a subject of one's own.
        foreign = path._replace(provider=ProviderId("intruder"))
        self._say(foreign, ended)
        # A session of one's own over the subject of the victim.
        self._say(path, self._own(claim))
        # The same as if a view had it from there: nobody warrants the key.
        self._relay(self._own(claim))
        # A sign of life, and a failure, that are not its own.
        beat = control.Beat(incarnation=99)
        self.node.publish(subjects.beat(foreign), control.encode(beat))
        for subject in (subjects.delta(path), subjects.beat(path), subjects.verdict(path)):
            self.node.publish(subject, self._rng.randbytes(40))
        # What a registry would say, with a key that the mesh vouches for as nobody's.
        self.judge(claim, Seal("registry-0", self._identity, Warrant()))

    def judge(self, claim: Claim, *seals: Seal) -> None:
        """Say in the name of each seal that a session cannot be reached, and that it has left."""
        path = SessionPath(claim.provider, claim.site, claim.session)
        meant = claim.lifecycle, claim.incarnation
        for ended_at_ms in (0, claim.born_at_ms + 1):
            statements = tuple(
                seal.state(claim.session, meant, quorum=1, sites=1, ended_at_ms=ended_at_ms)
                for seal in seals
            )
            verdict = control.Verdict(
                registry=seals[0].name,
                session=claim.session,
                witnesses=() if ended_at_ms else statements,
                ending=statements if ended_at_ms else (),
            )
            self.node.publish(subjects.verdict(path), control.encode(verdict))
            record = SessionRecord(
                signed=self.signed(claim), witnesses=verdict.witnesses, ending=verdict.ending
            )
            records = control.Records(sender=seals[0].name, records=(record,))
            for name in self._registries:
                self.node.publish(subjects.gossip(name), control.encode(records))

    def signed(self, claim: Claim) -> SignedClaim:
        """Return what its owner last published of a session, or a forgery."""
        for message in self._heard.values():
            try:
                signed = control.read_delta(message.payload).signed
            except WireError:
                continue  # its own rubbish
            if signed.body == CLAIM_ENCODER.encode(claim):
                return signed
        return self._signed(claim)

    def repeat(self) -> None:
        """Say once more what owners said, in any order."""
        heard = list(self._heard.values())
        for message in self._rng.sample(heard, len(heard)):
            self.node.publish(message.subject, message.payload)

    def _hear(self, message: Message) -> None:
        # What it repeats itself comes back; once is enough.
        self._heard.setdefault(message.payload, message)

    def _own(self, claim: Claim) -> Claim:
        nonce = self._rng.randbytes(ids.NONCE_BYTES)
        return replace(
            claim,
            key=self._identity.key,
            nonce=nonce,
            session=ids.session_id(claim.born_at_ms, self._identity.key, nonce),
            site=SiteId("elsewhere"),
        )

    def _relay(self, claim: Claim) -> None:
        record = SessionRecord(signed=self._signed(claim))
        relay = control.Records(sender="intruder", records=(record,))
        self.node.publish(subjects.RELAY, control.encode(relay))

    def _signed(self, claim: Claim) -> SignedClaim:
        body = CLAIM_ENCODER.encode(claim)
        return SignedClaim(body=body, signature=self._identity.sign(body))

    def _say(self, path: SessionPath, claim: Claim) -> None:
        delta = control.Delta(signed=self._signed(claim))
        self.node.publish(subjects.delta(path), control.encode(delta))


# Lies --------------------------------------------------------------------------------------------


def _lie_about_all(cluster: Cluster, rng: Random) -> float:
    cluster.mark("began")
    intruder = Intruder(cluster, rng)
    for supervisor in cluster.supervisors.values():
        session = supervisor.machine.session
        assert session is not None
        for turn in range(3):
            cluster.world.after(0.5 + turn, intruder.lie, session.claim)
    return 15.0


def _nobody_believes(run: Run) -> None:
    cluster = run.cluster
    must_all_succeed(asked(run, since=cluster.marks["began"], until=run.healed_at - 1))
    no_evictions(run)
    must(len(cluster.owners) == len(cluster.supervisors), "a session was replaced")
    for name, registry in cluster.registries.items():
        rejections = registry.held.rejections
        must(rejections[Reason.FORGED] > 0, f"{name} counts no forged record")
        must(rejections[Reason.FOREIGN] > 0, f"{name} counts no foreign record")
        must(registry.unreadable > 0, f"{name} counts no unreadable message")
        must(set(registry.records) == set(cluster.owners), f"{name} holds what nobody said")


LIES: Final = Scenario(
    name="forged-foreign-and-garbled-records-are-refused",
    form=fixed(mesh()),
    faults=_lie_about_all,
    workload=_BUSY,
    expect=_nobody_believes,
    is_honest=False,
)


# Old news ----------------------------------------------------------------------------------------


def _repeat_old_news(cluster: Cluster, rng: Random) -> float:
    cluster.mark("began")
    intruder = Intruder(cluster, rng)
    for name in ("gpu-0", "gpu-1"):
        cluster.world.after(1.0, cluster.crash, name)
        cluster.world.after(3.0, cluster.start, name)
    for turn in range(10):
        cluster.world.after(5.0 + turn, intruder.repeat)
    return 20.0


def _nothing_changed(run: Run) -> None:
    must_all_succeed(asked(run, since=run.healed_at - 8.0, until=run.healed_at - 1))
    no_evictions(run)


REPEATED: Final = Scenario(
    name="repeated-claims-change-nothing",
    form=fixed(mesh()),
    faults=_repeat_old_news,
    workload=_BUSY,
    expect=_nothing_changed,
)

_SHORT_MEMORY: Final = replace(
    LOCAL, retention=RetentionConfig(tombstone_s=20.0, clock_margin_s=5.0, sweep_s=2.0)
)


def _raise_the_dead(cluster: Cluster, rng: Random) -> float:
    world = cluster.world
    intruder = Intruder(cluster, rng)
    # Beside it, what a registry might be told by a peer with an old state.
    old = {name: dict(held.records) for name, held in cluster.views()}
    cluster.world.after(0.5, cluster.supervisors["gpu-0"].stop, "end of job")
    cluster.world.after(0.5, cluster.crash, "gpu-1")
    for turn in range(3):
        world.after(60.0 + turn, intruder.repeat)
        world.after(60.0 + turn, _gossip, cluster, intruder.node, old)
    world.after(55.0, cluster.mark, "compacted")
    world.after(55.0, _note_forgotten, cluster)
    return 70.0


def _note_forgotten(cluster: Cluster) -> None:
    for name, held in cluster.views():
        must(len(held) == len(held.living), f"{name} still holds a tombstone")


def _gossip(
    cluster: Cluster, node: Node, old: dict[str, dict[ids.SessionId, SessionRecord]]
) -> None:
    for name in cluster.registries:
        message = control.Records(sender="intruder", records=tuple(old[name].values()))
        node.publish(subjects.gossip(name), control.encode(message))
        node.publish(subjects.RELAY, control.encode(message))


def _stay_dead(run: Run) -> None:
    cluster = run.cluster
    for name, held in cluster.views():
        for session in held.records:
            must(cluster.lives(session), f"{name} holds {session} again")
    for name, registry in cluster.registries.items():
        must(registry.held.rejections[Reason.FORGOTTEN] > 0, f"{name} forgot to refuse")


COMPACTED: Final = Scenario(
    name="who-was-forgotten-does-not-rise",
    form=fixed(replace(mesh(registry=_SHORT_MEMORY, restart_s=0.0), clock_offset_s=1.0)),
    faults=_raise_the_dead,
    expect=_stay_dead,
)

# Clocks and memory -------------------------------------------------------------------------------

_TOMBSTONE_S: Final = 60.0
_SKEWED: Final = replace(
    LAN,
    retention=RetentionConfig(tombstone_s=_TOMBSTONE_S, clock_margin_s=1200.0, sweep_s=5.0),
)


def _end_one(cluster: Cluster, _: Random) -> float:
    cluster.mark("ended")
    cluster.supervisors["gpu-0"].stop("end of job")
    return _TOMBSTONE_S


def _is_remembered(run: Run) -> None:
    for name, held in run.cluster.views():
        dead = [r for r in held.records.values() if claim_of(r).lifecycle is Lifecycle.LEFT]
        must(len(dead) == 1, f"{name} forgot a tombstone early")


MEMORY: Final = Scenario(
    name="clocks-that-differ-by-minutes-forget-nothing-early",
    form=fixed(mesh(registry=_SKEWED, restart_s=0.0)),
    faults=_end_one,
    expect=_is_remembered,
)

# A registry that lies ----------------------------------------------------------------------------


def _lie_as_a_registry(cluster: Cluster, rng: Random) -> float:
    cluster.mark("began")
    intruder = Intruder(cluster, rng)
    seal = keys.seal("registry-9")
    presence = control.encode(presence_of(seal, "liar"))
    farewells = [
        control.encode(replace(presence_of(seal, "liar", leaving=True), registry=name))
        for name in cluster.form.registries
    ]
    for turn in range(20):
        at = 0.5 + 0.5 * turn
        # First it says that it is there and that the others are not, then it judges.
        for said in (presence, *farewells):
            cluster.world.after(at, _publish, intruder.node, subjects.REGISTRIES, said)
        for supervisor in cluster.supervisors.values():
            cluster.world.after(at + 0.1, _judge_now, intruder, supervisor, seal)
    return 15.0


def _publish(node: Node, subject: str, payload: bytes) -> None:
    node.publish(subject, payload)


def _judge_now(intruder: Intruder, supervisor: SupervisorShell, seal: Seal) -> None:
    session = supervisor.machine.session
    assert session is not None
    intruder.judge(session.claim, seal)


def _nobody_is_ended(run: Run) -> None:
    cluster = run.cluster
    must_all_succeed(asked(run, since=cluster.marks["began"], until=run.healed_at - 1))
    no_evictions(run)
    must(len(cluster.owners) == len(cluster.supervisors), "a session was replaced")
    for name, held in cluster.views():
        for session in cluster.owners:
            lines = [line for line in held.story(session) if line.suspected]
            must(not lines, f"{name} held {session} for suspected")
            gone = [line for line in held.story(session) if line.lifecycle is Lifecycle.LEFT]
            must(not gone, f"{name} held {session} for gone")
    for name, registry in cluster.registries.items():
        refused = registry.held.rejections[Reason.UNSUPPORTED]
        must(refused > 0, f"{name} refused no lie")


LIAR: Final = Scenario(
    name="a-registry-that-lies-ends-nobody-alone",
    form=fixed(mesh()),
    faults=_lie_as_a_registry,
    workload=_BUSY,
    expect=_nobody_is_ended,
    is_honest=False,
)

HOSTILE: Final = (LIES, REPEATED, COMPACTED, MEMORY, LIAR)
