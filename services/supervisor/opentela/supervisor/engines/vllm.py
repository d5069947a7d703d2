"""vLLM."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from opentela.core.record import Parallelism
from opentela.supervisor.engines.base import (
    METRICS_PATH,
    LoadProgress,
    MetricNames,
    behind,
    count,
    option,
    options,
    program_names,
    read_percent,
    read_text,
)
from opentela.supervisor.engines.openai import OpenAi

_VERSION: Final = "/version"
_CACHE_INFO: Final = "vllm:cache_config_info{"
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')
_MODULE: Final = "vllm.entrypoints."
_STAGES: Final = (
    "Starting to load model",
    "Loading weights took",
    "Model loading took",
    "torch.compile takes",
    "Graph capturing finished",
    "init engine",
    "Starting vLLM",
)
"""Words of its log on the way to serving, where it gives no percentage."""
_WHILE_SERVING: Final = ("throughput", "cache usage", "hit rate")
"""Percentages of these are none of loading."""


class Vllm(OpenAi):
    """`vllm serve MODEL`, also inside containers and wrappers."""

    name = "vllm"
    port = 8000
    key_variable = "VLLM_API_KEY"
    offer_paths: tuple[str, ...] = (_VERSION, METRICS_PATH)
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
        """Return every `--served-model-name`, else `--model`, else the word after `serve`."""
        served = options(argv, "--served-model-name")
        if served:
            return served
        name = option(argv, "--model")
        if not name and "serve" in argv:
            name = "".join(argv[argv.index("serve") + 1 :][:1])
        return () if not name or name.startswith("-") else (name,)

    def arguments(self, argv: Sequence[str]) -> tuple[str, ...]:
        """Return the words behind `vllm serve MODEL`, or behind its server module."""
        words = behind(argv, "vllm", modules=(_MODULE,))
        if words[:1] != ("serve",):
            return words
        has_model = len(words) > 1 and not words[1].startswith("-")
        return words[2:] if has_model else words[1:]

    def read_progress(self, line: str) -> LoadProgress | None:
        """Return a share of the shards or graphs, or a stage."""
        if any(word in line for word in _WHILE_SERVING):
            return None
        share = read_percent(line)
        if share >= 0:
            return LoadProgress(line.strip(), share)
        stage = next((stage for stage in _STAGES if stage in line), "")
        return LoadProgress(line[line.index(stage) :].strip()) if stage else None

    def _kv_tokens(self, documents: Mapping[str, Any], _argv: Sequence[str]) -> int:
        metrics = documents.get(METRICS_PATH)
        lines = metrics.splitlines() if isinstance(metrics, str) else ()
        # One for each data-parallel engine.
        caches = (dict(_LABEL.findall(line)) for line in lines if line.startswith(_CACHE_INFO))
        return sum(
            count(cache.get("num_gpu_blocks", "")) * count(cache.get("block_size", ""))
            for cache in caches
        )

    def _parallelism(self, _documents: Mapping[str, Any], argv: Sequence[str]) -> Parallelism:
        if not self.is_started_by(argv):
            # A script hides it, and vLLM does not tell.
            return Parallelism()
        return Parallelism(
            tensor=count(option(argv, "--tensor-parallel-size", "-tp"), 1),
            pipeline=count(option(argv, "--pipeline-parallel-size", "-pp"), 1),
            data=count(option(argv, "--data-parallel-size", "-dp"), 1),
        )

    def _version(self, documents: Mapping[str, Any]) -> str:
        return read_text(documents.get(_VERSION), "version")
