"""What the simulator knows of the models that may be placed."""

from collections.abc import Iterable

from opentela.core.errors import ConfigError, UsageError
from opentela.placer.assemble import ReadJson, wanted_of
from opentela.placer.files import DemandEntry
from opentela.placer.live.config import ModelConfig
from opentela.placer.options import Wanted
from opentela.placer.problem import GPUS_PER_STAGE


def specs(
    models: Iterable[ModelConfig], read_json: ReadJson
) -> tuple[dict[str, Wanted], list[str]]:
    """Return each model as the simulator sees it, by name, and those that it does not know.

    Raises:
        ConfigError: A name stands for two models, a size of tensor parallelism is no power of two,
            or a `config.json` cannot be read.
    """
    known: dict[str, Wanted] = {}
    unknown: list[str] = []
    taken: dict[str, str] = {}
    for model in models:
        for name in (model.name, *model.aliases):
            if taken.setdefault(name, model.name) != model.name:
                raise ConfigError(
                    f"models: {name} stands for {taken[name]} and for {model.name}",
                    remedy="give each name to one model",
                )
        odd = [size for size in model.tp if size not in GPUS_PER_STAGE]
        if odd:
            raise ConfigError(
                f"models: tp of {model.name} holds {odd[0]}",
                remedy="give powers of two: they divide the GPUs of an agent",
            )
        try:
            known[model.name] = wanted_of(_entry(model), read_json)
        except ConfigError:
            raise
        except UsageError:
            # Nothing of it is known but what stands in the configuration.
            unknown.append(model.name)
    return known, unknown


def _entry(model: ModelConfig) -> DemandEntry:
    return DemandEntry(
        model=model.known_as or model.name,
        name=model.name,
        rate_rps=0.0,
        in_tokens=model.in_tokens,
        out_tokens=model.out_tokens,
        ttft_s=model.ttft_s,
        tpot_s=model.tpot_s,
        e2e_s=model.e2e_s,
        w_dtype=model.w_dtype,
        kv_dtype=model.kv_dtype,
        engine=model.engine,
        tp=model.tp,
        config=model.config,
    )
