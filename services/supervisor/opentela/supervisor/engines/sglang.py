"""SGLang."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from opentela.core.record import Parallelism
from opentela.supervisor.engines.base import (
    EngineOffer,
    MetricNames,
    ModelEntry,
    ModelSource,
    behind,
    option,
    read_count,
    read_text,
)
from opentela.supervisor.engines.openai import OpenAi

_SERVER_INFO: Final = ("/server_info", "/get_server_info")
"""The present name and the one before, which newer releases still have and warn of."""
_TOLD: Final = (
    "revision",
    "dtype",
    "quantization",
    "kv_cache_dtype",
    "chat_template",
    "load_format",
)
"""What it tells of its arguments that decides answers: its command may hide in a script."""
_MODULES: Final = ("sglang.launch_server", "sglang.srt.")


class SgLang(OpenAi):
    """`python -m sglang.launch_server --model-path MODEL`."""

    name = "sglang"
    port = 30000
    # SGLang takes a key by its command line only, where every user of the host could read it.
    key_variable = ""
    offer_paths: tuple[str, ...] = _SERVER_INFO
    metrics = MetricNames(
        running=("sglang:num_running_reqs",),
        waiting=("sglang:num_queue_reqs",),
        kv_used=("sglang:token_usage",),
        # Tokens of a request are counted when it ends; those of each step at once.
        tokens=("sglang:realtime_tokens_total", "sglang:generation_tokens_total"),
    )

    def is_started_by(self, argv: Sequence[str]) -> bool:
        """Return whether its server module is among the words."""
        return any(word.startswith(_MODULES) for word in argv)

    def expected_models(self, argv: Sequence[str]) -> tuple[str, ...]:
        """Return `--served-model-name`, else the model's path."""
        name = option(argv, "--served-model-name") or option(argv, "--model-path", "--model")
        return (name,) if name else ()

    def arguments(self, argv: Sequence[str]) -> tuple[str, ...]:
        """Return the words behind its server module."""
        return behind(argv, modules=_MODULES)

    def read_offer(self, documents: Mapping[str, Any], argv: Sequence[str] = ()) -> EngineOffer:
        """Return every model, with the quantisation that the server tells of."""
        offer = super().read_offer(documents, argv)
        quantisation = read_text(_info(documents), "quantization")
        models = (
            msgspec.structs.replace(model, quantisation=quantisation) for model in offer.models
        )
        return offer._replace(models=tuple(models))

    def _source(
        self, entry: ModelEntry, entries: Sequence[ModelEntry], documents: Mapping[str, Any]
    ) -> ModelSource:
        info = _info(documents)
        source = super()._source(entry, entries, documents)
        # Its list repeats the served name as the root; where the weights lie, the server says.
        weights = read_text(info, "model_path") or source.weights
        told = (f"{name}={read_text(info, name)}" for name in _TOLD if read_text(info, name))
        return source._replace(weights=weights, told=tuple(told))

    def _version(self, documents: Mapping[str, Any]) -> str:
        return read_text(_info(documents), "version")

    def _kv_tokens(self, documents: Mapping[str, Any], _argv: Sequence[str]) -> int:
        info = _info(documents)
        each = read_count(info, "max_total_num_tokens")
        # Of each copy: a request lies in one.
        return each * max(1, read_count(info, "dp_size"))

    def _parallelism(self, documents: Mapping[str, Any], _argv: Sequence[str]) -> Parallelism:
        info = _info(documents)
        return Parallelism(
            tensor=read_count(info, "tp_size"),
            pipeline=read_count(info, "pp_size"),
            data=read_count(info, "dp_size"),
        )


def _info(documents: Mapping[str, Any]) -> Any:
    """Return the server's description of itself, under the name that it has."""
    return next((documents[path] for path in _SERVER_INFO if documents.get(path)), None)
