"""Traces: who asked which model when, and how much."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from opentela.core.errors import UsageError
from opentela.core.rng import Rng
from opentela.placer.replay.rows import INSTANT_MAX_S, TOKENS_MAX, objects, table
from opentela.placer.shapes import Floats, Ints, Requests

WINDOW_S: Final = 600.0
"""Length of one window in a trace of rates."""

BLOCK_TOKENS: Final = 512
"""Tokens of one block of the prompt, in a trace that names blocks by their hash."""

CV_MAX: Final = 20.0
"""Burstiness beyond this is taken as this: a window then already holds a few bursts only."""

_SPREAD: Final = 1.0
"""Standard deviation of lengths over their mean, where a trace knows the mean only."""

REQUESTS_MAX: Final = 20_000_000
"""Of a whole trace; they take some 5 GB while they are sorted."""

_REQUESTS: Final = ("arrival_s", "in_tokens", "out_tokens")
_RATES: Final = ("client", "window_s", "rate_rps")
_RATE_MAX: Final = 1e9

_MEANS: Final = (512.0, 128.0)
"""Mean lengths where nothing is known of them."""


class Trace(NamedTuple):
    """Requests of several models, in order of arrival.

    Attributes:
        models: Names.
        model: Index into them of each request.
    """

    models: tuple[str, ...]
    model: Ints
    requests: Requests

    @property
    def duration_s(self) -> float:
        """From zero to the last arrival."""
        return float(self.requests.arrival_s[-1]) if len(self.requests) else 0.0

    def of(self, index: int) -> Requests:
        """Return the requests of one model."""
        return _picked(self.requests, self.model == index)

    def between(self, from_s: float, until_s: float) -> "Trace":
        """Return the requests of a window, at the instants at which they came."""
        arrival = self.requests.arrival_s
        mine = (arrival >= from_s) & (arrival < until_s)
        return Trace(self.models, self.model[mine], _picked(self.requests, mine))


def together(traces: Sequence[Trace]) -> Trace:
    """Return the requests of all *traces* from the same instant on.

    A model that several name is one model.
    """
    models = tuple(dict.fromkeys(name for trace in traces for name in trace.models))
    place = {name: i for i, name in enumerate(models)}
    renamed = [np.array([place[name] for name in one.models])[one.model] for one in traces]
    whole = Requests(
        **{
            name: np.concatenate([getattr(one.requests, name) for one in traces])
            for name in Requests.__struct_fields__
        }
    )
    order = np.argsort(whole.arrival_s, kind="stable")
    return Trace(models, np.concatenate(renamed)[order], _picked(whole, order))


class Means(NamedTuple):
    """Mean lengths of a client's requests, in tokens."""

    in_tokens: float
    out_tokens: float


def parsed(
    text: str,
    name: str,
    rng: Rng,
    *,
    scale: float = 1.0,
    lengths: Mapping[str, Means] | None = None,
) -> Trace:
    """Return the trace in *text*; its first line says which format it is.

    Args:
        text: The whole file.
        name: What to call the one model of a trace that names none.
        rng: Draws what a trace of rates leaves open, and who is left out or doubled by *scale*.
        scale: Multiplies the rate.
        lengths: Mean lengths by client, for a trace of rates.

    Raises:
        UsageError: It is none of the formats, or a line of it is wrong.
    """
    text = text.removeprefix("\ufeff")
    first = text.partition("\n")[0].strip()
    if first.startswith("{"):
        return _thinned(_jsonl(text, name), rng, scale)
    header = first.split(",")
    if set(_RATES) <= set(header):
        return _from_rates(text, rng, scale, lengths or {})
    if set(_REQUESTS) <= set(header):
        return _thinned(_csv(text, name), rng, scale)
    raise UsageError(
        f"the trace begins with {first[:60]!r}, which is no known format",
        remedy="give arrival_s,in_tokens,out_tokens or client,window_s,rate_rps,cv or JSON lines",
    )


def means(text: str) -> dict[str, Means]:
    """Return mean lengths by client; those of a pool stand in for a client's own.

    Columns: pool, client, in_tokens_mean, out_tokens_mean. A client is called as in traces of
    rates: the last part of its pool, `#`, its number.
    """
    known: dict[str, Means] = {}
    pooled: dict[str, list[Means]] = {}
    names: dict[str, str] = {}
    for row in table(text, ("pool", "client", "in_tokens_mean", "out_tokens_mean")):
        pool = row.text("pool").rpartition("/")[2]
        name = f"{pool}#{row.text('client')}"
        names[name] = pool
        if row.text("in_tokens_mean") and row.text("out_tokens_mean"):
            lengths = (
                row.number_in(one, most=TOKENS_MAX) for one in ("in_tokens_mean", "out_tokens_mean")
            )
            known[name] = Means(*lengths)
            pooled.setdefault(pool, []).append(known[name])
    return {name: known.get(name) or _median(pooled.get(pool, [])) for name, pool in names.items()}


def _median(found: Sequence[Means]) -> Means:
    if not found:
        return Means(*_MEANS)
    return Means(*(float(value) for value in np.median(np.array(found), axis=0)))


def _csv(text: str, name: str) -> Trace:
    arrival, tokens, hits, names = [], [], [], []
    for row in table(text, _REQUESTS):
        arrival.append(row.number_in("arrival_s", least=-INSTANT_MAX_S, most=INSTANT_MAX_S))
        tokens.append([row.tokens("in_tokens"), row.tokens("out_tokens")])
        hits.append(min(row.tokens("prefix_hit_tokens", default=0), tokens[-1][0]))
        names.append(row.text("model") or name)
    return _named(names, np.array(arrival), tokens, np.array(hits, dtype=np.int64))


def _jsonl(text: str, name: str) -> Trace:
    """Return a trace with prompts as hashes of blocks, under a cache that forgets nothing."""
    seen: set[int] = set()
    arrival, tokens, hits, names = [], [], [], []
    for row in objects(text):
        blocks = row.fields.get("hash_ids") or []
        if not isinstance(blocks, list) or not all(isinstance(one, int) for one in blocks):
            raise row.fault("hash_ids is no list of whole numbers")
        most_ms = 1000 * INSTANT_MAX_S
        arrival.append(row.number_in("timestamp", least=-most_ms, most=most_ms) / 1000)
        tokens.append([row.tokens("input_length"), row.tokens("output_length")])
        fresh = next((i for i, block in enumerate(blocks) if block not in seen), len(blocks))
        seen.update(blocks)
        hits.append(min(fresh * BLOCK_TOKENS, max(tokens[-1][0] - 1, 0)))
        names.append(row.text("model") or name)
    return _named(names, np.array(arrival), tokens, np.array(hits, dtype=np.int64))


def _named(names: list[str], arrival: Floats, tokens: list[list[int]], hits: Ints) -> Trace:
    if not names:
        raise UsageError("the trace holds no request", remedy="give one with requests")
    index = {name: i for i, name in enumerate(dict.fromkeys(names))}
    model = np.array([index[name] for name in names], dtype=np.int64)
    return _sorted(tuple(index), model, arrival, np.array(tokens, dtype=np.int64), hits)


def _sorted(
    models: tuple[str, ...], model: Ints, arrival: Floats, tokens: Ints, hits: Ints
) -> Trace:
    order = np.argsort(arrival, kind="stable")
    both = np.maximum(tokens, 1)[order]
    requests = Requests(
        arrival_s=arrival[order] - arrival[order[0]],
        in_tokens=both[:, 0],
        out_tokens=both[:, 1],
        prefix_hit_tokens=hits[order],
    )
    return Trace(models, model[order], requests)


def _thinned(trace: Trace, rng: Rng, scale: float) -> Trace:
    """Return *trace* with requests left out, or with copies of them shifted by a little."""
    if scale == 1.0:
        return trace
    _check_amount(len(trace.requests), scale)
    draw = _generator(rng)
    times = (
        draw.poisson(scale, size=len(trace.requests))
        if scale > 1
        else (draw.random(len(trace.requests)) < scale).astype(np.int64)
    )
    index = np.repeat(np.arange(len(trace.requests)), times)
    if not len(index):
        raise UsageError(f"scale = {scale:g} leaves no request", remedy="give a larger scale")
    arrival = trace.requests.arrival_s[index]
    # Copies come within a second of the original, so that bursts stay bursts.
    is_copy = np.concatenate([[False], index[1:] == index[:-1]])
    arrival = arrival + np.where(is_copy, draw.random(len(index)), 0.0)
    order = np.argsort(arrival, kind="stable")
    picked = _picked(trace.requests, index[order])
    requests = Requests(
        arrival_s=arrival[order],
        in_tokens=picked.in_tokens,
        out_tokens=picked.out_tokens,
        prefix_hit_tokens=picked.prefix_hit_tokens,
    )
    return Trace(trace.models, trace.model[index[order]], requests)


def _picked(requests: Requests, which: np.ndarray) -> Requests:
    return Requests(
        arrival_s=requests.arrival_s[which],
        in_tokens=requests.in_tokens[which],
        out_tokens=requests.out_tokens[which],
        prefix_hit_tokens=requests.prefix_hit_tokens[which],
    )


def _from_rates(text: str, rng: Rng, scale: float, lengths: Mapping[str, Means]) -> Trace:
    """Return requests drawn from windows of rates, by client: gaps with the variation given."""
    draw = _generator(rng)
    arrivals: list[Floats] = []
    tokens: list[Ints] = []
    index: dict[str, int] = {}
    which: list[int] = []
    windows = list(_windows(text))
    _check_amount(math.fsum(rate for _, _, rate, _ in windows) * WINDOW_S, scale)
    for client, start, rate, cv in windows:
        gaps = _gaps(rate * scale, min(cv, CV_MAX), draw)
        mean = lengths.get(client, Means(*_MEANS))
        arrivals.append(start + gaps)
        which.append(index.setdefault(client, len(index)))
        tokens.append(np.stack([_lengths(one, len(gaps), draw) for one in mean], axis=1))
    model = np.repeat(np.array(which, dtype=np.int64), [len(one) for one in arrivals])
    if not len(model):
        raise UsageError(f"scale = {scale:g} leaves no request", remedy="give a larger scale")
    at, none = np.concatenate(arrivals), np.zeros(len(model), dtype=np.int64)
    # Clients of whom no request was drawn are no models of this trace.
    kept, model = np.unique(model, return_inverse=True)
    names = tuple(index)
    return _sorted(tuple(names[i] for i in kept), model, at, np.concatenate(tokens), none)


def _windows(text: str) -> Iterator[tuple[str, float, float, float]]:
    for row in table(text, _RATES):
        yield (
            row.text("client"),
            row.number_in("window_s", least=-INSTANT_MAX_S, most=INSTANT_MAX_S),
            row.number_in("rate_rps", most=_RATE_MAX),
            row.number_in("cv", most=_RATE_MAX, default=1.0),
        )


def _check_amount(requests: float, scale: float) -> None:
    """Raise `UsageError` for more requests than memory has room for."""
    if requests * scale > REQUESTS_MAX:
        fitting = REQUESTS_MAX / requests
        raise UsageError(
            f"the trace has {requests * scale:.3g} requests, and {REQUESTS_MAX:.3g} are too many"
            " already",
            remedy=f"give --scale {fitting:.1g} or less" if fitting >= 1e-6 else "correct it",  # noqa: PLR2004 - the least that --scale takes
        )


def _gaps(rate: float, cv: float, draw: np.random.Generator) -> Floats:
    """Return arrivals within one window: a renewal process with gamma gaps."""
    if rate <= 0:
        return np.zeros(0)
    shape = 1.0 / max(cv, 0.05) ** 2
    count = int(2 * rate * WINDOW_S + 12 * max(cv, 1.0) * np.sqrt(rate * WINDOW_S)) + 16
    at = np.cumsum(draw.gamma(shape, 1.0 / (shape * rate), size=count))
    # The process is met at any instant of its own: to begin with a gap would begin with a burst.
    at -= draw.random() * max(float(at[-1]) - WINDOW_S, 0.0)
    return at[(at >= 0) & (at < WINDOW_S)]


def _lengths(mean: float, count: int, draw: np.random.Generator) -> Ints:
    sigma = np.sqrt(np.log(1 + _SPREAD**2))
    values = draw.lognormal(np.log(max(mean, 1.0)) - sigma**2 / 2, sigma, size=count)
    return np.maximum(values.round(), 1).astype(np.int64)


def _generator(rng: Rng) -> np.random.Generator:
    return np.random.default_rng(int.from_bytes(rng.randbytes(8), "big"))
