"""Nobody waits, reads a clock or draws a number where that was not decided."""

import ast

from tests.tidy import tree

SLEEPS = {"time.sleep", "asyncio.sleep"}
CLOCKS = {"time.time", "time.time_ns", "datetime.now", "datetime.utcnow", "datetime.datetime.now"}
LOOPS = {"asyncio.get_event_loop", "asyncio.wait_for", "asyncio.shield"}

MAY_SLEEP = {
    "tests/bench",  # a pause between two requests is what is being measured
    "tests/e2e/processes.py",  # the one place where a test of processes passes time
    "tests/unit/testing/test_virtual_loop.py",  # time is virtual
}
MAY_READ_WALL_CLOCK = {"shared/opentela/service.py"}
MAY_DRAW: set[str] = set()


def test_tests_wait_for_conditions_not_for_time() -> None:
    """A test that sleeps is slow when it passes and flaky when the machine is busy."""
    assert _found(SLEEPS, ["tests"], MAY_SLEEP) == []


def test_only_the_clock_reads_the_wall_clock() -> None:
    """Everything else is handed a `Clock`, so that a test can hand it another."""
    assert _found(CLOCKS, tree.SOURCE_ROOTS, MAY_READ_WALL_CLOCK) == []


def test_randomness_is_handed_in() -> None:
    """The module-level generator cannot be replayed; shells make a `random.Random` and pass it."""
    found = [
        f"{tree.shown(path)}:{node.lineno} {name}"
        for path in tree.sources()
        if tree.shown(path) not in MAY_DRAW
        for name, node in tree.calls(tree.syntax(path))
        if name.startswith("random.") and name not in {"random.Random", "random.SystemRandom"}
    ]
    assert found == []


def test_asyncio_is_used_in_the_structured_way() -> None:
    """Time-outs are scopes and tasks live in groups."""
    assert _found(LOOPS, tree.SOURCE_ROOTS, set()) == []


def _found(banned: set[str], roots: list[str] | tuple[str, ...], allowed: set[str]) -> list[str]:
    return [
        f"{tree.shown(path)}:{node.lineno} {name}"
        for path in tree.python_files(*roots)
        if not any(tree.shown(path).startswith(one) for one in allowed)
        for name, node in tree.calls(tree.syntax(path))
        # To sleep for nothing lets others run; no time passes.
        if name in banned and ast.unparse(node) != f"{name}(0)"
    ]
