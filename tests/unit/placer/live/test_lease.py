"""One leads, another follows within the lease, and never do two at once."""

import random

from opentela.placer.live import lease as e
from opentela.placer.live.lease import Lease
from opentela.wire.lease import Entry, Held

LEASE_S, RENEW_S = 3.0, 1.0


def lease(name: str = "one") -> Lease:
    return Lease(placer=name, instance=f"{name}-i", lease_s=LEASE_S, renew_s=RENEW_S)


def led(at: float = 0.0) -> Lease:
    """Return a lease that was won at *at* under revision 5."""
    one = lease()
    assert one.step(at, e.Tick()) == [e.Read()]
    (write,) = one.step(at, e.Seen(held=Held()))
    assert isinstance(write, e.Write)
    assert one.step(at, e.Written(revision=5, sent_at=at)) == []
    return one


def test_nobody_holds_it_so_it_is_taken() -> None:
    """The revision of that write is the term."""
    one = led()
    assert one.leads(0.0)
    assert (one.term, one.leader) == (5, "one")


def test_a_renewal_keeps_the_term() -> None:
    """Agents compare terms: the same leader is no later one."""
    one = led()
    assert one.step(0.5, e.Tick()) == []
    (write,) = one.step(1.0, e.Tick())
    assert isinstance(write, e.Write)
    assert write.revision == 5
    one.step(1.1, e.Written(revision=6, sent_at=1.0))
    assert one.term == 5
    assert one.leads(3.6)
    assert not one.leads(3.71)


def test_a_leader_that_is_not_answered_stops_before_its_time() -> None:
    """Counted from when it sent what was taken, not from when it heard so."""
    one = led()
    one.step(1.0, e.Tick())
    assert one.leads(2.69)
    assert not one.leads(2.7)
    assert one.next_deadline() == 2.7
    one.step(2.7, e.Tick())
    assert one.term == 0


def test_an_unanswered_write_is_looked_into() -> None:
    """It may have been taken: then the next one names its revision, and the term stays."""
    one = led()
    one.step(1.0, e.Tick())
    assert one.step(1.5, e.Unanswered(why="late")) == []
    assert one.step(2.0, e.Tick()) == [e.Read()]
    mine = Entry(placer="one", instance="one-i", lease_s=LEASE_S)
    (write,) = one.step(2.1, e.Seen(held=Held(revision=6, entry=mine)))
    assert isinstance(write, e.Write)
    assert write.revision == 6
    one.step(2.2, e.Written(revision=7, sent_at=2.1))
    assert one.term == 5
    assert one.leads(4.7)


def test_another_takes_over_when_it_has_seen_it_unchanged_for_the_whole_lease() -> None:
    """And not a moment before, however long the entry was there when it came."""
    two = lease("two")
    theirs = Held(revision=5, entry=Entry(placer="one", instance="one-i", lease_s=LEASE_S))
    two.step(10.0, e.Tick())
    assert two.step(10.1, e.Seen(held=theirs)) == []
    at = 10.1
    while (at := two.next_deadline()) < 13.1:
        assert two.step(at, e.Tick()) == [e.Read()]
        assert two.step(at, e.Seen(held=theirs)) == []
    assert at == 13.1
    two.step(at, e.Tick())
    (write,) = two.step(at, e.Seen(held=theirs))
    assert isinstance(write, e.Write)
    assert write.revision == 5


def test_a_renewal_begins_the_wait_anew() -> None:
    """The leader lives."""
    two = lease("two")
    for number in range(10):
        held = Held(revision=number + 1, entry=Entry(placer="one", instance="i", lease_s=LEASE_S))
        assert two.step(number * 2.9, e.Seen(held=held)) == []


def test_one_that_is_given_back_is_taken_at_once() -> None:
    """A leader that is stopped in order leaves no gap."""
    one = led()
    assert one.resign(0.5) == [e.Write(revision=5, entry=Entry())]
    assert not one.leads(0.5)
    two = lease("two")
    (write,) = two.step(0.6, e.Seen(held=Held(revision=6)))
    assert isinstance(write, e.Write)


def test_a_leader_that_finds_another_stops() -> None:
    """As after a pause of the whole process."""
    one = led()
    one.step(1.0, e.Tick())
    assert one.step(1.1, e.Written(revision=0, sent_at=1.0)) == [e.Read()]
    theirs = Held(revision=9, entry=Entry(placer="two", instance="two-i", lease_s=LEASE_S))
    one.step(1.2, e.Seen(held=theirs))
    assert (one.term, one.leader) == (0, "two")


def test_without_a_bucket_one_is_made() -> None:
    """By whoever comes first."""
    one = lease()
    one.step(0.0, e.Tick())
    assert one.step(0.1, e.Seen(held=None)) == [e.Make()]
    (write,) = one.step(0.2, e.Seen(held=Held()))
    assert isinstance(write, e.Write)


def test_a_lease_that_is_lost_with_its_bucket_still_runs() -> None:
    """Who held it does not know of the loss before it renews; a stranger to it need not wait."""
    two = lease("two")
    theirs = Held(revision=9, entry=Entry(placer="one", instance="one-i", lease_s=LEASE_S))
    two.step(10.0, e.Seen(held=theirs))
    assert two.step(10.5, e.Seen(held=None)) == [e.Make()]
    assert two.step(10.6, e.Seen(held=Held())) == []
    assert two.step(12.9, e.Seen(held=Held())) == []
    (write,) = two.step(13.0, e.Seen(held=Held()))
    assert isinstance(write, e.Write)
    assert write.revision == 0


def test_a_term_that_agents_have_outlived_becomes_later() -> None:
    """By the next renewal, however many say so; who takes over goes on from there."""
    one = led()
    assert one.step(0.2, e.Outdone(term=900)) == []
    assert one.step(0.3, e.Outdone(term=900)) == []
    (write,) = one.step(0.5, e.Tick())
    assert isinstance(write, e.Write)
    assert one.term == 5
    one.step(0.6, e.Written(revision=6, sent_at=0.5))
    assert one.term == 901
    assert one.step(0.7, e.Outdone(term=901)) == []
    assert one.next_deadline() == 1.5
    two = lease("two")
    two.step(1.0, e.Seen(held=Held(revision=6, entry=write.entry)))
    two.step(4.0, e.Tick())
    (write,) = two.step(4.0, e.Seen(held=Held(revision=6, entry=write.entry)))
    two.step(4.1, e.Written(revision=7, sent_at=4.0))
    assert two.term > 901
    (write,) = two.resign(4.2)
    assert isinstance(write, e.Write)
    assert write.entry.ahead == 896


class Bucket:
    """The key, as JetStream keeps it."""

    def __init__(self) -> None:
        self.held = Held()

    def write(self, action: e.Write) -> int:
        if action.revision != self.held.revision:
            return 0
        self.held = Held(revision=self.held.revision + 1, entry=action.entry)
        return self.held.revision


class Election:
    """Three placers with clocks of their own and one bucket; answers are lost and late."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.bucket = Bucket()
        self.ones = [lease(name) for name in ("one", "two", "three")]
        self.offsets = [self.rng.uniform(-1e6, 1e6) for _ in self.ones]
        self.inbox: list[tuple[float, int, e.Event]] = []
        self.paused = [0.0] * len(self.ones)

    def step(self, now: float) -> list[Lease]:
        """Let what is due happen; return who leads."""
        due = [one for one in self.inbox if one[0] <= now]
        self.inbox = [one for one in self.inbox if one[0] > now]
        for _, place, event in due:
            self.feed(now, place, event)
        for place in range(len(self.ones)):
            self.feed(now, place, e.Tick())
            if self.rng.random() < 0.002:
                self.paused[place] = now + self.rng.uniform(0, 8)
        pairs = zip(self.ones, self.offsets, strict=True)
        return [one for one, offset in pairs if one.leads(now + offset)]

    def feed(self, now: float, place: int, event: e.Event) -> None:
        """Give one placer an event, unless its process is paused."""
        if now < self.paused[place]:
            if not isinstance(event, e.Tick):
                self.inbox.append((self.paused[place], place, event))
            return
        mine = now + self.offsets[place]
        for action in self.ones[place].step(mine, event):
            answer = self.answer(mine, action)
            self.inbox.append((now + self.rng.expovariate(10), place, answer))

    def answer(self, sent_at: float, action: e.Action) -> e.Event:
        """Return what the bucket answers, if the question and the answer arrive."""
        lost: e.Event = e.Unanswered(why="lost")
        answer: e.Event = lost
        if self.rng.random() >= 0.1:
            answer = e.Seen(held=self.bucket.held)
            if isinstance(action, e.Write):
                answer = e.Written(revision=self.bucket.write(action), sent_at=sent_at)
        return lost if self.rng.random() < 0.1 else answer


def test_never_do_two_lead_whatever_is_lost_or_late() -> None:
    """And of those that come one after another, each has a greater term."""
    for seed in range(200):
        election = Election(seed)
        terms: list[int] = []
        for number in range(1200):
            leading = election.step(number * 0.05)
            assert len(leading) <= 1, f"seed {seed}, step {number}"
            if leading and leading[0].term not in terms[-1:]:
                assert leading[0].term > max(terms, default=0), f"seed {seed}, step {number}"
                terms.append(leading[0].term)
        assert terms, f"seed {seed}: nobody ever led"


def test_it_is_said_why_one_leads_no_more() -> None:
    """By what is known: another leads, nothing answers, or it was too late."""
    one = lease("own")
    assert one.why_lost("own") == "not asked yet"
    one.why_not = ""
    assert "ran out" in one.why_lost("own")
    one.leader = "other"
    assert one.why_lost("own") == "other leads"


def test_who_follows_knows_whether_the_leader_has_other_settings() -> None:
    """One that has given the lease back, or says nothing of them, has none."""
    one = Lease(placer="one", instance="i", lease_s=LEASE_S, renew_s=RENEW_S, settings="ours")
    one.step(0.0, e.Tick())
    for told, differs in (("theirs", True), ("ours", False), ("theirs", True), ("", False)):
        entry = Entry(placer="two", instance="j", lease_s=LEASE_S, settings=told)
        one.step(0.0, e.Seen(held=Held(revision=7, entry=entry)))
        assert one.differs is differs
