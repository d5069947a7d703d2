"""Everything on the API's port that is no engine path: models, liveness, preflights, and errors.

Answered on the spot and on the client's own connection, within its limits and its time: what knows
no second HTTP server cannot be understood by one in another way.
"""

import hmac
import re
from collections.abc import Callable, Mapping
from typing import ClassVar, Final, NamedTuple
from urllib.parse import unquote

from opentela.router import models
from opentela.router.desk import Desk
from opentela.router.directory import Directory
from opentela.router.fault import Fault, FaultKind, envelope, no_such_model
from opentela.router.paths import Paths
from opentela.router.reading import Reading
from opentela.telemetry import metrics
from opentela.telemetry.log import get_logger

log: Final = get_logger()

_PREFLIGHT_S: Final = 24 * 3600
_METHODS: Final = b"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"
_READS: Final = frozenset({b"GET", b"HEAD"})
_MODEL: Final = "/v1/models/"
_SHOWN_CHARS_MAX: Final = 256
_TOKEN: Final = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_NAMES: Final = re.compile(rb"%b(?:[ \t]*,[ \t]*%b)*" % (_TOKEN, _TOKEN))
"""Names of headers, as a preflight lists them: nothing else is said back to it."""

_JSON: Final = b"content-type: application/json\r\n"
_LIVE: Final = b'{"live":true}'
_INTERNAL: Final = Fault(kind=FaultKind.INTERNAL, message="The router failed; its log says why.")
_METHOD: Final = Fault(kind=FaultKind.METHOD_NOT_ALLOWED, message="This path takes other methods.")
_NO_TOKEN: Final = Fault(
    kind=FaultKind.BAD_REQUEST,
    status=401,
    message="Metrics require the token of health.token_file: Authorization: Bearer ….",
)


class Page(NamedTuple):
    """A whole answer; *fields* are header lines."""

    status: int
    fields: bytes
    body: bytes


class Pages:
    """What the router itself has to say.

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

    def answer(self, reading: Reading) -> Page:
        """Return the answer to a request that is for no engine; a bug in a page is a 500."""
        # Encoded or not: both are the same.
        path = unquote(reading.head.path.decode("latin-1"))
        try:
            page = self._page(reading, path)
        except Exception:
            log.exception("page_crashed", path=path)
            page = _refused(_INTERNAL)
        cors = self._desk.cors(reading.value_of(b"origin"))
        return page._replace(fields=page.fields + cors)

    def _page(self, reading: Reading, path: str) -> Page:
        if reading.head.method == b"OPTIONS":
            return self._preflight(reading)
        if path == "/metrics" and self._metrics_token is None:
            return _refused(_unknown(path))
        is_model = path.startswith(_MODEL) and path != _MODEL
        show = self._SHOW.get(path)
        if reading.head.method not in _READS or not (show or is_model):
            return self._not_shown(reading, path, is_ours=bool(show or is_model))
        return show(self, reading) if show else self._model(path.removeprefix(_MODEL))

    def _not_shown(self, reading: Reading, path: str, *, is_ours: bool) -> Page:
        """Return what a path says to a method that it does not take, or that it does not exist."""
        allowed = {*self._paths.methods(reading.head.path), *(_READS if is_ours else ())}
        if not allowed:
            return _refused(_unknown(path))
        page = _refused(_METHOD)
        return page._replace(
            fields=page.fields + b"allow: %b, OPTIONS\r\n" % b", ".join(sorted(allowed))
        )

    def _models(self, _: Reading) -> Page:
        return Page(200, _JSON, models.encode(models.listed(self._directory.models())))

    def _model(self, name: str) -> Page:
        pool = self._directory.pool(name)
        if pool.candidates:
            return Page(200, _JSON, models.encode(models.described(name, pool)))
        if self._directory.was_offered(name):
            message = f"No session serves the model {name[:128]!r} now."
            return _refused(Fault(kind=FaultKind.NO_LIVE_SESSION, message=message, param="model"))
        return _refused(no_such_model(name))

    def _livez(self, _: Reading) -> Page:
        return Page(200, _JSON, _LIVE)

    def _readyz(self, _: Reading) -> Page:
        is_ready, reason = self._is_ready()
        body = models.encode({"ready": is_ready, "reason": reason})
        return Page(200 if is_ready else 503, _JSON, body)

    def _metrics(self, reading: Reading) -> Page:
        expected = self._metrics_token
        if expected and not hmac.compare_digest(
            reading.value_of(b"authorization"), b"Bearer " + expected
        ):
            page = _refused(_NO_TOKEN)
            return page._replace(fields=page.fields + b"www-authenticate: Bearer\r\n")
        fields = f"content-type: {metrics.CONTENT_TYPE}\r\n".encode()
        return Page(200, fields, metrics.render())

    def _preflight(self, reading: Reading) -> Page:
        fields = b"allow: %b\r\n" % _METHODS
        if self._desk.cors(reading.value_of(b"origin")):
            asked = reading.value_of(b"access-control-request-headers")
            fields += (
                b"access-control-allow-methods: %b\r\n"
                b"access-control-allow-headers: %b\r\n"
                b"access-control-max-age: %d\r\n"
            ) % (_METHODS, asked if _NAMES.fullmatch(asked) else b"*", _PREFLIGHT_S)
        return Page(204, fields, b"")

    _SHOW: ClassVar[Mapping[str, Callable[["Pages", Reading], Page]]] = {
        "/v1/models": _models,
        "/livez": _livez,
        "/readyz": _readyz,
        "/metrics": _metrics,
    }


def _unknown(path: str) -> Fault:
    shown = path[:_SHOWN_CHARS_MAX]
    return Fault(kind=FaultKind.UNKNOWN_URL, message=f"Unknown request URL: {shown}")


def _refused(fault: Fault) -> Page:
    fields = _JSON
    if fault.retry_after_s:
        fields += b"retry-after: %d\r\n" % fault.retry_after_s
    return Page(fault.http_status, fields, envelope(fault))
