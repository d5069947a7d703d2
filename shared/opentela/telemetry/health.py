"""The page by which people and probes see a process.

`/livez` and `/readyz` are open and say no more than yes or no and why; `/metrics` and `/status`
ask for a bearer token once one is configured.
"""

import errno
import hmac
import os
import socket
import stat
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec
from aiohttp import web

from opentela.core.errors import ConfigError, PortInUseError
from opentela.telemetry import metrics
from opentela.telemetry.config import HealthConfig
from opentela.telemetry.log import get_logger

log: Final = get_logger()

Status = Callable[[], Mapping[str, object]]
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_PRIVATE: Final = frozenset({"/metrics", "/status"})
_PORT_MAX: Final = 65535


class HealthPage:
    """Readiness, status and metrics of one process, over HTTP once opened."""

    def __init__(self, service: str) -> None:
        self._service = service
        self._is_ready = False
        self._reason = "starting"
        self._token = b""
        self._runner: web.AppRunner | None = None
        self.url = ""
        self.status: Status = dict
        """What the service tells of itself in `/status`; must be quick and fit into JSON."""

    @property
    def is_ready(self) -> bool:
        """Whether the service takes work."""
        return self._is_ready

    def set_ready(self, flag: bool, reason: str = "") -> None:  # noqa: FBT001 - reads as a fact
        """State whether the service takes work and, if not, why."""
        if (flag, reason) != (self._is_ready, self._reason):
            log.info("readiness_changed", ready=flag, reason=reason)
        self._is_ready, self._reason = flag, reason

    async def open(self, config: HealthConfig) -> None:
        """Listen where *config* says; `url` is then where.

        Raises:
            ConfigError: The address or the token file is unusable.
            PortInUseError: Somebody else listens there.
        """
        assert self._runner is None, "opened twice"
        host, port = split_address(config.listen, field="health.listen")
        self._token = read_token(Path(config.token_file)) if config.token_file else b""
        app = web.Application(middlewares=[self._guard])
        app.on_response_prepare.append(_say_no_versions)
        app.router.add_get("/livez", self._livez)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/status", self._status)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        await _listen(self._runner, host, port)
        bound = self._runner.addresses[0]
        self.url = f"http://{_shown(bound[0])}:{bound[1]}"
        log.info("health_page_opened", url=self.url)

    async def close(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    @web.middleware
    async def _guard(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        if self._token and request.path in _PRIVATE:
            given = request.headers.get("Authorization", "").encode()
            if not hmac.compare_digest(given, b"Bearer " + self._token):
                return web.Response(
                    status=401,
                    text="give the token of health.token_file as Authorization: Bearer …\n",
                    headers={"WWW-Authenticate": "Bearer"},
                )
        return await handler(request)

    async def _livez(self, _request: web.Request) -> web.Response:
        return _json({"live": True, "service": self._service})

    async def _readyz(self, _request: web.Request) -> web.Response:
        body = {"ready": self._is_ready, "service": self._service, "reason": self._reason}
        return _json(body, status=200 if self._is_ready else 503)

    async def _metrics(self, _request: web.Request) -> web.Response:
        return web.Response(body=metrics.render(), headers={"Content-Type": metrics.CONTENT_TYPE})

    async def _status(self, _request: web.Request) -> web.Response:
        return _json(
            {
                "service": self._service,
                "pid": os.getpid(),
                "url": self.url,
                "ready": self._is_ready,
                "reason": self._reason,
                **self.status(),
            }
        )


async def _say_no_versions(_request: web.Request, response: web.StreamResponse) -> None:
    """Leave out what a scanner would look for: the versions of Python and of the library."""
    response.headers.pop("Server", None)


async def _listen(runner: web.AppRunner, host: str, port: int) -> None:
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError as error:
        await runner.cleanup()
        raise listen_error(error, f"{_shown(host)}:{port}", field="health.listen") from error


def listen_error(error: OSError, address: str, *, field: str) -> PortInUseError | ConfigError:
    """Return what a failure to listen on *address* means to the person who configured *field*."""
    if error.errno == errno.EADDRINUSE:
        return PortInUseError(
            f"{address} is already in use",
            remedy=f"choose another port for {field}, or port 0 for any free one",
        )
    # A name that is not known has a number of its own kind, and its own words.
    words = error.strerror if isinstance(error, socket.gaierror) else os.strerror(error.errno or 0)
    return ConfigError(
        f"{field}: cannot listen on {address}: {words}",
        remedy="use an address of this host, such as 127.0.0.1:0",
    )


def split_address(address: str, *, field: str) -> tuple[str, int]:
    """Return host and port of `host:port` or `[v6]:port`.

    Raises:
        ConfigError: *address* is neither; the message names *field*.
    """
    host, colon, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > _PORT_MAX:
        raise ConfigError(
            f"{field} = {address!r} is not an address to listen on",
            remedy="write host:port, such as 127.0.0.1:8080",
        )
    return host, int(port)


def read_token(path: Path) -> bytes:
    """Return the secret in *path*, which nobody but its owner may read.

    Raises:
        ConfigError: Missing, empty, or readable by others.
    """
    try:
        mode = path.stat().st_mode
        token = path.read_bytes().strip()
    except OSError as error:
        raise ConfigError(
            f"token file {path}: {os.strerror(error.errno or 0)}",
            remedy="write a random token into it, for its owner alone (mode 0600)",
        ) from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigError(
            f"token file {path} is readable by others", remedy=f"run: chmod 600 {path}"
        )
    if not token:
        raise ConfigError(f"token file {path} is empty", remedy="write a random token into it")
    return token


def _json(body: Mapping[str, object], *, status: int = 200) -> web.Response:
    return web.Response(
        status=status,
        body=msgspec.json.encode(body, enc_hook=str),
        content_type="application/json",
    )


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host
