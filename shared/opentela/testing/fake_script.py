"""What the fake engine is told to do, and what it remembers of what it saw."""

from collections import deque
from typing import Any, Final

import msgspec

_REQUESTS_KEPT: Final = 256


class Script(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """How the fake engine behaves; any field can be changed while it runs.

    Attributes:
        models: Names under `/v1/models`; a request for another is answered 404.
        context_max: `max_model_len` of each model.
        owned_by: As in `/v1/models`; `vllm` makes it look like one.
        root: Where each model's files lie, as in `/v1/models`; empty to say nothing.
        version: Under `/version`.
        ttft_ms: Wait before the first token.
        tpot_ms: Wait between tokens.
        tokens: Tokens of an answer, unless `max_tokens` is less.
        text: The tokens of every answer, in a circle; any Unicode.
        health: The word in `/health`; `hang` accepts and never answers.
        health_status: Of `/health`.
        kv_used: As in `/metrics`.
        models_failures: So many next reads of `/v1/models` are answered 500.
        answer: `normal`; `hang` accepts requests and never answers; `status` answers with the
            next three fields; `raw` writes `raw` to the socket and closes it.
        answer_status: Such as 502.
        answer_headers: Such as `{"Content-Type": "text/html", "Retry-After": "7"}`.
        answer_body: Such as `<html>Bad gateway</html>`.
        raw: Bytes of an HTTP answer as they are, as text of code points below 256.
        reset_after: After so many tokens of a stream the connection is reset; -1 never.
        stall_after: After so many tokens of a stream nothing comes any more; -1 never.
        finish: Whether a stream ends with a `finish_reason` and `[DONE]`.
        spawn: Children started at birth, see `fake_engine.SPAWN_MODES`.
    """

    models: tuple[str, ...] = ("fake",)
    context_max: int = 4096
    owned_by: str = "opentela"
    root: str = ""
    version: str = "1.0"
    ttft_ms: float = 0.0
    tpot_ms: float = 0.0
    tokens: int = 16
    text: tuple[str, ...] = ("The", " quick", " brown", " fox", " jumps", " over", " it", ".")
    health: str = "ok"
    health_status: int = 200
    kv_used: float = 0.0
    models_failures: int = 0
    answer: str = "normal"
    answer_status: int = 502
    answer_headers: dict[str, str] = {}
    answer_body: str = ""
    raw: str = ""
    reset_after: int = -1
    stall_after: int = -1
    finish: bool = True
    spawn: tuple[str, ...] = ()

    def changed(self, fields: bytes) -> "Script":
        """Return this script with the fields of a JSON object replaced.

        Raises:
            msgspec.DecodeError: No JSON object, an unknown field, or a wrong type.
        """
        changes = msgspec.json.decode(fields, type=dict[str, Any])
        return msgspec.convert({**msgspec.structs.asdict(self), **changes}, Script)


class Request(msgspec.Struct, kw_only=True):
    """One request as the engine saw it."""

    method: str
    path: str
    headers: list[tuple[str, str]]
    body_bytes: int
    body_sha256: str
    model: str = ""
    stream: bool = False
    tokens: int = 0
    outcome: str = "running"


class State:
    """Counts and the latest requests; each request ends as finished, aborted or failed."""

    def __init__(self, *, pid: int) -> None:
        self.pid = pid
        self.children: list[int] = []
        self.running = 0
        self.forget()

    def forget(self) -> None:
        """Start counting again; requests that still run are counted where they end."""
        self.started = 0
        self.outcomes: dict[str, int] = {"finished": 0, "aborted": 0, "failed": 0}
        self.tokens = 0
        self.prompt_tokens = 0
        self.model_lists = 0
        self.unauthorized = 0
        self.requests: deque[Request] = deque(maxlen=_REQUESTS_KEPT)

    def begin(self, request: Request) -> None:
        """Count a request in."""
        self.started += 1
        self.running += 1
        self.requests.append(request)

    def end(self, request: Request, outcome: str) -> None:
        """Count a request out."""
        request.outcome = outcome
        self.running -= 1
        self.outcomes[outcome] += 1

    def document(self) -> dict[str, Any]:
        """Return everything for `GET /control/state`."""
        return {
            "pid": self.pid,
            "children": self.children,
            "running": self.running,
            "started": self.started,
            **self.outcomes,
            "tokens": self.tokens,
            "prompt_tokens": self.prompt_tokens,
            "model_lists": self.model_lists,
            "unauthorized": self.unauthorized,
            "requests": list(self.requests),
        }
