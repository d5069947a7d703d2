"""SGLang."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from opentela.supervisor.engines.base import MetricNames, option, read_text
from opentela.supervisor.engines.openai import OpenAi

_SERVER_INFO: Final = "/get_server_info"
_MODULES: Final = ("sglang.launch_server", "sglang.srt.")


class SgLang(OpenAi):
    """`python -m sglang.launch_server --model-path MODEL`."""

    name = "sglang"
    port = 30000
    # SGLang takes a key by its command line only, where every user of the host could read it.
    key_variable = ""
    offer_paths: tuple[str, ...] = (_SERVER_INFO,)
    metrics = MetricNames(
        running=("sglang:num_running_reqs",),
        waiting=("sglang:num_queue_reqs",),
        kv_used=("sglang:token_usage",),
        tokens=("sglang:prompt_tokens_total", "sglang:generation_tokens_total"),
    )

    def is_started_by(self, argv: Sequence[str]) -> bool:
        """Return whether its server module is among the words."""
        return any(word.startswith(_MODULES) for word in argv)

    def expected_models(self, argv: Sequence[str]) -> tuple[str, ...]:
        """Return `--served-model-name`, else the model's path."""
        name = option(argv, "--served-model-name") or option(argv, "--model-path", "--model")
        return (name,) if name else ()

    def _version(self, documents: Mapping[str, Any]) -> str:
        return read_text(documents.get(_SERVER_INFO), "version")
