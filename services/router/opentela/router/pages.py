"""Everything on the API's port that is no engine path: models, liveness, preflights, and errors."""

import asyncio
import hmac
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web

from opentela.router import models
from opentela.router.desk import Desk
from opentela.router.directory import Directory
from opentela.router.fault import Fault, FaultKind, envelope, no_such_model
from opentela.router.paths import Paths
from opentela.telemetry import metrics
from opentela.telemetry.log import get_logger

log: Final = get_logger()

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_PREFLIGHT_S: Final = 24 * 3600
_METHODS: Final = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"
_INTERNAL: Final = Fault(kind=FaultKind.INTERNAL, message="The router failed; its log says why.")
_METHOD: Final = Fault(kind=FaultKind.METHOD_NOT_ALLOWED, message="This path takes other methods.")


class Pages:
    """An aiohttp application whose connections are handed over by `Connection`.

    Args:
        is_ready: Whether the router can serve, and why not.
        metrics_token: Who may read `/metrics`: the holder of it; None is nobody, empty everybody.
    """

    def __init__(
        self,
        *,
        desk: Desk,
        directory: Directory,
        paths: Paths,
        is_ready: Callable[[], tuple[bool, str]],
        metrics_token: bytes | None,
    ) -> None:
        self._desk = desk
        self._directory = directory
        self._paths = paths
        self._is_ready = is_ready
        self._metrics_token = metrics_token
        app = web.Application(middlewares=[self._frame])
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/v1/models/{model:.+}", self._model)
        app.router.add_get("/livez", self._livez)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_route("OPTIONS", "/{path:.*}", self._preflight)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        self._server: web.Server | None = None

    async def start(self) -> None:
        """Get ready to take connections."""
        await self._runner.setup()
        assert isinstance(self._runner.server, web.Server)
        self._server = self._runner.server

    async def stop(self) -> None:
        """Close the connections that were handed over."""
        await self._runner.cleanup()

    def protocol(self) -> asyncio.Protocol:
        """Return what serves one more connection."""
        assert self._server is not None, "not started"
        return self._server()

    @web.middleware
    async def _frame(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Answer faults as OpenAI does, and let pages of allowed origins read every answer."""
        try:
            response = await handler(request)
        except web.HTTPNotFound:
            response = _refused(_unknown(request.path))
        except web.HTTPMethodNotAllowed as error:
            response = self._not_allowed(request, error)
        except web.HTTPException as error:
            message = f"The request cannot be answered: {error.reason}."
            fault = Fault(kind=FaultKind.BAD_REQUEST, message=message, status=error.status)
            response = _refused(fault)
        except Exception:
            log.exception("page_crashed", path=request.path)
            response = _refused(_INTERNAL)
        for line in self._desk.cors(request.headers.get("origin", "").encode()).splitlines():
            name, _, value = line.decode().partition(": ")
            response.headers[name] = value
        return response

    def _not_allowed(
        self, request: web.Request, error: web.HTTPMethodNotAllowed
    ) -> web.StreamResponse:
        # Preflights are answered everywhere, which makes no path known.
        ours = error.allowed_methods - {"OPTIONS"}
        engines = self._paths.methods(request.rel_url.raw_path.encode())
        allowed = sorted(ours | {method.decode() for method in engines})
        response = _refused(_METHOD if allowed else _unknown(request.path))
        if allowed:
            response.headers["allow"] = ", ".join((*allowed, "OPTIONS"))
        return response

    async def _models(self, _request: web.Request) -> web.Response:
        return _json(models.encode(models.listed(self._directory.models())))

    async def _model(self, request: web.Request) -> web.Response:
        # Names have slashes, raw or encoded: both arrive here decoded.
        name = request.match_info["model"]
        pool = self._directory.pool(name)
        if pool.candidates:
            return _json(models.encode(models.described(name, pool)))
        if self._directory.was_offered(name):
            message = f"No session serves the model {name[:128]!r} now."
            return _refused(Fault(kind=FaultKind.NO_LIVE_SESSION, message=message, param="model"))
        return _refused(no_such_model(name))

    async def _livez(self, _request: web.Request) -> web.Response:
        return _json(b'{"live":true}')

    async def _readyz(self, _request: web.Request) -> web.Response:
        is_ready, reason = self._is_ready()
        body = models.encode({"ready": is_ready, "reason": reason})
        return _json(body, status=200 if is_ready else 503)

    async def _metrics(self, request: web.Request) -> web.Response:
        expected = self._metrics_token
        if expected is None:
            raise web.HTTPNotFound
        given = request.headers.get("authorization", "").encode()
        if expected and not hmac.compare_digest(given, b"Bearer " + expected):
            raise web.HTTPUnauthorized
        return web.Response(body=metrics.render(), headers={"Content-Type": metrics.CONTENT_TYPE})

    async def _preflight(self, request: web.Request) -> web.Response:
        asked = request.headers.get("access-control-request-headers")
        headers = {"allow": _METHODS}
        if self._desk.cors(request.headers.get("origin", "").encode()):
            headers |= {
                "access-control-allow-methods": _METHODS,
                "access-control-allow-headers": asked or "*",
                "access-control-max-age": str(_PREFLIGHT_S),
            }
        return web.Response(status=204, headers=headers)


def _unknown(path: str) -> Fault:
    return Fault(kind=FaultKind.UNKNOWN_URL, message=f"Unknown request URL: {path[:256]}")


def _refused(fault: Fault) -> web.Response:
    response = _json(envelope(fault), status=fault.http_status)
    if fault.retry_after_s:
        response.headers["retry-after"] = str(fault.retry_after_s)
    return response


def _json(body: bytes, *, status: int = 200) -> web.Response:
    return web.Response(body=body, status=status, content_type="application/json")
