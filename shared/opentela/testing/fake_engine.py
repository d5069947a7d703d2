"""A scripted OpenAI-compatible engine as a real process: what a test asks for, it does.

`python -m opentela.testing.fake_engine --port 8080 --model tiny --tokens 16 --tpot-ms 5`

It speaks `/health`, `/v1/models`, chat and text completions (one piece or SSE, with usage),
embeddings and `/metrics`, and passes the same contract tests as a real llama.cpp. Tests steer it
by `POST /control` with any fields of `Script`, read what it saw from `GET /control/state`, and
make it spawn children or crash. Its API key comes from `OTELA_ENGINE_API_KEY`.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Final

import click
import msgspec
import uvloop
from aiohttp import web

from opentela.testing.fake_answers import Answers
from opentela.testing.fake_script import Script, State

API_KEY_VARIABLE: Final = "OTELA_ENGINE_API_KEY"
_BODY_BYTES_MAX: Final = 256 * 1024 * 1024
_PUBLIC: Final = ("/health", "/control")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class FakeEngine:
    """The engine's HTTP side: handlers over one `Script` and one `State`."""

    def __init__(self, script: Script, *, api_key: str = "") -> None:
        self.script = script
        self.state = State(pid=os.getpid())
        self._api_key = api_key
        self._answers = Answers(self)

    def app(self) -> web.Application:
        """Return the application; run it with `handler_cancellation=True` to see aborts."""
        app = web.Application(client_max_size=_BODY_BYTES_MAX, middlewares=[self._guard])
        app.router.add_get("/health", self._health)
        app.router.add_get("/version", self._version)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/control/state", self._state)
        app.router.add_post("/control", self._control)
        app.router.add_post("/control/reset", self._reset)
        app.router.add_post("/control/spawn", self._spawn)
        app.router.add_post("/control/crash", self._crash)
        app.router.add_post("/v1/chat/completions", self._answers.chat)
        app.router.add_post("/v1/completions", self._answers.completions)
        app.router.add_post("/v1/embeddings", self._answers.embeddings)
        # Any other path is answered too, so that a router's "any path" can be tested.
        app.router.add_route("*", "/{path:.*}", self._answers.echo)
        return app

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        public = request.path.startswith(_PUBLIC)
        expected = f"Bearer {self._api_key}" if self._api_key and not public else None
        if expected and request.headers.get("Authorization") != expected:
            self.state.unauthorized += 1
            return _error(401, "Invalid API Key", "authentication_error")
        return await handler(request)

    async def _health(self, _request: web.Request) -> web.StreamResponse:
        if self.script.health == "hang":
            await asyncio.Event().wait()
        return web.json_response({"status": self.script.health}, status=self.script.health_status)

    async def _version(self, _request: web.Request) -> web.StreamResponse:
        return web.json_response({"version": self.script.version})

    async def _models(self, _request: web.Request) -> web.StreamResponse:
        self.state.model_lists += 1
        if self.script.models_failures > 0:
            self.script.models_failures -= 1
            return _error(500, "still thinking", "server_error")
        entries = [
            {
                "id": model,
                "object": "model",
                "created": 0,
                "owned_by": self.script.owned_by,
                "max_model_len": self.script.context_max,
                "root": self.script.root or None,
            }
            for model in self.script.models
        ]
        return web.json_response({"object": "list", "data": entries})

    async def _metrics(self, _request: web.Request) -> web.StreamResponse:
        labels = f'{{model_name="{next(iter(self.script.models), "")}"}}'
        lines = [
            f"vllm:num_requests_running{labels} {float(self.state.running)}",
            f"vllm:num_requests_waiting{labels} 0.0",
            f"vllm:kv_cache_usage_perc{labels} {self.script.kv_used}",
            f"vllm:prompt_tokens_total{labels} {float(self.state.prompt_tokens)}",
            f"vllm:generation_tokens_total{labels} {float(self.state.tokens)}",
        ]
        return web.Response(text="\n".join(lines) + "\n", content_type="text/plain")

    async def _state(self, _request: web.Request) -> web.StreamResponse:
        return web.Response(
            body=msgspec.json.encode({**self.state.document(), "script": self.script}),
            content_type="application/json",
        )

    async def _control(self, request: web.Request) -> web.StreamResponse:
        try:
            self.script = self.script.changed(await request.read())
        except msgspec.DecodeError as error:
            return _error(400, str(error), "invalid_request_error")
        return web.Response(body=msgspec.json.encode(self.script), content_type="application/json")

    async def _reset(self, _request: web.Request) -> web.StreamResponse:
        self.state.forget()
        return web.json_response({})

    async def _spawn(self, request: web.Request) -> web.StreamResponse:
        mode = (await request.json()).get("mode", "child")
        if mode not in SPAWN_MODES:
            return _error(400, f"mode must be one of {SPAWN_MODES}", "invalid_request_error")
        return web.json_response({"pid": spawn(mode, self.state)})

    async def _crash(self, request: web.Request) -> web.StreamResponse:
        os._exit((await request.json()).get("code", 1))


SPAWN_MODES: Final = ("child", "group", "session", "orphan")
"""A plain child; one in its own process group; in its own session; and one whose parent is gone."""

_SLEEPER: Final = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.pause()"
_ORPHAN: Final = (
    "import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', sys.argv[1]],"
    " start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).pid)"
)


def spawn(mode: str, state: State) -> int:
    """Start a child that ignores SIGTERM, as *mode* says, and return its process id."""
    sleeper = [sys.executable, "-c", _SLEEPER]
    if mode == "orphan":
        parent = subprocess.run(  # noqa: S603 - our own interpreter
            [sys.executable, "-c", _ORPHAN, _SLEEPER], check=True, capture_output=True, text=True
        )
        pid = int(parent.stdout)
    else:
        pid = subprocess.Popen(  # noqa: S603 - our own interpreter
            sleeper,
            start_new_session=mode == "session",
            process_group=0 if mode == "group" else None,
        ).pid
    state.children.append(pid)
    return pid


def _error(status: int, message: str, kind: str) -> web.Response:
    return web.json_response(
        {"error": {"message": message, "type": kind, "code": status}}, status=status
    )


async def serve(engine: FakeEngine, *, host: str = "127.0.0.1", port: int = 0) -> web.AppRunner:
    """Return a runner that serves *engine*; `runner.addresses` says where."""
    # An engine that is told to hang shall still end when it is told to end.
    runner = web.AppRunner(
        engine.app(), handler_cancellation=True, access_log=None, shutdown_timeout=0.2
    )
    await runner.setup()
    await web.TCPSite(runner, host, port, reuse_address=True).start()
    return runner


async def _run(script: Script, host: str, port: int, load_ms: float, load_steps: int) -> None:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    engine = FakeEngine(script, api_key=os.environ.get(API_KEY_VARIABLE, ""))
    for mode in script.spawn:
        spawn(mode, engine.state)
    for step in range(load_steps if load_ms else 0):
        click.echo(f"Loading weights: {100 * step // load_steps}% ({step}/{load_steps})")
        sys.stdout.flush()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(load_ms / 1000 / load_steps):
                await stopping.wait()
    runner = await serve(engine, host=host, port=port)
    where = runner.addresses[0]
    click.echo(f"listening on http://{where[0]}:{where[1]}")
    sys.stdout.flush()
    await stopping.wait()
    await runner.cleanup()


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", type=int, required=True, help="0 takes a free port.")
@click.option("--model", "models", multiple=True, default=("fake",), show_default=True)
@click.option("--ttft-ms", type=float, default=0.0, help="Before the first token.")
@click.option("--tpot-ms", type=float, default=0.0, help="Between tokens.")
@click.option("--tokens", type=int, default=16, show_default=True, help="Tokens of an answer.")
@click.option("--context-max", type=int, default=4096, show_default=True)
@click.option("--owned-by", default="opentela", show_default=True, help="As in `/v1/models`.")
@click.option("--load-ms", type=float, default=0.0, help="Time before it listens.")
@click.option("--load-steps", type=click.IntRange(1), default=10, help="Log lines meanwhile.")
@click.option("--script", default="{}", help="Further fields of `Script`, as JSON.")
@click.option("--spawn", "modes", multiple=True, type=click.Choice(SPAWN_MODES))
def main(
    *,
    host: str,
    port: int,
    models: tuple[str, ...],
    ttft_ms: float,
    tpot_ms: float,
    tokens: int,
    context_max: int,
    owned_by: str,
    load_ms: float,
    load_steps: int,
    script: str,
    modes: tuple[str, ...],
) -> None:
    """Serve a scripted engine until SIGTERM."""
    given = Script(
        models=models,
        ttft_ms=ttft_ms,
        tpot_ms=tpot_ms,
        tokens=tokens,
        context_max=context_max,
        owned_by=owned_by,
        spawn=modes,
    )
    uvloop.run(_run(given.changed(script.encode()), host, port, load_ms, load_steps))


if __name__ == "__main__":
    main()
