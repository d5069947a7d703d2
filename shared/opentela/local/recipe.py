"""What the services of one machine are told: their configuration, as TOML."""

from pathlib import Path
from typing import Final

import msgspec

_WRITTEN: Final = "# Written by `otela up` at each start; set other fields by OTELA_{service}__….\n"


def registry(*, access: Path, token_file: Path, state_file: Path, is_new: bool) -> str:
    """Return the configuration of the registry of one machine.

    Nothing is far on one machine and somebody watches: what is dead may be known sooner than over
    links between sites, and the map is kept because there is no peer to ask. In a mesh that
    *is_new* there is nobody whose heartbeats are worth waiting for.
    """
    learn_s = 0.05 if is_new else 1.5
    return _toml(
        "REGISTRY",
        {
            "": {"access": str(access)},
            "detector": {"grace_s": 10.0, "suspect_probe_every_s": 1.0},
            "peers": {
                "gossip_s": 0.5,
                "heard_s": 2.0,
                "memory_s": 30.0,
                "stale_s": 8.0,
                "learn_s": learn_s,
            },
            "retention": {"state_file": str(state_file)},
            "health": {"token_file": str(token_file)},
            "log": {"form": "json"},
        },
    )


def router(*, access: Path, token_file: Path, api: str) -> str:
    """Return the configuration of the router of one machine; *api* is where clients connect."""
    return _toml(
        "ROUTER",
        {
            "": {"access": str(access)},
            "listen": {"address": api},
            "home": {"address": "127.0.0.1:0"},
            "health": {"token_file": str(token_file)},
            "log": {"form": "json"},
        },
    )


def _toml(service: str, tables: dict[str, dict[str, object]]) -> str:
    lines = [_WRITTEN.format(service=service)]
    for table, fields in tables.items():
        if table:
            lines.append(f"\n[{table}]\n")
        # A JSON string, number or list of them is TOML as well.
        lines += [
            f"{name} = {msgspec.json.encode(value).decode()}\n" for name, value in fields.items()
        ]
    return "".join(lines)
