"""llama.cpp's server, as `llama-server` or inside another process."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from opentela.core.record import ModelOffer
from opentela.supervisor.engines.base import (
    LoadProgress,
    MetricNames,
    ModelEntry,
    ModelSource,
    behind,
    option,
    program_names,
    read_count,
    read_text,
)
from opentela.supervisor.engines.openai import OpenAi

_PROPS: Final = "/props"
_PROGRAMS: Final = frozenset({"llama-server", "opentela.testing.llama_engine"})
_SHARING: Final = frozenset({"--kv-unified", "-kvu"})
_STAGES: Final = ("loading model", "model loaded", "warming up", "initializing")


class LlamaCpp(OpenAi):
    """Context and quantisation stand in `meta`; the build in `/props`."""

    name = "llamacpp"
    port = 8080
    port_variables: tuple[str, ...] = ("LLAMA_ARG_PORT",)
    key_variable = "LLAMA_API_KEY"
    offer_paths: tuple[str, ...] = (_PROPS,)
    metrics = MetricNames(
        running=("llamacpp:requests_processing",),
        waiting=("llamacpp:requests_deferred",),
        kv_used=("llamacpp:kv_cache_usage_ratio",),
        # Tokens are counted when a request ends; calls of llama_decode are counted at once.
        tokens=("llamacpp:n_decode_total",),
    )

    def is_started_by(self, argv: Sequence[str]) -> bool:
        """Return whether llama.cpp's server is among the words."""
        return not _PROGRAMS.isdisjoint(program_names(argv))

    def expected_models(self, argv: Sequence[str]) -> tuple[str, ...]:
        """Return its alias; the model's file name is no name to ask for."""
        return tuple(filter(None, (option(argv, "--alias", "-a"),)))

    def arguments(self, argv: Sequence[str]) -> tuple[str, ...]:
        """Return the words behind the server's name."""
        return behind(argv, *_PROGRAMS)

    def read_progress(self, line: str) -> LoadProgress | None:
        """Return the stage; llama.cpp gives no share."""
        for stage in _STAGES:
            if stage in line:
                return LoadProgress(stage)
        return None

    def _model(self, entry: ModelEntry) -> ModelOffer:
        context = (entry.meta or {}).get("n_ctx", 0)
        return msgspec.structs.replace(
            super()._model(entry), context_max=context if isinstance(context, int) else 0
        )

    def _quantisation(self, entry: ModelEntry) -> str:
        return read_text(entry.meta, "ftype").lower()

    def _version(self, documents: Mapping[str, Any]) -> str:
        return read_text(documents.get(_PROPS), "build_info")

    def _kv_tokens(self, documents: Mapping[str, Any], argv: Sequence[str]) -> int:
        props = documents.get(_PROPS)
        settings = props.get("default_generation_settings") if isinstance(props, dict) else None
        # A slot's own context; where the slots share one, which is so unless they are counted out,
        # it is all that there is.
        each = read_count(settings, "n_ctx")
        is_shared = not option(argv, "--parallel", "-np") or not _SHARING.isdisjoint(argv)
        return each if is_shared else each * max(1, read_count(props, "total_slots"))

    def _source(
        self, entry: ModelEntry, entries: Sequence[ModelEntry], documents: Mapping[str, Any]
    ) -> ModelSource:
        del entry, entries
        props = documents.get(_PROPS)
        template = props.get("chat_template") if isinstance(props, dict) else None
        told = (template,) if isinstance(template, str) else ()
        return ModelSource(read_text(props, "model_path"), told=told)
