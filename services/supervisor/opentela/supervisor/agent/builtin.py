"""The templates that come with us."""

from typing import Final

from opentela.supervisor.agent.config import TemplateConfig

TEMPLATES: Final = {
    "vllm": TemplateConfig(
        command=("vllm", "serve", "{model}", "--host", "127.0.0.1", "--port", "{port}"),
        options={
            "tp": ("--tensor-parallel-size", "{tp}"),
            "pp": ("--pipeline-parallel-size", "{pp}"),
            "quantisation": ("--quantization", "{quantisation}"),
            "kv_dtype": ("--kv-cache-dtype", "{kv_dtype}"),
            "context_max": ("--max-model-len", "{context_max}"),
        },
    ),
    "sglang": TemplateConfig(
        command=(
            *("python3", "-m", "sglang.launch_server", "--model-path", "{model}"),
            *("--host", "127.0.0.1", "--port", "{port}"),
        ),
        options={
            "tp": ("--tp-size", "{tp}"),
            "pp": ("--pp-size", "{pp}"),
            "quantisation": ("--quantization", "{quantisation}"),
            "kv_dtype": ("--kv-cache-dtype", "{kv_dtype}"),
            "context_max": ("--context-length", "{context_max}"),
        },
        module="sglang",
    ),
    "llamacpp-python": TemplateConfig(
        command=(
            *("python3", "-m", "llama_cpp.server", "--model", "{model}", "--n_gpu_layers", "-1"),
            *("--host", "127.0.0.1", "--port", "{port}"),
        ),
        # It spreads the layers over all GPUs that it sees.
        options={"pp": (), "context_max": ("--n_ctx", "{context_max}")},
        module="llama_cpp",
    ),
}
