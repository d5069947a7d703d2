"""Knobs of logs and health pages, embedded in each service's configuration."""

from typing import Literal

import msgspec


class LogConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much is logged, and in what form.

    Attributes:
        level: Least severe level that is written. `debug` adds a few lines a probe and a request.
        form: `json` for machines, `text` for people; `auto` is text on a terminal.
    """

    level: Literal["debug", "info", "warning", "error"] = "info"
    form: Literal["auto", "json", "text"] = "auto"


class HealthConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the health page listens, and who may read all of it.

    Attributes:
        listen: `host:port`; port 0 takes a free one, which is logged and stands in `/status`.
            Anything but loopback shows `/livez` and `/readyz` to that network.
        token_file: File that holds a bearer token, mode 0600. When set, `/metrics` and `/status`
            ask for it. Empty leaves them open to everybody who reaches the port; on hosts shared
            with other users that is everybody on the host.
    """

    listen: str = "127.0.0.1:0"
    token_file: str = ""
