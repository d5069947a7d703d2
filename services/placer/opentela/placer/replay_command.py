"""What `otela replay` does, prints and writes."""

import itertools
import random
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from rich.progress import Progress, TaskID
from rich.table import Table

from opentela.core.errors import UsageError, in_words
from opentela.placer import catalogue, files
from opentela.placer.live.checks import check
from opentela.placer.live.config import PlacerConfig
from opentela.placer.problem import Pool
from opentela.placer.progress import Lines, shown
from opentela.placer.replay.controller import Policy
from opentela.placer.replay.run import (
    Comparison,
    Run,
    Setting,
    Way,
    at_equal_hours,
    hours_for_equal_slo,
    run,
)
from opentela.placer.replay.setting import setting
from opentela.placer.replay.trace import Means, Trace, means, parsed, together
from opentela.placer.report import plots
from opentela.placer.report.page import Page
from opentela.placer.screen import screen
from opentela.settings import load

_DEFAULT: Final = files.ServedEntry(model="llama-3.1-8b")
_SIZE_MAX: Final = 100.0
_LOAD_FACTORS: Final = (0.1, 0.3, 1.0, 3.0)
_COOL_DOWNS_S: Final = (60.0, 300.0, 1800.0, 7200.0)


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a replay came to.

    Attributes:
        equal_hours: Ways that move models against the others at equal GPU-hours.
        equal_slo: By the other way: (promise kept, GPU-hours of dynamic, of the other; infinite if
            no size reached it).
        sensitivity: `dynamic` and `live` under other load costs and cool-downs, at one size.
    """

    trace: str
    models: int
    requests: int
    judged: int
    hours: float
    runs: tuple[Run, ...]
    equal_hours: tuple[Comparison, ...]
    equal_slo: dict[str, list[tuple[float, float, float]]]
    sensitivity: tuple[Run, ...]


def replayed(
    traces: Sequence[Path],
    inventory: Path,
    *,
    models: Path | None,
    clients: Path | None,
    policies: Sequence[str],
    sizes: str,
    train: float,
    scale: float,
    epoch_s: float,
    cool_down_s: float,
    keep_s: float,
    load_factor: float,
    placer: Path | None,
    overrides: Sequence[str],
    sensitivity: bool,
    seed: int,
    quiet: bool,
) -> Replayed:
    """Return what the traces come to.

    Raises:
        UsageError: A file cannot be read or says something wrong.
    """
    wanted_sizes, live = _sizes(sizes), _live(placer, overrides)
    lengths = _lengths(clients) if clients else {}
    read = together([_trace(trace, seed, scale, lengths) for trace in traces])
    served = files.read(models, files.ServedFile).model if models else (_DEFAULT,)
    made = setting(read, _pools(inventory), served, train)
    policy = Policy(epoch_s=epoch_s, cool_down_s=cool_down_s, keep_s=keep_s)
    ways = [way for way in Way if way in policies]
    work = [
        _Job(way, size, policy, live, load_factor)
        for size, way in itertools.product(wanted_sizes, ways)
    ]
    middle = min(wanted_sizes, key=lambda size: abs(size - 1))
    varied = [way for way in (Way.DYNAMIC, Way.LIVE) if way in ways and sensitivity]
    for way in varied:
        work += _varying(_Job(way, middle, policy, live, load_factor))
    runs = _all(made, work, quiet=quiet)
    main, rest = runs[: len(wanted_sizes) * len(ways)], runs[len(wanted_sizes) * len(ways) :]
    others = [way for way in ways if not way.is_dynamic]
    return Replayed(
        trace=", ".join(trace.name for trace in traces),
        models=len(made.models),
        requests=len(read.requests),
        judged=len(made.future.requests),
        hours=(made.until_s - float(made.future.requests.arrival_s[0])) / 3600,
        runs=tuple(main),
        equal_hours=tuple(one for way in others for one in at_equal_hours(main, way)),
        equal_slo={str(way): hours_for_equal_slo(main, way) for way in others},
        sensitivity=tuple(rest),
    )


class _Job(NamedTuple):
    """One run that is to be made."""

    way: Way
    size: float
    policy: Policy
    live: PlacerConfig
    load_factor: float


def _varying(base: _Job) -> list[_Job]:
    """Return *base* with other load costs, and with other cool-downs."""
    cooled = (_cooled(base, cool_down_s) for cool_down_s in _COOL_DOWNS_S)
    return [
        *(base._replace(load_factor=factor) for factor in _LOAD_FACTORS),
        *(job for job in cooled if job != base),
    ]


def _cooled(base: _Job, cool_down_s: float) -> _Job:
    if base.way is Way.LIVE:
        plan = msgspec.structs.replace(base.live.plan, cool_down_s=cool_down_s)
        return base._replace(live=msgspec.structs.replace(base.live, plan=plan))
    return base._replace(policy=msgspec.structs.replace(base.policy, cool_down_s=cool_down_s))


def _live(placer: Path | None, overrides: Sequence[str]) -> PlacerConfig:
    """Return the settings of a placer; a replay lets it into no mesh."""
    if placer is not None:
        _text(placer)
    given = ("access=none", *overrides)
    config = load(PlacerConfig, service="placer", file=placer, environ={}, overrides=given).value
    check(config)
    return config


def _all(made: Setting, work: Sequence[_Job], *, quiet: bool) -> list[Run]:
    progress = shown()
    runs = []
    with nullcontext() if quiet else progress:
        for job in work:
            task = progress.add_task(f"{job.way} at {job.size:g}", total=1.0)
            runs.append(
                run(
                    made,
                    job.way,
                    job.policy,
                    size=job.size,
                    load_factor=job.load_factor,
                    live=job.live,
                    progress=_telling(progress, task),
                )
            )
            progress.update(task, completed=1.0)
    return runs


def _telling(progress: Progress | Lines, task: TaskID) -> Callable[[float], None]:
    return lambda share: progress.update(task, completed=share)


def _sizes(text: str) -> list[float]:
    try:
        found = [float(one) for one in text.split(",")]
    except ValueError as error:
        raise UsageError(
            f"--sizes {text}: {error}", remedy="give numbers such as 0.5,1,2"
        ) from error
    if not all(0 < one <= _SIZE_MAX for one in found):
        raise UsageError(
            f"--sizes {text}: a size is not above 0, or beyond {_SIZE_MAX:g}",
            remedy="give sizes such as 0.5,1,2",
        )
    return sorted(set(found))


def _trace(path: Path, seed: int, scale: float, lengths: dict[str, Means]) -> Trace:
    rng = random.Random(seed)  # noqa: S311  # repeatable on purpose
    text = _text(path)
    try:
        return parsed(text, path.stem, rng, scale=scale, lengths=lengths)
    except UsageError as error:
        raise UsageError(f"{path}: {error}", remedy=error.remedy) from error


def _lengths(path: Path) -> dict[str, Means]:
    text = _text(path)
    try:
        return means(text)
    except UsageError as error:
        raise UsageError(f"{path}: {error}", remedy=error.remedy) from error


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path} cannot be read: {in_words(error)}", remedy="give a text file"
        ) from error


def _pools(path: Path) -> list[Pool]:
    read = files.read(path, files.InventoryFile)
    return [
        Pool(
            name=one.name,
            gpu=catalogue.gpu(one.gpu).id,
            nodes=one.nodes,
            gpus_per_node=one.gpus_per_node,
            site=one.site,
            usd_h=one.usd_h if one.usd_h is not None else catalogue.gpu(one.gpu).price_usd_h or 1.0,
        )
        for one in read.pool
    ]


def as_json(made: Replayed) -> bytes:
    """Return everything as JSON; what is infinite becomes null."""
    return msgspec.json.encode(made)


_HOURS_FROM: Final = 2.0
"""Hours below which a time is told in minutes."""
_WHOLE_HOURS_FROM: Final = 10.0
_HEADER: Final = (
    "placement", "size", "GPUs", "GPU-h", "as promised", "mean s", "P99 s", "TTFT P99 s",
    "never", "starts",
)  # fmt: skip


def _cells(one: Run) -> tuple[str, ...]:
    told = one.outcome
    return (
        *(str(one.way), f"{one.size:g}", str(one.gpus), f"{told.gpu_hours:.1f}"),
        *(f"{told.slo_attained:.2%}", f"{told.mean_s:.2f}", f"{told.p99_s:.1f}"),
        *(f"{told.ttft_p99_s:.1f}", f"{told.unserved:.2%}", str(told.starts)),
    )


def show(made: Replayed, page: Path) -> None:
    """Print the figures for people."""
    console = screen()
    title = f"{made.judged} requests of {made.models} models in {_span(made.hours)}"
    table = Table(title=title, title_justify="left", box=None, header_style="bold", pad_edge=False)
    for place, name in enumerate(_HEADER):
        table.add_column(name, justify="right" if place else "left", overflow="fold")
    for one in made.runs:
        table.add_row(*_cells(one))
    console.print(table)
    for text in sentences(made):
        console.print(text, soft_wrap=True)
    console.print(f"Report: {page}", soft_wrap=True)


def sentences(made: Replayed) -> list[str]:
    """Return what the figures say."""
    said = [
        f"At {_hours(one.gpu_hours)} {one.way} serves {one.dynamic_slo:.1%} as promised,"
        f" {one.against} {one.other_slo:.1%}."
        for one in made.equal_hours
    ]
    for way, rows in made.equal_slo.items():
        for slo, own, other in rows:
            least = _hours(other) if other < float("inf") else "more than any size that was tried"
            said.append(f"For {slo:.1%} as promised dynamic takes {_hours(own)}, {way} {least}.")
    # Sizes that come to the same whole nodes say the same.
    return list(dict.fromkeys(said))


def _hours(amount: float) -> str:
    # A trace may be of minutes: what is not nothing must not look so.
    return f"{amount:.0f} GPU-hours" if amount >= _WHOLE_HOURS_FROM else f"{amount:.2g} GPU-hours"


def _span(hours: float) -> str:
    return f"{hours:.1f} h" if hours >= _HOURS_FROM else f"{60 * hours:.0f} min"


def write(made: Replayed, folder: Path) -> Path:
    """Write plots, figures and the page into *folder*; return the page."""
    folder.mkdir(parents=True, exist_ok=True)
    pictures = {"frontier.png": plots.frontier(made.runs)}
    middle = min((one.size for one in made.runs), key=lambda size: abs(size - 1))
    pictures["models.png"] = plots.models([one for one in made.runs if one.size == middle])
    for way in dict.fromkeys(one.way for one in made.sensitivity):
        base = next(one for one in made.runs if one.size == middle and one.way is way)
        mine = [one for one in made.sensitivity if one.way is way]
        pictures[f"sensitivity-{way}.png"] = plots.sensitivity([*mine, base], base)
    for name, png in pictures.items():
        (folder / name).write_bytes(png)
    (folder / "replay.json").write_bytes(as_json(made) + b"\n")
    page = folder / "index.html"
    page.write_text(_page(made, pictures), encoding="utf-8")
    return page


def _page(made: Replayed, pictures: dict[str, bytes]) -> str:
    page = Page(f"Replay of {made.trace}")
    page.text(
        f"{made.requests} requests of {made.models} models; placements learnt from the first part,"
        f" the last {_span(made.hours)} ({made.judged} requests) are judged. Sizes are multiples of"
        " the nodes. Every placement has the same router; times come from the analytic simulator."
    )
    page.heading("Placements")
    page.table(_HEADER, [_cells(one) for one in made.runs])
    page.picture(pictures["frontier.png"], "promise kept and 99th percentile by GPU-hours")
    for text in sentences(made):
        page.text(text)
    page.heading("Models")
    page.picture(pictures["models.png"], "share of models by promise kept")
    if made.sensitivity:
        page.heading("Load cost and cool-down")
        header = ("placement", "load cost", "cool-down s", *_HEADER[2:])
        page.table(header, [_varied(one) for one in made.sensitivity])
        for name, picture in pictures.items():
            if name.startswith("sensitivity-"):
                page.picture(picture, "promise kept by load cost and cool-down")
    return page.html()


def _varied(one: Run) -> tuple[Any, ...]:
    return (one.way, f"{one.load_factor:g}", f"{one.cool_down_s:.0f}", *_cells(one)[2:])
