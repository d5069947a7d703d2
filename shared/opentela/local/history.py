"""How far back events are asked for."""

import re
from datetime import timedelta
from typing import Final

from opentela.core.errors import ConfigError

_LENGTH: Final = re.compile(r"(\d{1,6})([smhd])")
_UNIT_S: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def length(text: str) -> timedelta:
    """Return how long `90s`, `10m`, `2h` or `1d` is.

    Raises:
        ConfigError: *text* is no such length.
    """
    match = _LENGTH.fullmatch(text)
    if match is None:
        raise ConfigError(
            f"--since {text!r} is not a length of time", remedy="write it as 90s, 10m, 2h or 1d"
        )
    return timedelta(seconds=int(match[1]) * _UNIT_S[match[2]])
