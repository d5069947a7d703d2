"""What the simulator knows of the models that may be placed."""

from collections.abc import Iterable

from opentela.core.errors import ConfigError, UsageError
from opentela.placer.assemble import ReadJson, wanted_of
from opentela.placer.files import DemandEntry
from opentela.placer.live.config import ModelConfig
from opentela.placer.options import Wanted


def specs(
    models: Iterable[ModelConfig], read_json: ReadJson
) -> tuple[dict[str, Wanted], list[str]]:
    """Return each model as the simulator sees it, by name, and those that it does not know.

    Raises:
        ConfigError: A `config.json` cannot be read, or a model is said to be known as another that
            is not.
    """
    known: dict[str, Wanted] = {}
    unknown: list[str] = []
    for model in models:
        try:
            known[model.name] = wanted_of(_entry(model), read_json)
        except ConfigError:
            raise
        except UsageError as error:
            if model.known_as or model.config:
                raise ConfigError(f"models: {model.name}: {error}", remedy=error.remedy) from error
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
