"""From a trace, an inventory and what its models are to what a run needs."""

import fnmatch
from collections.abc import Sequence

import numpy as np

from opentela.core.errors import ConfigError, UsageError
from opentela.placer import catalogue
from opentela.placer.assemble import check_run
from opentela.placer.files import ServedEntry
from opentela.placer.lengths import Means, Sums
from opentela.placer.load_cost import measured
from opentela.placer.options import Wanted, enumerate_options
from opentela.placer.problem import Pool
from opentela.placer.replay.fleet import known
from opentela.placer.replay.run import Setting
from opentela.placer.replay.trace import Trace
from opentela.placer.shapes import ReplicaShape, Requests, Slo, Workload
from opentela.placer.simulate import memory


def setting(
    trace: Trace, pools: Sequence[Pool], served: Sequence[ServedEntry], train: float
) -> Setting:
    """Return what a run needs; placements learn from the first *train* of the trace.

    Raises:
        ConfigError: A model of the trace is matched by nothing, or fits nowhere.
    """
    cut = trace.duration_s * train
    past, future = trace.between(0.0, cut), trace.between(cut, float("inf"))
    for part, name in ((past, "learn from"), (future, "judge")):
        if not len(part.requests):
            raise ConfigError(f"the trace has no request to {name}", remedy="change --train")
    wanted = [_wanted(trace, past, index, served) for index in range(len(trace.models))]
    made = enumerate_options(wanted, pools, catalogue.gpus(), measured())
    if made.notes:
        name, why = next(iter(made.notes.items()))
        raise ConfigError(f"{name} of the trace runs nowhere: {why}", remedy="give larger GPUs")
    # Shapes that keep no promise may be used all the same where nothing else is to be had.
    every = enumerate_options(wanted, pools, catalogue.gpus(), measured(), keeps_promises=False)
    models = [
        one._replace(manners=more.manners | one.manners)
        for one, more in zip(known(wanted, made), known(wanted, every), strict=True)
    ]
    return Setting(
        past=past,
        future=future,
        wanted=tuple(wanted),
        models=tuple(models),
        pools=tuple(pools),
        options=made.options,
        every_option=every.options,
        weights_bytes={one.name: _weights(one, pools) for one in wanted},
        until_s=trace.duration_s,
    )


def _wanted(trace: Trace, past: Trace, index: int, served: Sequence[ServedEntry]) -> Wanted:
    name = trace.models[index]
    entry = next((one for one in served if fnmatch.fnmatchcase(name, one.match)), None)
    if entry is None:
        raise ConfigError(
            f"the trace asks for {name}, which no [[model]] matches",
            remedy='add one, such as match = "*"',
        )
    try:
        check_run(entry)
        model = catalogue.model(entry.model)
    except UsageError as error:
        raise ConfigError(f"[[model]] of {entry.match}: {error}", remedy=error.remedy) from error
    # What is known beforehand; a model that nobody asked for yet is taken as it will be.
    mine = past.of(index)
    means = _means(mine if len(mine) else trace.of(index))
    return Wanted(
        name,
        model,
        Workload(rate_rps=0.0, **means._asdict()),
        Slo(ttft_s=entry.ttft_s, tpot_s=entry.tpot_s, e2e_s=entry.e2e_s),
        entry.w_dtype,
        entry.kv_dtype,
        entry.engine,
        entry.tp,
    )


def _means(requests: Requests) -> Means:
    """Return what *requests*, of which there is one at least, are like."""
    prompts = np.maximum(requests.in_tokens, 1).astype(np.float64)
    answers = requests.out_tokens.astype(np.float64)
    sums = Sums(
        count=float(len(requests)),
        prompt=float(prompts.sum()),
        prompt2=float((prompts**2).sum()),
        cached=float(np.minimum(requests.prefix_hit_tokens, prompts).sum()),
        answer=float(answers.sum()),
        answer2=float((answers**2).sum()),
    )
    means = sums.means()
    assert means is not None, "a model of a trace was asked for"
    return means


def _weights(one: Wanted, pools: Sequence[Pool]) -> float:
    shape = ReplicaShape(
        model=one.model, gpu=catalogue.gpu(pools[0].gpu), w_dtype=one.w_dtype, engine=one.engine
    )
    return memory.weight_bytes(shape)
