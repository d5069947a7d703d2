"""Processes of a run are found by the variable that they inherited."""

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator

import pytest

from opentela import leftovers

NAME = "OTELA_TEST_RUN"
# The grandchild itself says that it runs: before its exec is done, it has no environment.
GRANDCHILD = "import os, signal; print(os.getpid(), flush=True); signal.pause()"
CHILD = f"""
import subprocess, sys, signal
subprocess.Popen([sys.executable, "-c", {GRANDCHILD!r}, "grandchild"])
signal.pause()
"""


@pytest.fixture
def run() -> Iterator[tuple[str, int, int]]:
    mark = secrets.token_hex(8)
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, "child"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, NAME: mark},
        start_new_session=True,
    )
    assert child.stdout is not None
    grandchild = int(child.stdout.readline())
    yield mark, child.pid, grandchild
    os.killpg(child.pid, 9)
    child.communicate()


def test_every_process_of_a_run_is_found(run: tuple[str, int, int]) -> None:
    """Children and theirs, and nobody else's."""
    mark, child, grandchild = run
    found = leftovers.marked(NAME, mark)
    assert {one.pid for one in found} == {child, grandchild}
    assert leftovers.marked(NAME, mark[:-1]) == []


def test_what_a_process_started_is_found_below_it(run: tuple[str, int, int]) -> None:
    """An engine is known by whose child it is."""
    mark, child, grandchild = run
    found = leftovers.marked(NAME, mark)
    (below,) = leftovers.below(found, child)
    assert below.pid == grandchild
    assert below.command.endswith("grandchild")
    assert [one.pid for one in leftovers.below(found, os.getpid())] == [child, grandchild]
