"""`prefix_affinity`: equal beginnings meet, nobody gets more than its share, churn moves little."""

import json
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.router.parts import Dice, candidate

from opentela.router.directory import Candidate
from opentela.router.outcomes import Result
from opentela.router.policies import prefix_affinity as module
from opentela.router.policies.base import Call, Observed
from opentela.router.policies.prefix_affinity import FREE, OVER_SHARE, PrefixAffinity, points_of

ALL = tuple(candidate(f"s{number:03}") for number in range(20))
ENDED = Observed(Result.ANSWERED, 1.0, tokens_out=10)


def call(text: str, system: str = "", model: str = "m") -> Call:
    """Return a chat that begins so."""
    messages = [{"role": "system", "content": system}, {"role": "user", "content": text}]
    return Call(model, "r", json.dumps({"model": model, "messages": messages}).encode())


def test_one_candidate_needs_no_ring() -> None:
    """Nothing is to be decided."""
    assert PrefixAffinity(Dice()).pick(call("x"), ALL[:1]) is ALL[0]


def test_equal_beginnings_meet_in_every_router() -> None:
    """Routers agree without a word; different beginnings spread."""
    routers = [PrefixAffinity(random.Random(seed)) for seed in range(3)]
    owners: list[str] = []
    for number in range(200):
        picks = {router.pick(call(f"talk {number}"), ALL).session for router in routers}
        assert len(picks) == 1
        owners += picks
    assert len(set(owners)) == len(ALL)


def test_turns_of_a_conversation_stay_where_it_began() -> None:
    """What comes after the first message of the user changes nothing."""
    policy = PrefixAffinity(Dice())
    first = json.loads(call("hello").body[:])
    later = {**first, "messages": [*first["messages"], {"role": "assistant", "content": "hi"}]}
    later["messages"].append({"role": "user", "content": "and?"})
    again = Call("m", "r", json.dumps({**later, "stream": True}).encode())
    assert policy.pick(call("hello"), ALL) is policy.pick(again, ALL)


def test_a_full_owner_of_a_long_prompt_hands_conversations_to_their_own() -> None:
    """Everybody has one system prompt: each conversation still comes back to one place."""
    policy, system = PrefixAffinity(Dice()), "be helpful " * 300
    home = policy.pick(call("a", system), ALL)
    assert policy.pick(call("b", system), ALL) is home
    for _ in range(FREE + 2):
        policy.on_request_start(call("a", system), home)
    places = {text: policy.pick(call(text, system), ALL) for text in "abcdefgh"}
    assert home not in places.values()
    assert len({one.session for one in places.values()}) > 3
    assert all(policy.pick(call(text, system), ALL) is place for text, place in places.items())


@given(seed=st.integers(0, 2**32), count=st.integers(1, 300), kinds=st.integers(1, 5))
def test_nobody_gets_more_than_its_share(seed: int, count: int, kinds: int) -> None:
    """Although there are fewer beginnings than sessions."""
    policy, rng = PrefixAffinity(Dice()), random.Random(seed)
    held: Counter[str] = Counter()
    running: list[tuple[Call, Candidate]] = []
    for _ in range(count):
        if running and rng.random() < 0.2:
            ended, at = running.pop(rng.randrange(len(running)))
            policy.on_request_end(ended, at, ENDED._replace(result=Result.CANCELLED))
            held[at.session] -= 1
        asked = call(f"talk {rng.randrange(kinds)}")
        chosen = policy.pick(asked, ALL)
        before = held[chosen.session]
        assert before < FREE or before < OVER_SHARE * (len(running) + 1) / len(ALL)
        policy.on_request_start(asked, chosen)
        running.append((asked, chosen))
        held[chosen.session] += 1


@pytest.mark.parametrize(("seed", "names"), [(1, 1), (2, 3), (3, 10), (4, 40)])
def test_the_bound_holds_while_sessions_come_and_go(seed: int, names: int) -> None:
    """Whatever names their models go by: adapters of one engine share what it can do."""
    policy, rng = PrefixAffinity(Dice()), random.Random(seed)
    held: Counter[str] = Counter()
    running: list[tuple[Call, Candidate]] = []
    there = list(ALL)
    for _ in range(200):
        if rng.random() < 0.1:
            there = sorted(rng.sample(ALL, rng.randint(2, len(ALL))), key=lambda one: one.session)
            # Who was at those that have gone ends there.
            for asked, at in [one for one in running if one[1] not in there]:
                running.remove((asked, at))
                policy.on_request_end(asked, at, ENDED._replace(result=Result.FAILED))
                held[at.session] -= 1
        asked = call("one for all", model=f"m-{rng.randrange(names)}")
        chosen = policy.pick(asked, there)
        before = held[chosen.session]
        assert before < FREE or before < OVER_SHARE * (len(running) + 1) / len(there) + 1e-9
        policy.on_request_start(asked, chosen)
        running.append((asked, chosen))
        held[chosen.session] += 1


def test_who_died_and_came_back_leaves_the_others_caches_where_they_are() -> None:
    """After a storm of deaths and joins, conversations are where they were or where they moved."""
    policy, rng = PrefixAffinity(Dice()), random.Random(7)
    talks = [call(f"talk {number}") for number in range(200)]
    cached: dict[int, set[str]] = {number: set() for number in range(len(talks))}
    there = list(ALL)
    for _ in range(20):
        there = sorted(rng.sample(ALL, rng.randint(12, len(ALL))), key=lambda one: one.session)
        for number, talk in enumerate(talks):
            cached[number].add(policy.pick(talk, there).session)
    hits = sum(policy.pick(talk, ALL).session in cached[n] for n, talk in enumerate(talks))
    assert hits >= 0.95 * len(talks)


def test_shares_are_by_speed() -> None:
    """Of one beginning the fast session takes most."""
    fleet = (candidate("fast", hardware="NVIDIA H200"), candidate("slow", hardware="NVIDIA L4"))
    policy, asked = PrefixAffinity(Dice()), call("x")
    for _ in range(51):
        policy.on_request_start(asked, policy.pick(asked, fleet))
    counts = policy._in_flight
    assert counts.of(fleet[1].session) <= OVER_SHARE * 51 * 300 / 5100 + 1
    assert len(points_of(fleet[0])) > 10 * len(points_of(fleet[1]))


def test_a_session_that_leaves_or_joins_moves_only_its_own() -> None:
    """The others' caches stay of use."""
    policy = PrefixAffinity(Dice())
    calls = [call(f"talk {number}") for number in range(300)]
    before = [policy.pick(one, ALL) for one in calls]
    after = [policy.pick(one, ALL[:7] + ALL[8:]) for one in calls]
    moved = [old for old, new in zip(before, after, strict=True) if old is not new]
    assert {one.session for one in moved} == {ALL[7].session}


def test_counts_return_to_nothing() -> None:
    """A session with nothing under way is not remembered."""
    policy = PrefixAffinity(Dice())
    policy.on_request_start(call("x"), ALL[0])
    policy.on_request_end(call("x"), ALL[0], ENDED)
    assert len(policy._in_flight) == 0


def test_rings_are_bounded_and_kept_for_who_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Constraints ask for the same few sets of sessions, made anew each time."""
    monkeypatch.setattr(module, "RINGS_MAX", 2)
    policy = PrefixAffinity(Dice())
    for number in (1, 2, 1, 3):
        policy.pick(call("x"), list(ALL[number:]))
    assert len(policy._rings) == 2
    kept = policy._latest["m"]
    policy.pick(call("x"), list(ALL[3:]))
    assert policy._latest["m"] is kept
