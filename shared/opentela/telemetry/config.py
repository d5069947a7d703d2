"""Knobs of logs and health pages, embedded in each service's configuration."""

from typing import Literal

import msgspec


class LogConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much is logged, and in what form.

    Attributes:
        level: Least severe level that is logged. `debug` adds a few lines per probe and request.
        form: `json` for machines, `text` for people; `auto` is text on a terminal, else JSON.
    """

    level: Literal["debug", "info", "warning", "error"] = "info"
    form: Literal["auto", "json", "text"] = "auto"


class HealthConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the health page listens, and who may read all of it.

    Attributes:
        listen: `host:port`; port 0 picks a free one, which is logged and shown in `/status`.
            Anything but loopback exposes `/livez` and `/readyz` to that network.
        token_file: File with a bearer token, mode 0600, which `/metrics` and `/status` then
            require. If empty, everybody who reaches the port can read them; on a shared host, that
            is every user of the host.
    """

    listen: str = "127.0.0.1:0"
    token_file: str = ""
