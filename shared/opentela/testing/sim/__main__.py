"""`python -m opentela.testing.sim`: run seeds of the swarm and of the named scenarios."""

import sys
import time

import click

from opentela.testing.sim.catalogue import ALL
from opentela.testing.sim.describe import describe
from opentela.testing.sim.run import Result, Run, Scenario, SimFailedError


@click.command()
@click.option("--scenario", type=click.Choice(sorted(ALL)), default="swarm")
@click.option("--seed", type=int, default=0, show_default=True, help="The first seed.")
@click.option("--seeds", type=click.IntRange(1), default=1, show_default=True, help="How many.")
@click.option("--trace", is_flag=True, help="Print every message of every run.")
@click.option("--quiet", is_flag=True, help="Print failures and the sum only.")
def main(scenario: str, seed: int, seeds: int, *, trace: bool, quiet: bool) -> None:
    """Run a simulated mesh under one seed after another; exit 1 if an invariant breaks."""
    results: list[Result] = []
    failures: list[str] = []
    began = time.perf_counter()
    for one in range(seed, seed + seeds):
        failure = _run(ALL[scenario], one, results, trace=trace, quiet=quiet)
        if failure:
            failures.append(failure)
    _sum_up(results, failures, time.perf_counter() - began)
    sys.exit(1 if failures else 0)


def _run(scenario: Scenario, seed: int, results: list[Result], *, trace: bool, quiet: bool) -> str:
    run = Run(scenario, seed)
    try:
        result = run.result()
    except SimFailedError as error:
        click.echo(f"{error}\ndiagram: {error.draw()}")
        return str(error).partition("\n")[0]
    finally:
        if trace:
            for line in run.world.trace.lines(describe):
                click.echo(line)
    results.append(result)
    if not quiet:
        click.echo(
            f"{result.scenario} {result.seed}: {result.virtual_s:.0f} s, {result.events} events,"
            f" {result.ok} ok, {result.errors} errors, {result.cancelled} cancelled,"
            f" {result.evictions} evicted, equal after {result.converged_s:.1f} s,"
            f" trace {result.digest}"
        )
    return ""


def _sum_up(results: list[Result], failures: list[str], took_s: float) -> None:
    events = sum(result.events for result in results)
    virtual_s = sum(result.virtual_s for result in results)
    click.echo(
        f"{len(results)} runs held, {len(failures)} broke; {virtual_s:.0f} virtual s and {events}"
        f" events in {took_s:.1f} s ({events / max(took_s, 1e-9):.0f} events/s)"
    )
    for failure in failures:
        click.echo(failure)


if __name__ == "__main__":
    main()
