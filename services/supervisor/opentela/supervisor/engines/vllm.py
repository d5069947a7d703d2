"""vLLM."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from opentela.supervisor.engines.base import (
    MetricNames,
    option,
    program_names,
    read_text,
)
from opentela.supervisor.engines.openai import OpenAi

_VERSION: Final = "/version"
_MODULE: Final = "vllm.entrypoints."


class Vllm(OpenAi):
    """`vllm serve MODEL`, also inside containers and wrappers."""

    name = "vllm"
    port = 8000
    key_variable = "VLLM_API_KEY"
    offer_paths: tuple[str, ...] = (_VERSION,)
    metrics = MetricNames(
        running=("vllm:num_requests_running",),
        waiting=("vllm:num_requests_waiting",),
        kv_used=("vllm:kv_cache_usage_perc",),
        tokens=("vllm:prompt_tokens_total", "vllm:generation_tokens_total"),
    )

    def is_started_by(self, argv: Sequence[str]) -> bool:
        """Return whether `vllm` or its server module is among the words."""
        return "vllm" in program_names(argv) or any(word.startswith(_MODULE) for word in argv)

    def expected_models(self, argv: Sequence[str]) -> tuple[str, ...]:
        """Return `--served-model-name`, else `--model`, else the word after `serve`."""
        name = option(argv, "--served-model-name") or option(argv, "--model")
        if not name and "serve" in argv:
            name = "".join(argv[argv.index("serve") + 1 :][:1])
        return () if not name or name.startswith("-") else (name,)

    def _version(self, documents: Mapping[str, Any]) -> str:
        return read_text(documents.get(_VERSION), "version")
