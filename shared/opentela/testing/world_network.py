"""The simulated mesh: subjects with wildcards and queue groups, over links that misbehave.

Sites hang together like leaves of one hub. A *link* is one direction between two sites (or within
one); each has its own delay, loss, duplication and reordering, can be clogged (all arrives, late,
in order) or cut (nothing arrives, nothing is said). Messages from one process to another keep
their order unless the link reorders, as a chain of TCP connections does.

What NATS does and this does too: a request that nobody listens for is answered "no responders" at
once; a queue group prefers a member at the sender's own site; interest that was just withdrawn, or
that lies behind a cut which pings have not yet found, still swallows messages in silence.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from opentela.mesh.bus import Handler, Message

if TYPE_CHECKING:
    from opentela.testing.world import World
    from opentela.testing.world_node import Node

DETECT_S: Final = 6.0
"""Until a leaf link that went silent is given up: pings every 2 s, two misses."""
LINGER_S: Final = 0.02
"""How long the mesh goes on delivering to interest that has been withdrawn."""


class LinkForm(msgspec.Struct, frozen=True, kw_only=True):
    """How one direction of a link behaves.

    Attributes:
        delay_s: Mean of the exponential part of the delay.
        delay_min_s: What the delay never goes below.
        loss: Share of messages that vanish.
        duplicate: Share of messages that arrive twice.
        reorder: Share of messages that may overtake earlier ones.
    """

    delay_s: float = 0.002
    delay_min_s: float = 0.0002
    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0


LOCAL: Final = LinkForm(delay_s=0.0002, delay_min_s=0.00005)
WIDE: Final = LinkForm(delay_s=0.005, delay_min_s=0.002)


class Interest:
    """One subscription of one process."""

    __slots__ = ("handler", "is_wild", "live", "lost_at", "node", "queue", "subject", "tokens")

    def __init__(self, node: "Node", subject: str, handler: Handler, queue: str) -> None:
        self.node = node
        self.subject = subject
        self.tokens = subject.split(".")
        self.is_wild = "*" in self.tokens or self.tokens[-1] == ">"
        self.handler = handler
        self.queue = queue
        self.live = True
        self.lost_at = 0.0

    def matches(self, tokens: list[str]) -> bool:
        """Return whether a subject of *tokens* is meant."""
        for place, mine in enumerate(self.tokens):
            if mine == ">":
                return len(tokens) > place
            if place >= len(tokens) or (mine not in {"*", tokens[place]}):
                return False
        return len(tokens) == len(self.tokens)


def one_lane(_subject: str) -> str:
    """Let all messages of one process to another keep their order."""
    return ""


Meter: TypeAlias = Callable[["Node", Sequence[Interest], Message], None]


class Network:
    """Who hears what, when, and whether at all.

    Attributes:
        local: Form of links within a site.
        wide: Form of links between sites, unless `shape` was told otherwise.
        lane_of: Which connection a subject goes over: order holds within one only.
        is_datagrams: Processes speak to each other without a server: nobody is dropped for silence
            and nobody has to connect again.
        meter: Told of each message that is published, by whom, and for whom, lost or not.
    """

    def __init__(self, world: "World") -> None:
        self.world = world
        self.local = LOCAL
        self.wide = WIDE
        self.lane_of: Callable[[str], str] = one_lane
        self.is_datagrams = False
        self.meter: Meter | None = None
        self._rng = world.fork("network")
        self._exact: dict[str, list[Interest]] = {}
        self._wild: list[Interest] = []
        self._fading: list[Interest] = []
        self._matches: dict[str, list[Interest]] = {}
        self._forms: dict[tuple[str, str], LinkForm] = {}
        self._cut_at: dict[tuple[str, str], float] = {}
        self._clogged_until: dict[tuple[str, str], float] = {}
        self._isolated: dict[str, float] = {}
        self._arrived_until: dict[tuple[str, str, str], float] = {}
        self._lose: list[Callable[[Node, Node, str], bool]] = []

    # Faults ------------------------------------------------------------------

    def shape(self, source: str, target: str, form: LinkForm) -> None:
        """Let the link from site *source* to site *target* behave as *form*."""
        self._forms[source, target] = form

    def unshape(self) -> None:
        """Let every link behave as it did at first."""
        self._forms.clear()

    def cut(self, source: str, target: str, *, noticed: bool = False) -> None:
        """Let nothing through from site *source* to site *target*.

        Args:
            source: Where messages come from.
            target: Where they no longer arrive.
            noticed: The connection was closed in the open; else pings have to find out.
        """
        at = self.world.now - (DETECT_S if noticed else 0.0)
        self._cut_at.setdefault((source, target), at)
        self.world.trace.add(self.world.now, "world", "!", f"cut {source} > {target}")

    def partition(self, left: list[str], right: list[str], *, noticed: bool = False) -> None:
        """Cut every link between two groups of sites, both ways."""
        for a in left:
            for b in right:
                self.cut(a, b, noticed=noticed)
                self.cut(b, a, noticed=noticed)

    def isolate(self, node: "Node") -> None:
        """Cut one process off from its own server."""
        self._isolated[node.name] = self.world.now
        self.world.trace.add(self.world.now, "world", "!", f"isolate {node.name}")
        if not self.is_datagrams:
            self.world.after(DETECT_S, self._give_up, node, node.epoch)

    def clog(self, source: str, target: str, for_s: float) -> None:
        """Hold back all messages of a link for a while; none is lost."""
        self._clogged_until[source, target] = self.world.now + for_s
        self.world.trace.add(self.world.now, "world", "!", f"clog {source} > {target} {for_s:.2f}s")

    def lose_if(self, rule: Callable[["Node", "Node", str], bool]) -> None:
        """Lose what *rule* says, given sender, receiver and subject."""
        self._lose.append(rule)

    def heal_cuts(self) -> None:
        """Undo every cut between sites, and nothing else."""
        self.world.trace.add(self.world.now, "world", "!", "heal cuts")
        self._cut_at.clear()

    def heal(self) -> None:
        """Undo every cut, isolation, clog and loss; links keep their shapes."""
        self.world.trace.add(self.world.now, "world", "!", "heal")
        self._cut_at.clear()
        self._clogged_until.clear()
        self._lose.clear()
        isolated = list(self._isolated)
        self._isolated.clear()
        for name in isolated:
            self.world.nodes[name].reattach()

    def _give_up(self, node: "Node", epoch: int) -> None:
        if epoch == node.epoch and node.name in self._isolated:
            node.detach()

    # What is so --------------------------------------------------------------

    def passes(self, source: "Node", target: "Node") -> bool:
        """Return whether a message sent now from one process would reach the other."""
        return (
            (source.site, target.site) not in self._cut_at
            and source.name not in self._isolated
            and target.name not in self._isolated
            and source.attached
            and target.attached
        )

    def loss(self, source: "Node", target: "Node") -> float:
        """Return the share of messages that a link loses now."""
        return self._form(source, target).loss

    def trip_s(self, source: "Node", target: "Node") -> float:
        """Return how long one message takes now, drawn anew each time."""
        return self._delay(self._form(source, target))

    def can_attach(self, node: "Node") -> bool:
        """Return whether a process reaches its server."""
        return node.name not in self._isolated

    # Subjects ----------------------------------------------------------------

    def subscribe(self, node: "Node", subject: str, handler: Handler, queue: str) -> Interest:
        """Let *node* hear *subject*."""
        interest = Interest(node, subject, handler, queue)
        if interest.is_wild:
            self._wild.append(interest)
            self._matches.clear()
        else:
            self._exact.setdefault(subject, []).append(interest)
        return interest

    def withdraw(self, interest: Interest) -> None:
        """Let an interest end; the mesh learns it a moment later."""
        interest.live = False
        interest.lost_at = self.world.now
        if interest.is_wild:
            self._wild.remove(interest)
            self._matches.clear()
        else:
            self._exact[interest.subject].remove(interest)
        self._fading = [i for i in self._fading if self._fades(i)]
        self._fading.append(interest)

    def publish(self, source: "Node", subject: str, payload: bytes, reply: str) -> bool:
        """Carry a message from *source* to everybody who listens, if it has a server."""
        source.note(">", subject, payload)
        if not source.attached:
            source.note("x", f"{subject} (no server)")
            return False
        message = Message(subject, payload, reply)
        receivers = self._receivers(source, subject)
        if self.meter is not None:
            self.meter(source, receivers, message)
        for interest in receivers:
            self._carry(source, interest, message)
        if reply and not receivers and not self._swallowed(source, subject):
            delay_s = self._delay(self.local)
            self.world.after(delay_s, self._answer_nobody, source, source.epoch, reply)
        return True

    def _answer_nobody(self, source: "Node", epoch: int, reply: str) -> None:
        if epoch == source.epoch and source.attached:
            source.note("<", f"no responders for {reply}")
            source.handle(source.on_no_responders, reply)

    def _matching(self, subject: str) -> list[Interest]:
        found = self._matches.get(subject)
        if found is None:
            tokens = subject.split(".")
            found = [i for i in self._wild if i.matches(tokens)]
            self._matches[subject] = found
        return found + self._exact.get(subject, [])

    def _receivers(self, source: "Node", subject: str) -> list[Interest]:
        chosen: list[Interest] = []
        groups: dict[str, list[Interest]] = {}
        for interest in self._matching(subject):
            if not interest.node.attached or self._known_cut(source, interest.node):
                continue
            if interest.queue:
                groups.setdefault(interest.queue, []).append(interest)
            else:
                chosen.append(interest)
        for members in groups.values():
            near = [i for i in members if i.node.site == source.site] or members
            chosen.append(near[self._rng.randrange(len(near))])
        return chosen

    def _known_cut(self, source: "Node", target: "Node") -> bool:
        # Interest travels against the messages: it is gone once the link was found dead.
        at = self._cut_at.get((source.site, target.site))
        return at is not None and self.world.now - at >= DETECT_S

    def _fades(self, interest: Interest) -> bool:
        return self.world.now - interest.lost_at < LINGER_S

    def _swallowed(self, source: "Node", subject: str) -> bool:
        tokens = subject.split(".")
        return any(
            self._fades(interest)
            and interest.matches(tokens)
            and not self._known_cut(source, interest.node)
            for interest in self._fading
        )

    # Links -------------------------------------------------------------------

    def _form(self, source: "Node", target: "Node") -> LinkForm:
        form = self._forms.get((source.site, target.site))
        if form is not None:
            return form
        return self.local if source.site == target.site else self.wide

    def _delay(self, form: LinkForm) -> float:
        return form.delay_min_s + self._rng.expovariate(1 / form.delay_s)

    def _carry(self, source: "Node", interest: Interest, message: Message) -> None:
        target, form = interest.node, self._form(source, interest.node)
        if (
            not self.passes(source, target)
            or (form.loss and self._rng.random() < form.loss)
            or any(rule(source, target, message.subject) for rule in self._lose)
        ):
            source.note("x", f"{message.subject} to {target.name}")
            return
        copies = 2 if form.duplicate and self._rng.random() < form.duplicate else 1
        for _ in range(copies):
            self.world.at(
                self._due(source, target, form, message.subject),
                self._arrive,
                source,
                interest,
                message,
            )

    def _due(self, source: "Node", target: "Node", form: LinkForm, subject: str) -> float:
        due = self.world.now + self._delay(form)
        if self._clogged_until:
            due = max(due, self._clogged_until.get((source.site, target.site), 0.0))
        if form.reorder and self._rng.random() < form.reorder:
            return due
        lane = (source.name, target.name, self.lane_of(subject))
        due = max(due, self._arrived_until.get(lane, 0.0))
        self._arrived_until[lane] = due
        return due

    def _arrive(self, source: "Node", interest: Interest, message: Message) -> None:
        target = interest.node
        if not interest.live or not target.attached:
            target.note("x", f"{message.subject} (nobody there)")
        elif source.alive and not self.passes(source, target):
            target.note("x", f"{message.subject} (cut on the way)")
        else:
            target.deliver(interest, message)
