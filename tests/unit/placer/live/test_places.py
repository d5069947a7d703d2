"""Where there is room, what could be given up for it, and what could run elsewhere."""

from collections.abc import Collection

from tests.unit.placer.live import parts

from opentela.core import ids
from opentela.core.record import claim_of
from opentela.placer.live.fleet import Fleet, Life
from opentela.placer.live.places import Places, Surplus
from opentela.placer.problem import Group
from opentela.wire.command import Holding, Start

POOL = "a/cpu/4"


class Scene:
    """Agents of four GPUs, with what runs at each."""

    def __init__(self, *held: str) -> None:
        self.fleet = Fleet({name: name for name in "abc"})
        self.lives: dict[str, Life] = {}
        for number, models in enumerate(held):
            record = parts.agent(number)
            self.fleet.apply(0.0, [record])
            agent = self.fleet.agents[claim_of(record).session]
            told = Holding(hardware="cpu", gpus=tuple("0123"), templates=(parts.TEMPLATE,))
            self.fleet.hear(0.0, 0.0, agent, told)
            for place, model in enumerate(models):
                command = ids.ulid(1, bytes([number, place, *bytes(8)]))
                start = Start(command=command, term=1, template="t", model=model, tp=2)
                life = self.fleet.lives[command] = Life(start, agent, began_at=0.0, now=0.0)
                twin = "+" if f"{model}{number}" in self.lives else ""
                self.lives[f"{model}{number}{twin}"] = life
                told_of = parts.engine(100 + 10 * number + place, model, made_by=command)
                self.fleet.apply(0.0, [told_of])

    def places(self) -> Places:
        """Return them as they are."""

        def stoppable(lives: Collection[Life]) -> list[Life]:
            return [one for one in lives if not one.is_leaving]

        return Places(
            self.fleet,
            self.fleet.agents.values(),
            may_start=lambda _agent, _model: True,
            failures=lambda _agent, _model: 0,
            stoppable=stoppable,
        )

    def surplus(self, model: str, target: int) -> Surplus:
        """Return that of *model* only so many are to stay."""
        lives = [life for life in self.lives.values() if life.model == model]
        group = Group(model, POOL, 2)
        return Surplus({group: lives}, "abc", {group: target})


def test_the_fullest_agent_that_has_room_is_taken() -> None:
    """So that the others stay whole."""
    one = Scene("", "a")
    agent = one.places().free(Group("b", POOL, 2))
    assert agent is not None
    assert agent.session == one.lives["a1"].agent
    whole = one.places().free(Group("b", POOL, 4))
    assert whole is not None
    assert whole.session != agent.session


def test_room_that_was_promised_is_given_once() -> None:
    """The second that asks needs another victim, and there is none."""
    one = Scene("ab", "ac")
    places, surplus = one.places(), one.surplus("a", 1)
    assert len(places.room(Group("c", POOL, 2), surplus) or ()) == 1
    one.lives["a0"].stop = "told"
    assert one.places().room(Group("c", POOL, 2), one.surplus("a", 1)) == []


def test_two_that_each_hold_half_an_agent_move_together() -> None:
    """One of them, which then is too much where it was."""
    one = Scene("a", "b")
    places = one.places()
    assert places.free(Group("c", POOL, 4)) is None
    assert not places.is_gathering(POOL)
    found = places.aside(Group("c", POOL, 4))
    assert found is not None
    moved, agent = found
    assert moved.model in "ab"
    assert agent.session != one.lives[f"{moved.model}{'ab'.index(moved.model)}"].agent
    one.lives["a0"].is_aside, one.lives["a0"].down_at = True, 0.0
    assert one.places().is_gathering(POOL)


def test_it_is_said_why_there_is_no_room() -> None:
    """Whatever it is that stands in the way."""
    one = Scene("aa", "bb")
    group = Group("c", POOL, 2)
    assert one.places().why_not(group, one.surplus("a", 2)).startswith("nothing that runs there")
    assert "too short a while" in one.places().why_not(group, one.surplus("a", 1))
    twin = Scene("ab", "bb")
    assert twin.places().why_not(group, twin.surplus("a", 0)).startswith("a would have to go")
    assert "takes commands" in one.places().why_not(Group("c", "none", 1), one.surplus("a", 1))


def test_where_all_is_full_nothing_can_step_aside() -> None:
    """But what is too much can go."""
    one = Scene("aa", "b")
    assert Scene("ab", "ca").places().aside(Group("c", POOL, 4)) is None
    assert one.places().dispensable(POOL, one.surplus("a", 1)) is one.lives["a0"]
    assert one.places().dispensable("elsewhere", one.surplus("a", 1)) is None
    assert one.places().dispensable(POOL, one.surplus("b", 0)) is None, "it is the last"
