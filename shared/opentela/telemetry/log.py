"""Structured logs on stderr: JSON for machines, coloured text on a terminal.

An event is a constant in snake_case, past tense, and stands in `docs/log-events.md`. Values are
keyword arguments. No prompt or answer is ever logged.
"""

import io
import logging
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NoReturn, Protocol, TextIO, cast

import msgspec
import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

from opentela.telemetry import metrics
from opentela.telemetry.config import LogConfig

_LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
_UTC: Final = "+00:00"
_NETWORK_LIBRARIES: Final = frozenset({"nats", "aiohttp", "ssl"})
"""Their own exceptions say what happened in one line; where in them is of no interest."""
_HARMLESS: Final = "returning true from eof_received() has no effect when using ssl"
"""asyncio warns so at each goodbye over TLS: nats-py does not tell its reader of the upgrade."""

_lost: Final = metrics.counter(
    "otela_log_lines_lost_total", "Log lines that could not be written completely."
)


Tell = Callable[[Mapping[str, Any]], None]
"""Takes each event in place of the stream, with the marks that it would have there."""


def get_logger() -> FilteringBoundLogger:
    """Return the logger of this process; usable at import time, configured later."""
    logger: FilteringBoundLogger = structlog.get_logger()
    return logger


class Sink(Protocol):
    """Where lines go."""

    def write(self, text: str, /) -> object:
        """Take some."""

    def flush(self) -> None:
        """Let go of what was taken."""


class _Descriptor:
    """Writes to a file descriptor whatever becomes of it: a full disk must end no service.

    Nothing is kept: what cannot be written now is lost, so that it does not fail us at our end.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def write(self, text: str) -> None:
        """Write as much as there is room for."""
        left = memoryview(text.encode(errors="replace"))
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
        except OSError:
            _lost.inc()

    def flush(self) -> None:
        """Nothing is kept back."""


_encode: Final = msgspec.json.Encoder(enc_hook=repr).encode


class JsonLines:
    """Writes what happens at each request as the logger would, many events at a time.

    Putting one event together through the logger costs as much as a small request.
    """

    def __init__(self, service: str, out: Sink) -> None:
        self._service = service
        self._out = out

    def write(self, event: str, happened: Iterable[tuple[float, object]]) -> None:
        """Write one line for each occurrence: its Unix time and its values.

        Args:
            event: What happened.
            happened: Values are whatever JSON has as an object that is not empty.
        """
        same = _encode({"level": "info", "service": self._service, "event": event}).decode()[1:-1]
        lines, second, told = [], -1, ""
        for at, values in happened:
            if int(at) != second:
                second = int(at)
                told = datetime.fromtimestamp(second, UTC).isoformat()[: -len(_UTC)]
            fraction = min(round((at - second) * 1e6), 999_999)
            rest = _encode(values).decode().removeprefix("{")
            lines.append(f'{{"timestamp":"{told}.{fraction:06d}Z",{same},{rest}\n')
        self._out.write("".join(lines))
        self._out.flush()


_json_lines: JsonLines | None = None


def json_lines() -> JsonLines | None:
    """Return what writes many events of level `info`; None when they go elsewhere, or nowhere."""
    return _json_lines


def configure(
    *,
    service: str,
    config: LogConfig | None = None,
    stream: TextIO | None = None,
    tell: Tell | None = None,
) -> None:
    """Write every event of this process to *stream* (stderr), each marked with *service*.

    Whoever gives *tell* words them instead.
    """
    global _json_lines  # noqa: PLW0603 - as structlog's configuration is
    out = sys.stderr if stream is None else stream
    sink = _sink(out)
    config = config or LogConfig()
    as_text = config.form == "text" or (config.form == "auto" and out.isatty())
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            _mark(service),
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.StackInfoRenderer(),
            *_rendering(as_text=as_text, colors=out.isatty(), tell=tell),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[config.level]),
        logger_factory=structlog.WriteLoggerFactory(file=cast("TextIO", sink)),
        # Loggers made at import time must still be seen by `capture_logs` in tests.
        cache_logger_on_first_use=False,
    )
    is_wanted = tell is None and not as_text and _LEVELS[config.level] <= logging.INFO
    _json_lines = JsonLines(service, sink) if is_wanted else None
    _adopt_libraries()


def _sink(out: TextIO) -> Sink:
    try:
        return _Descriptor(out.fileno())
    except io.UnsupportedOperation:
        return out


def _rendering(*, as_text: bool, colors: bool, tell: Tell | None) -> list[Processor]:
    if tell is not None:
        return [structlog.processors.format_exc_info, _handing_to(tell)]
    if as_text:
        return [structlog.dev.ConsoleRenderer(colors=colors)]
    return [
        structlog.processors.format_exc_info,
        structlog.processors.JSONRenderer(serializer=_to_json),
    ]


def _handing_to(tell: Tell) -> Processor:
    def hand(_logger: WrappedLogger, _method: str, event: EventDict) -> NoReturn:
        tell(event)
        raise structlog.DropEvent

    return hand


def _to_json(event: EventDict, **_options: object) -> str:
    # People read these too: when, how bad, who and what come first.
    ordered = {key: event.pop(key) for key in ("timestamp", "level", "service", "event")}
    return msgspec.json.encode({**ordered, **event}, enc_hook=repr).decode()


def _mark(service: str) -> Processor:
    def mark(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        event["service"] = service
        return event

    return mark


class _LibraryHandler(logging.Handler):
    """What libraries say through `logging` becomes one event among ours."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        is_ordinary = error is not None and _is_loss(error)
        values = {"reason": repr(error)} if is_ordinary else {"exc_info": record.exc_info or None}
        get_logger().log(
            record.levelno,
            "library_logged",
            library=record.name,
            message=record.getMessage(),
            **values,
        )


def _is_loss(error: BaseException) -> bool:
    """Return whether *error* is a lost connection: an event of every network, and no bug."""
    is_librarys = type(error).__module__.partition(".")[0] in _NETWORK_LIBRARIES
    return is_librarys or isinstance(error, OSError | EOFError | TimeoutError)


def _adopt_libraries() -> None:
    root = logging.getLogger()
    if any(isinstance(handler, _LibraryHandler) for handler in root.handlers):
        return
    handler = _LibraryHandler()
    handler.addFilter(lambda record: record.msg != _HARMLESS)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
