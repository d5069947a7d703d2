"""Each kind of engine is recognised and read as it answers in life."""

from typing import Any

import pytest

from opentela.core.record import ModelOffer
from opentela.supervisor.engines import ADAPTERS, adapter_for, recognised
from opentela.supervisor.engines.base import EngineLoad, EngineOffer, LoadProgress, ModelSource

# Shortened answers of real servers.
LLAMA_MODELS = {
    "object": "list",
    "models": [{"name": "smol"}],
    "data": [
        {
            "id": "smol",
            "aliases": ["smol", "small"],
            "object": "model",
            "owned_by": "llamacpp",
            "meta": {"n_ctx": 1024, "n_ctx_train": 8192, "ftype": "Q4_1"},
        }
    ],
}
LLAMA_METRICS = """# TYPE llamacpp:n_decode_total counter
llamacpp:n_decode_total 42
llamacpp:requests_processing 2
llamacpp:requests_deferred 1
"""
VLLM_MODELS = {
    "object": "list",
    "data": [
        {
            "id": "Qwen/Qwen3-8B",
            "owned_by": "vllm",
            "root": "/models/qwen",
            "parent": None,
            "max_model_len": 40960,
        },
        {
            "id": "sql-lora",
            "owned_by": "vllm",
            "root": "/models/sql",
            "parent": "Qwen/Qwen3-8B",
            "max_model_len": None,
        },
    ],
}
VLLM_METRICS = """vllm:num_requests_running{engine="0",model_name="q"} 3.0
vllm:num_requests_waiting{engine="0",model_name="q"} 4.0
vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 9.0
vllm:kv_cache_usage_perc{engine="0",model_name="q"} 0.125
vllm:prompt_tokens_total{engine="0",model_name="q"} 100.0
vllm:generation_tokens_total{engine="0",model_name="q"} 50.0
"""


@pytest.mark.parametrize(
    ("argv", "name"),
    [
        (["vllm", "serve", "Qwen/Qwen3-8B"], "vllm"),
        (["apptainer", "exec", "img.sif", "/usr/bin/vllm", "serve", "m"], "vllm"),
        (["python3", "-m", "vllm.entrypoints.openai.api_server", "--model", "m"], "vllm"),
        (["python", "-m", "sglang.launch_server", "--model-path", "m"], "sglang"),
        (["/opt/llama-server", "-m", "x.gguf"], "llamacpp"),
        (["python", "-m", "opentela.testing.llama_engine", "--port", "1"], "llamacpp"),
        (["./serve.sh"], "openai"),
    ],
)
def test_an_engine_is_recognised_by_its_command(argv: list[str], name: str) -> None:
    """Also behind a container or an interpreter; everything else speaks OpenAI."""
    assert adapter_for("auto", argv).name == name


def test_a_configured_kind_is_not_second_guessed() -> None:
    """Who says vllm gets vllm."""
    assert adapter_for("vllm", ["./serve.sh"]).name == "vllm"


def test_an_engine_hidden_in_a_script_is_recognised_by_its_answers() -> None:
    """Whoever owns the models is the engine; nonsense changes nothing."""
    assumed = adapter_for("auto", ["./serve.sh"])
    assert recognised({"/v1/models": VLLM_MODELS}, assumed).name == "vllm"
    assert recognised({"/v1/models": LLAMA_MODELS}, assumed).name == "llamacpp"
    assert recognised({"/v1/models": {"data": [{"id": "x"}]}}, assumed) is assumed
    assert recognised({}, assumed) is assumed


@pytest.mark.parametrize(
    ("argv", "names"),
    [
        (["vllm", "serve", "Qwen/Qwen3-8B", "--port", "1"], ("Qwen/Qwen3-8B",)),
        (["vllm", "serve", "m", "--served-model-name", "chat"], ("chat",)),
        (["vllm", "serve", "m", "--served-model-name", "a", "b", "--port", "1"], ("a", "b")),
        (["vllm", "serve", "m", "--served-model-name=chat", "--port", "1"], ("chat",)),
        (["vllm", "serve", "--model=m"], ("m",)),
        (["vllm", "serve", "--port", "1"], ()),
        (["vllm", "serve"], ()),
        (["vllm"], ()),
        (["llama-server", "-m", "x.gguf", "-a", "smol"], ("smol",)),
        (["llama-server", "-m", "x.gguf"], ()),
        (["python", "-m", "sglang.launch_server", "--model-path", "m"], ("m",)),
        (["python", "-m", "sglang.launch_server"], ()),
        (["./serve", "--model", "m"], ("m",)),
        (["./serve"], ()),
    ],
)
def test_a_command_promises_the_models_that_it_names(
    argv: list[str], names: tuple[str, ...]
) -> None:
    """Nothing is promised that does not stand there."""
    assert adapter_for("auto", argv).expected_models(argv) == names


def read(kind: str, documents: dict[str, Any]) -> EngineOffer:
    return adapter_for(kind, []).read_offer(documents)


def test_llamacpp_tells_context_quantisation_and_build() -> None:
    """The context is what one request may use, not what the model was trained with."""
    props = {"build_info": "b7000-abc", "model_path": "/m/smol.gguf", "chat_template": "{{ x }}"}
    offer = read("llamacpp", {"/v1/models": LLAMA_MODELS, "/props": props})
    model = ModelOffer(name="smol", aliases=("small",), context_max=1024, quantisation="q4_1")
    source = ModelSource("/m/smol.gguf", told=("{{ x }}",))
    assert offer == EngineOffer("llamacpp", (model,), "b7000-abc", (source,))


def test_llamacpp_without_meta_or_props_is_offered_by_name() -> None:
    """Older builds say less."""
    listed = {"data": [{"id": "smol", "meta": {"n_ctx": "much"}}]}
    assert read("llamacpp", {"/v1/models": listed}) == EngineOffer(
        "llamacpp", (ModelOffer(name="smol"),), "", (ModelSource(),)
    )
    assert read("llamacpp", {"/v1/models": {"data": [{"id": "smol"}]}}).models[0].context_max == 0


def test_vllm_tells_context_version_and_adapters() -> None:
    """An adapter is a model of its own."""
    offer = read("vllm", {"/v1/models": VLLM_MODELS, "/version": {"version": "0.32.0"}})
    assert [model.name for model in offer.models] == ["Qwen/Qwen3-8B", "sql-lora"]
    assert [model.context_max for model in offer.models] == [40960, 0]
    assert offer.version == "0.32.0"
    assert offer.sources == (
        ModelSource("/models/qwen"),
        ModelSource("/models/qwen", adapter="/models/sql"),
    )


@pytest.mark.parametrize("path", ["/server_info", "/get_server_info"])
def test_sglang_tells_version_quantisation_and_where_the_weights_lie(path: str) -> None:
    """It stands in the server's description of itself, under its present or its former name."""
    listed = {"data": [{"id": "m", "owned_by": "sglang", "root": "m", "max_model_len": 8192}]}
    info = {"version": "0.5", "model_path": "/w", "quantization": "fp8", "dtype": "auto", "tp": 1}
    assert read("sglang", {"/v1/models": listed, path: info}) == EngineOffer(
        "sglang",
        (ModelOffer(name="m", context_max=8192, quantisation="fp8"),),
        "0.5",
        (ModelSource("/w", told=("dtype=auto", "quantization=fp8")),),
    )


def test_sglang_without_a_description_is_offered_by_name() -> None:
    """A build that hides it is still an engine."""
    listed = {"data": [{"id": "m", "root": "m"}]}
    assert read("sglang", {"/v1/models": listed}).sources == (ModelSource("m"),)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["apptainer", "exec", "i.sif", "vllm", "serve", "m", "--x", "1"], ("--x", "1")),
        (["vllm", "serve", "--x", "1"], ("--x", "1")),
        (["vllm", "serve"], ()),
        (["python", "-m", "vllm.entrypoints.openai.api_server", "--model", "m"], ("--model", "m")),
        (["python", "-m", "sglang.launch_server", "--tp", "2"], ("--tp", "2")),
        (["/opt/llama-server", "-m", "x"], ("-m", "x")),
        (["./serve.sh", "x"], ("./serve.sh", "x")),
    ],
)
def test_arguments_are_the_words_behind_the_engines_name(
    argv: list[str], words: tuple[str, ...]
) -> None:
    """How it was started, from which environment or image, is no argument of its own."""
    assert adapter_for("auto", argv).arguments(argv) == words


def test_an_engine_hidden_in_a_script_has_the_script_for_its_arguments() -> None:
    """It was recognised by its answers, so that its name is not there."""
    assert adapter_for("vllm", []).arguments(["./serve.sh", "x"]) == ("./serve.sh", "x")
    assert adapter_for("sglang", []).arguments(["./serve.sh"]) == ("./serve.sh",)


def test_any_other_engine_tells_its_models() -> None:
    """More is not asked."""
    assert read("openai", {"/v1/models": VLLM_MODELS}).version == ""


def test_load_is_read_from_each_kind_by_its_own_names() -> None:
    """Longer names that begin alike are other metrics."""
    assert adapter_for("llamacpp", []).read_load(LLAMA_METRICS) == EngineLoad(
        running=2, waiting=1, tokens=42.0
    )
    assert adapter_for("vllm", []).read_load(VLLM_METRICS) == EngineLoad(
        running=3, waiting=4, kv_used=0.125, tokens=150.0
    )
    assert adapter_for("openai", []).read_load(VLLM_METRICS) == EngineLoad()


def test_metrics_are_only_asked_of_kinds_that_have_some() -> None:
    """Any other engine may answer 404, or with a million lines."""
    assert [adapter.name for adapter in ADAPTERS if not adapter.has_metrics] == ["openai"]


def test_progress_is_read_from_the_lines_that_engines_print() -> None:
    """A percentage where there is one, a stage where there is none."""
    line = "Loading safetensors checkpoint shards:  50% Completed | 2/4 [00:10<00:10]"
    progress = adapter_for("vllm", []).read_progress(line)
    assert progress is not None
    assert progress.share == 0.5
    vllm = adapter_for("vllm", [])
    assert vllm.read_progress("INFO started") is None
    assert vllm.read_progress("(Worker pid=1) INFO Starting to load model /m...") == LoadProgress(
        "Starting to load model /m..."
    )
    assert vllm.read_progress("Avg generation throughput: 9 tok/s, KV cache usage: 0.5%") is None
    llama = adapter_for("llamacpp", [])
    assert llama.read_progress("srv load_model: loading model '/x'") == LoadProgress(
        "loading model"
    )
    assert llama.read_progress("srv log: done") is None


def test_each_adapter_has_a_name_of_its_own() -> None:
    """The last one takes any command, and none takes no command."""
    assert len({adapter.name for adapter in ADAPTERS}) == len(ADAPTERS)
    assert not any(adapter.is_started_by([]) for adapter in ADAPTERS)


SGLANG_INFO = {
    "version": "0.5.23",
    "model_path": "/w",
    "quantization": None,
    "tp_size": 2,
    "pp_size": 1,
    "dp_size": 4,
    "max_total_num_tokens": 4096,
    "internal_states": [{"memory_usage": {"token_capacity": 4096}}],
}
SGLANG_METRICS = """\
sglang:realtime_tokens_total{engine_type="unified",mode="prefill_compute",tp_rank="0"} 24.0
sglang:realtime_tokens_total{engine_type="unified",mode="decode",tp_rank="0"} 7.0
sglang:num_running_reqs{engine_type="unified",model_name="tiny",tp_rank="0"} 2.0
sglang:num_queue_reqs{engine_type="unified",model_name="tiny",tp_rank="0"} 1.0
sglang:token_usage{engine_type="unified",model_name="tiny",tp_rank="0"} 0.25
sglang:full_token_usage{engine_type="unified",model_name="tiny",tp_rank="0"} 0.9
sglang:generation_tokens_total{is_streaming="false",model_name="tiny"} 8.0
"""
VLLM_CACHE = """\
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="16",cache_dtype="auto",engine="0",num_gpu_blocks="512"} 1.0
vllm:cache_config_info{block_size="16",cache_dtype="auto",engine="1",num_gpu_blocks="512"} 1.0
"""


def capacity(kind: str, documents: dict[str, Any], *argv: str) -> tuple[int, int, int, int]:
    """Return tokens of KV memory, and the parts of layers, groups of them, and copies."""
    offer = adapter_for(kind, []).read_offer({"/v1/models": {"data": []}, **documents}, argv)
    told = offer.parallelism
    return offer.kv_tokens, told.tensor, told.pipeline, told.data


def test_sglang_tells_its_kv_memory_and_how_it_uses_gpus() -> None:
    """Each copy has a memory of its own."""
    assert capacity("sglang", {"/server_info": SGLANG_INFO}) == (16_384, 2, 1, 4)
    assert capacity("sglang", {}) == (0, 0, 0, 0)
    nonsense = {"max_total_num_tokens": "many", "tp_size": -1, "dp_size": True}
    assert capacity("sglang", {"/server_info": nonsense}) == (0, 0, 0, 0)


def test_sglangs_work_is_seen_while_a_request_runs() -> None:
    """What it counts at a request's end alone would make a long answer look like a hang."""
    assert adapter_for("sglang", []).read_load(SGLANG_METRICS) == EngineLoad(
        running=2, waiting=1, kv_used=0.25, tokens=39.0
    )


def test_vllm_tells_its_kv_memory_and_its_command_how_it_uses_gpus() -> None:
    """One memory for each of its engines; where a script hides the command, nobody knows."""
    metrics = {"/metrics": VLLM_CACHE}
    served = ("vllm", "serve", "m")
    assert capacity("vllm", metrics, *served) == (16_384, 1, 1, 1)
    options = ("-tp", "2", "--pipeline-parallel-size=3", "--data-parallel-size", "2")
    assert capacity("vllm", metrics, *served, *options) == (16_384, 2, 3, 2)
    assert capacity("vllm", metrics, "./serve.sh") == (16_384, 0, 0, 0)
    unset = {"/metrics": VLLM_CACHE.replace("512", "None")}
    assert capacity("vllm", unset, *served, "-tp", "auto") == (0, 0, 1, 1)
    assert capacity("vllm", {"/metrics": None}, *served) == (0, 1, 1, 1)


def test_llama_cpp_tells_what_its_slots_hold() -> None:
    """Together, if each has its own; slots that share one memory hold that."""
    props = {"/props": {"default_generation_settings": {"n_ctx": 2048}, "total_slots": 4}}
    server = ("llama-server", "-m", "x")
    assert capacity("llamacpp", props, *server)[0] == 2048
    assert capacity("llamacpp", props, *server, "--parallel", "4")[0] == 8192
    assert capacity("llamacpp", props, *server, "-np", "4", "-kvu")[0] == 2048
    assert capacity("llamacpp", {"/props": {"total_slots": 4}}, *server)[0] == 0


def test_any_other_engine_tells_nothing_of_its_memory() -> None:
    """Zero is unknown."""
    assert capacity("openai", {}) == (0, 0, 0, 0)
