"""The scheduler of one engine, step by step."""

from typing import Any

import pytest
from tests.unit.placer.parts import shape

from opentela.placer.fit import shipped
from opentela.placer.simulate.engine import Done, Engine, Job
from opentela.placer.simulate.table import StepTable


def _engine(**more: Any) -> Engine:
    return Engine(StepTable(shape(**more), shipped()))


def _drained(engine: Engine) -> list[Done]:
    found = []
    while not engine.is_idle:
        found.append(engine.finish_step())
        assert len(found) < 10_000
    return found


def test_an_engine_is_idle_until_it_is_asked_and_after_it_answered() -> None:
    """A prompt is one step, and all steps after it are one run."""
    engine = _engine()
    assert engine.is_idle
    engine.add(1.0, Job(0, 100, 0, 50))
    first, ended = engine.finish_step(), engine.finish_step()
    assert [job.index for job in first.first] == [0]
    assert [job.index for job in ended.ended] == [0]
    assert engine.is_idle
    assert engine.outstanding == 0


def test_one_token_needs_no_second_step() -> None:
    """It comes with the prompt."""
    engine = _engine()
    engine.add(0.0, Job(0, 100, 0, 1))
    done = engine.finish_step()
    assert [job.index for job in done.ended] == [0]
    assert engine.is_idle


def test_a_long_prompt_is_worked_on_in_chunks() -> None:
    """20,000 tokens at 8,192 a step."""
    engine = _engine()
    engine.add(0.0, Job(0, 20_000, 0, 1))
    assert [len(done.first) for done in _drained(engine)] == [0, 0, 1]


def test_a_cached_prefix_is_not_worked_on() -> None:
    """What is cached is only read."""
    cold, warm = _engine(), _engine()
    cold.add(0.0, Job(0, 8000, 0, 1))
    warm.add(0.0, Job(0, 100, 7900, 1))
    assert warm.ends_at < cold.ends_at / 3


def test_a_newcomer_is_let_in_at_the_next_step() -> None:
    """A run of steps is cut, so that nobody waits for an answer to end."""
    engine = _engine()
    engine.add(0.0, Job(0, 100, 0, 1000))
    engine.finish_step()
    far = engine.ends_at
    engine.add(0.5, Job(1, 100, 0, 10))
    assert 0.5 <= engine.ends_at < 0.55 < far
    engine.finish_step()
    assert [job.index for job in engine.finish_step().first] == [1]


def test_no_more_run_than_may() -> None:
    """The third of three waits until one of the two has ended."""
    engine = _engine(max_batch=2)
    for index in range(3):
        engine.add(0.0, Job(index, 100, 0, 20))
    done = _drained(engine)
    firsts = [[job.index for job in one.first] for one in done if one.first]
    assert firsts == [[0], [1], [2]]
    assert engine.outstanding == 0


def test_the_youngest_loses_its_blocks_and_still_gets_every_token() -> None:
    """Two grow until the cache is full; the younger starts anew when the older is done."""
    engine = _engine(kv_blocks=20)
    engine.add(0.0, Job(0, 100, 0, 150))
    engine.add(0.0, Job(1, 100, 0, 150))
    done = _drained(engine)
    assert {job.index for one in done for job in one.preempted} == {1}
    assert [job.index for one in done for job in one.ended] == [0, 1]


def test_an_engine_that_reserves_whole_answers_preempts_nobody() -> None:
    """The second waits instead."""
    engine = _engine(engine="tensorrt-llm", kv_blocks=10)
    engine.add(0.0, Job(0, 100, 0, 150))
    engine.add(0.0, Job(1, 100, 0, 150))
    done = _drained(engine)
    assert [one.preempted for one in done if one.preempted] == []
    assert [job.index for one in done for job in one.ended] == [0, 1]


def test_all_blocks_come_back() -> None:
    """After any mix of prompts, answers and preemptions the cache is as free as before."""
    engine = _engine(kv_blocks=64)
    for index in range(40):
        engine.add(index * 0.01, Job(index, 30 + 7 * index, 16 * (index % 3), 1 + 11 * index % 97))
    ended = [job.index for one in _drained(engine) for job in one.ended]
    assert sorted(ended) == list(range(40))
    assert engine.free_blocks == 64


def test_a_job_that_can_never_fit_is_known() -> None:
    """The fleet must not give it to this engine."""
    engine = _engine(kv_blocks=10)
    assert engine.fits(Job(0, 100, 0, 50))
    assert not engine.fits(Job(0, 100, 0, 61))


def test_a_job_with_its_kv_cache_needs_no_prompt() -> None:
    """It comes from an engine that did the prompt."""
    engine = _engine()
    job = Job(0, 4000, 0, 10)
    job.todo = 0
    engine.add(0.0, job)
    done = _drained(engine)
    assert [one.first for one in done if one.first] == []
    assert [job.index for one in done for job in one.ended] == [0]


@pytest.mark.parametrize("steps", [1, 15, 16, 17, 100])
def test_blocks_are_taken_as_sequences_fill_them(steps: int) -> None:
    """A sequence of 100 tokens takes its next block at its 113th."""
    engine = _engine(kv_blocks=1000)
    engine.add(0.0, Job(0, 100, 0, 500))
    engine.finish_step()
    assert engine.blocks_taken(steps) == -(-(100 + steps) // 16) - 7
