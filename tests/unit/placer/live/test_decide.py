"""Decisions: who is waited for, what is worth a move, what is left alone."""

import msgspec
import pytest
from tests.unit.placer.live import parts

from opentela.placer.live import decide, solving
from opentela.placer.live.config import ModelConfig, PlacerConfig, PlanConfig
from opentela.placer.live.decide import ENOUGH, Decided, Planner, Question
from opentela.placer.live.demand import Asked
from opentela.placer.live.levels import Rate
from opentela.placer.live.pools import PoolSeen
from opentela.placer.live.specs import specs
from opentela.placer.problem import Group

POOL = PoolSeen(
    name="a/cpu/1", site="a", hardware="cpu", agents=2, gpus=1, templates=(parts.TEMPLATE,)
)


def group(model: str, tp: int = 1) -> Group:
    return Group(model, POOL.name, tp)


def question(running: dict[str, int] | None = None, **rates: float) -> Question:
    """Return what is asked at *rates* while replicas run."""
    return Question(
        asked=tuple(Asked(model=model, rate_rps=rates.get(model, 0.0)) for model in "abc"),
        pools=(POOL,),
        running={group(model): count for model, count in (running or {}).items()},
    )


def decided(asked: Question, **changes: object) -> Decided:
    """Return the decision of a placer of a, b and c, which serve two requests a second each."""
    config = parts.config("a", "b", "c")
    return Planner(config, {}).answer(msgspec.structs.replace(asked, **changes))


def models(told: Decided) -> dict[str, int]:
    """Return how many replicas of each model there shall be."""
    return {group.model: count for group, count in sorted(told.target.items())}


def remembered(rates: dict[str, tuple[float, float]]) -> tuple[Asked, ...]:
    """Return models that are asked for at one rate now, and to be expected at another."""
    return tuple(
        Asked(
            model=model,
            rate_rps=now,
            expected_rps=mean,
            levels=(Rate(max(now, mean), mean),),
        )
        for model, (now, mean) in rates.items()
    )


def test_who_is_waited_for_is_started() -> None:
    """With as many replicas as bursts need."""
    told = decided(question(a=1.8))
    assert told.is_change
    assert models(told) == {"a": 2}
    assert "a is asked for" in told.reason
    assert told.wanted_rps["a"] > 2.0
    assert told.capacity_rps["a"] == 4.0
    limits, of_a, *_ = told.words
    assert limits == "what limits: every GPU is taken in a/cpu/1"
    assert of_a == "a: 100.0% of 2.2 requests/s; 2 of TP1 in a/cpu/1 (2 requests/s each)"


def test_what_nobody_needs_stays_while_nothing_else_needs_its_gpu() -> None:
    """It serves at once if somebody asks again."""
    assert not decided(question({"a": 2})).is_change
    asked = remembered({"a": (0.0, 0.2), "b": (0.1, 0.1)})
    told = decided(Question(asked=asked, pools=(POOL,), running={group("a"): 2}))
    assert models(told) == {"a": 1, "b": 1}


def test_what_nobody_asks_for_any_more_goes_when_the_operator_wants_that() -> None:
    """After the time that was given."""
    told = decided(question({"a": 2}), idle=("a",))
    assert told.is_change
    assert models(told) == {}


def test_the_last_replica_of_a_model_that_is_asked_for_is_not_planned_away() -> None:
    """Three models on two GPUs: who waits, waits."""
    told = decided(question({"a": 1, "b": 1}, a=1.0, b=1.0, c=9.0))
    assert models(told) == {"a": 1, "b": 1}
    assert any("too few GPUs" in note for note in told.notes)


def test_a_small_gain_is_not_worth_a_move() -> None:
    """Hysteresis: else noise would move models."""
    pools = (msgspec.structs.replace(POOL, agents=3),)
    told = decided(question({"a": 2}, a=4.0), pools=pools)
    assert told.is_change
    assert "more are served" in told.reason
    # Of a hundred requests less than one would be served more, were there two replicas of b.
    asked = remembered({"a": (0.3, 0.3), "b": (0.9, 0.003)})
    running = {group("a"): 1, group("b"): 1}
    little = decided(Question(asked=asked, pools=pools, running=running))
    assert not little.is_change
    assert little.reason == ENOUGH


def test_what_keeps_its_promises_is_not_taken_apart() -> None:
    """Another asks for more than its replica does; a spare one goes, the last one of none does."""
    asked = remembered({"a": (1.0, 1.0), "b": (0.0, 0.5), "c": (0.5, 0.5)})
    pools = (msgspec.structs.replace(POOL, agents=4),)
    running = {group("a"): 1, group("b"): 2, group("c"): 1}
    told = decided(Question(asked=asked, pools=pools, running=running))
    assert models(told) == {"a": 2, "b": 1, "c": 1}
    running[group("b")] = 1
    pools = (msgspec.structs.replace(POOL, agents=3),)
    assert not decided(Question(asked=asked, pools=pools, running=running)).is_change


def test_what_is_locked_stays() -> None:
    """A replica that was started a short while ago."""
    told = decided(question({"a": 2}, b=1.0), locked={group("a"): 2})
    assert models(told) == {"a": 2}


def test_what_was_stopped_a_short_while_ago_is_not_started_again() -> None:
    """Unless nothing of the model is left."""
    pools = (msgspec.structs.replace(POOL, agents=4),)
    told = decided(question({"a": 1}, a=5.0), stopped=(group("a"),), pools=pools)
    assert models(told) == {"a": 1}
    assert models(decided(question(a=1.0), stopped=(group("a"),), pools=pools))["a"] >= 1


def test_a_place_that_has_no_room_is_not_planned_for() -> None:
    """Until it is tried again."""
    told = decided(question(a=1.0), shut=(group("a"),))
    assert told.target == {}
    assert told.notes == ("a finds no room for now, and is tried again",)


def test_engines_that_others_started_serve_too() -> None:
    """Nothing is placed on their GPUs, and they are not in the target."""
    told = decided(question(a=0.3), by_hand={("a", "z", "gpu", 3): 2})
    assert told.target == {}
    assert told.capacity_rps["a"] == 4.0


def test_a_replica_of_a_model_that_is_listed_no_more_gives_way() -> None:
    """It is nobody's."""
    told = decided(question({"old": 2}, a=1.0))
    assert models(told) == {"a": 1, "old": 1} or models(told) == {"a": 2}


def test_replicas_that_are_to_be_kept_are_started() -> None:
    """Although nobody asks."""
    config = parts.config("a")
    (model,) = config.models
    kept = msgspec.structs.replace(config, models=(msgspec.structs.replace(model, replicas_min=1),))
    told = Planner(kept, {}).answer(question())
    assert models(told) == {"a": 1}
    assert "fewer replicas" in told.reason


def test_a_model_runs_only_where_it_may_and_where_agents_can() -> None:
    """Sites of the configuration, templates of the agents."""
    config = parts.config("a")
    (model,) = config.models
    for changed in ({"sites": ("z",)}, {"template": "other"}):
        models_ = (msgspec.structs.replace(model, **changed),)
        told = Planner(msgspec.structs.replace(config, models=models_), {}).answer(question(a=1.0))
        assert told.target == {}


def test_what_the_simulator_knows_needs_no_capacity() -> None:
    """Shapes of one agent, by the GPU that its driver names."""
    model = ModelConfig(name="Qwen/Qwen3-8B", template="vllm")
    config = PlacerConfig(access="none", models=(model,))
    known, unknown = specs(config.models, lambda _: {})
    assert unknown == []
    pool = PoolSeen(
        name="a/h100/4", site="a", hardware="NVIDIA H100 80GB HBM3", agents=2, gpus=4,
        templates=("vllm",),
    )  # fmt: skip
    asked = Asked(model=model.name, rate_rps=5.0, in_tokens=500, out_tokens=200)
    told = Planner(config, known).answer(Question(asked=(asked,), pools=(pool,)))
    assert told.is_change
    assert all(group.pp == 1 for group in told.target)
    assert told.capacity_rps[model.name] > 5.0


def test_a_promise_that_cannot_be_kept_does_not_keep_a_model_from_being_served() -> None:
    """Nor do lengths that no engine can hold; it is said."""
    model = ModelConfig(name="Qwen/Qwen3-8B", template="vllm", ttft_s=0.001)
    config = PlacerConfig(access="none", models=(model,))
    known, _ = specs(config.models, lambda _: {})
    pool = PoolSeen(
        name="a/h100/4", site="a", hardware="NVIDIA H100 80GB HBM3", agents=2, gpus=4,
        templates=("vllm",),
    )  # fmt: skip
    for tokens, why in ((900, "promises nowhere"), (2_000_000, "more tokens than fit")):
        asked = Asked(model=model.name, rate_rps=0.5, in_tokens=tokens, out_tokens=200)
        told = Planner(config, known).answer(Question(asked=(asked,), pools=(pool,)))
        assert sum(told.target.values()) >= 1
        assert any(why in note for note in told.notes)


def expected(rates: dict[str, tuple[float, float]]) -> tuple[Asked, ...]:
    """Return what is asked, and to be expected, by model."""
    return tuple(
        Asked(
            model=model,
            rate_rps=rates.get(model, (0, 0))[0],
            expected_rps=rates.get(model, (0, 0))[1],
        )
        for model in "abc"
    )


def test_where_not_all_can_be_served_most_of_what_is_to_be_expected_is() -> None:
    """However much headroom a small demand needs, its requests are few."""
    asked = expected({"a": (0.05, 0.05), "b": (0.05, 0.06), "c": (1.0, 1.0)})
    told = decided(Question(asked=asked, pools=(POOL,)))
    assert models(told) == {"b": 1, "c": 1}
    assert "there are too few GPUs for all that is asked: most is served" in told.notes


def test_who_is_quiet_keeps_its_place_against_who_came_once() -> None:
    """What it has may be needed again soon; it is not started for that."""
    running = {group("a"): 1, group("b"): 1}
    once = remembered({"a": (0.3, 0.3), "b": (0.0, 0.04), "c": (0.01, 0.01)})
    told = decided(Question(asked=once, pools=(POOL,), running=running))
    assert models(told) == {"a": 1, "b": 1}
    often = remembered({"a": (0.3, 0.3), "b": (0.0, 0.04), "c": (0.1, 0.1)})
    told = decided(Question(asked=often, pools=(POOL,), running=running))
    assert models(told) == {"a": 1, "c": 1}
    gone = decided(Question(asked=once, pools=(POOL,), running={group("a"): 1}))
    assert models(gone) == {"a": 1, "c": 1}


def test_the_worst_served_comes_first_if_the_operator_wants_that() -> None:
    """Then what is worth more gives up a second replica for who has none."""
    config = parts.config("a", "b", "c", plan=PlanConfig(scarce="fair"))
    asked = expected({"a": (4.0, 4.0), "b": (0.01, 0.01)})
    question_ = Question(asked=asked, pools=(POOL,), running={group("a"): 2})
    assert models(Planner(config, {}).answer(question_)) == {"a": 1, "b": 1}
    assert models(decided(question_)) == {"a": 2}


def test_nothing_is_solved_while_all_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing could be gained."""

    def none(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr(solving, "solve", none)
    told = decided(question({"a": 2}, a=0.5))
    assert (told.is_change, told.reason) == (False, decide.ENOUGH)
    assert told.words


@pytest.mark.parametrize("agents", [0, 1])
def test_nothing_asked_of_nothing_is_nothing(agents: int) -> None:
    """A mesh may be empty."""
    pools = (msgspec.structs.replace(POOL, agents=agents),) if agents else ()
    assert not decided(question(), pools=pools).is_change


def waiting(model: str, waits_s: float, **expected_rps: float) -> tuple[Asked, ...]:
    """Return what is asked of all, while *model* runs nowhere for so long."""
    return tuple(
        Asked(
            model=name,
            rate_rps=0.1,
            expected_rps=expected_rps.get(name, 0.1),
            waits_s=waits_s if name == model else 0.0,
        )
        for name in "abc"
    )


def in_turns() -> Planner:
    """Return the planner of an operator who lets nobody wait for more than a minute."""
    return Planner(parts.config("a", "b", "c", plan=PlanConfig(wait_max_s=60.0)), {})


def test_who_has_waited_for_long_has_its_turn() -> None:
    """Whoever is expected to use its GPU least makes room, and it is told who and why."""
    running = {group("a"): 1, group("b"): 1}
    early, late = (
        in_turns().answer(
            Question(asked=waiting("c", waits_s, a=0.3, b=0.2), pools=(POOL,), running=running)
        )
        for waits_s in (59.0, 61.0)
    )
    assert (models(early), early.yields, early.turns) == ({"a": 1, "b": 1}, (), ())
    assert (models(late), late.yields, late.turns) == ({"a": 1, "c": 1}, ("b",), ("c",))
    assert late.reason == "c has waited for 1 min: b, expected to use its GPUs least, gives them up"
    for_ever = decided(Question(asked=waiting("c", 9e9), pools=(POOL,), running=running))
    assert (models(for_ever), for_ever.yields) == ({"a": 1, "b": 1}, ())


def test_a_turn_lasts_as_long_as_a_replica_may_not_be_stopped() -> None:
    """And nobody's begins where all are young."""
    running = {group("a"): 1, group("b"): 1}
    question_ = Question(asked=waiting("c", 99.0), pools=(POOL,), running=running, locked=running)
    assert models(in_turns().answer(question_)) == {"a": 1, "b": 1}


def test_who_is_worth_much_more_need_not_wait_for_its_turn() -> None:
    """Or who lost its place for a turn would be gone for as long as the other is asked for."""
    running = {group("a"): 1, group("b"): 1}
    for worth, told in ((0.5, {"a": 1, "c": 1}), (0.15, {"a": 1, "b": 1})):
        asked = waiting("c", 1.0, a=0.9, b=0.1, c=worth)
        answer = in_turns().answer(Question(asked=asked, pools=(POOL,), running=running))
        assert models(answer) == told


def places(swap: str) -> tuple[Planner, Question]:
    """Return two models, each on the GPU that would suit the other, and no third GPU."""
    config = parts.config("a", "b", plan=PlanConfig(swap=swap))  # type: ignore[arg-type]
    known = tuple(
        msgspec.structs.replace(model, capacity_rps=0.0, known_as=spec, tp=(1,))
        for model, spec in zip(config.models, ("qwen3-0.6b", "llama-3.1-8b"), strict=True)
    )
    config = msgspec.structs.replace(config, models=known)
    quick, slow = (
        PoolSeen(name=f"a/{gpu}/1", site="a", hardware=gpu, agents=1, gpus=1,
                 templates=(parts.TEMPLATE,))
        for gpu in ("h100-80g-sxm", "l4-24g")
    )  # fmt: skip
    asked = (
        Asked(model="a", rate_rps=0.1, expected_rps=0.1, in_tokens=500, out_tokens=100),
        Asked(model="b", rate_rps=8.0, expected_rps=8.0, in_tokens=500, out_tokens=200),
    )
    running = {Group("a", quick.name, 1): 1, Group("b", slow.name, 1): 1}
    planner = Planner(config, specs(config.models, lambda _: {})[0])
    return planner, Question(asked=asked, pools=(quick, slow), running=running)


def test_two_last_replicas_change_places_if_that_pays() -> None:
    """The one that costs less is gone for as long as it loads, and that is told."""
    planner, question_ = places("pays")
    told = planner.answer(question_)
    assert {group.model: group.pool for group in told.target} == {
        "a": "a/l4-24g/1",
        "b": "a/h100-80g-sxm/1",
    }
    assert told.yields == ("a",)
    assert "more are served, and a is not for some" in told.reason
    planner, question_ = places("never")
    assert planner.answer(question_).yields == ()


def test_who_was_stopped_to_change_places_is_not_forgotten() -> None:
    """Although who waits elsewhere is worth more."""
    asked = waiting("b", 5.0, a=0.3, b=0.1, c=9.0)
    running = {group("a"): 1}
    free = Question(asked=asked, pools=(POOL,), running=running)
    assert models(decided(free)) == {"a": 1, "c": 1}
    assert models(decided(free, owed=("b",))) == {"a": 1, "b": 1}
