"""`otela placements`: what a placer's own page says of its plan, for people."""

from pathlib import Path
from typing import Final

import aiohttp
import msgspec
from rich.console import Console, RenderableType

from opentela.core.errors import UnavailableError, UsageError
from opentela.local import tables
from opentela.local.home import Home
from opentela.telemetry import health
from opentela.wire.audit import Asked, Placed

PAGE_TIMEOUT_S: Final = 5.0
_PLACER: Final = "placer"


class Replica(msgspec.Struct, frozen=True, kw_only=True):
    """One replica, as a placer knows it; `state` is told, starting, serving or stopping."""

    start: str
    model: str
    agent: str
    pool: str
    tp: int
    pp: int
    state: str
    age_s: float
    reason: str = ""


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """One agent, as a placer knows it.

    Attributes:
        heard_s: How long ago it answered.
        fault: Why what it says is not believed.
    """

    agent: str
    provider: str
    pool: str
    takes_commands: bool
    free: int
    heard_s: float | None = None
    fault: str = ""


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """What failed and has not served since.

    Attributes:
        agent: At which; empty for every one. Likewise model.
        times: In a row.
        wait_s: Until it is tried again.
    """

    agent: str
    model: str
    times: int
    wait_s: float
    reason: str = ""

    def words(self) -> str:
        """Return it as a line for people."""
        where = f"at agent {self.agent}" if self.agent else "wherever it was tried"
        again = f"not tried for another {self.wait_s:.0f} s" if self.wait_s else "may be tried"
        what = self.model or "whatever was started"
        return f"{what} failed {where}, {self.times} in a row: {self.reason}; {again}"


class Placements(msgspec.Struct, frozen=True, kw_only=True):
    """What a placer says of itself; further fields are its own."""

    name: str
    leads: bool
    leader: str
    term: int
    dry_run: bool
    reason: str
    notes: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    asked: tuple[Asked, ...] = ()
    placed: tuple[Placed, ...] = ()
    agents: tuple[Agent, ...] = ()
    replicas: tuple[Replica, ...] = ()
    failures: tuple[Failure, ...] = ()


_DECODER: Final = msgspec.json.Decoder(Placements)


async def placements(
    home: Home | None, *, url: str = "", token_file: Path | None = None
) -> Placements:
    """Return what the placer of *home* says, or the one whose health page is at *url*.

    Raises:
        UnavailableError: There is none, or it does not answer.
        UsageError: The page is no placer's, or wants another token.
    """
    if not url:
        assert home is not None
        state = home.state()
        found = [one.health for one in state.services if one.name == _PLACER] if state else []
        if not found:
            raise UnavailableError(
                f"no placer runs in {home.path}",
                remedy="start it with otela up --placer FILE, or name its page with --url",
            )
        url, token_file = found[0], home.token_file
    headers = {}
    if token_file is not None:
        headers["Authorization"] = f"Bearer {health.read_token(token_file).decode()}"
    timeout = aiohttp.ClientTimeout(total=PAGE_TIMEOUT_S)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, headers=headers) as http,
            http.get(f"{url.rstrip('/')}/status") as answer,
        ):
            body = await answer.read()
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        raise UnavailableError(
            f"{url} does not answer ({type(error).__name__})", remedy="is the placer running?"
        ) from error
    if answer.status == 401:  # noqa: PLR2004 - HTTP's word for it
        raise UsageError(f"{url} requires a token", remedy="name its file with --token-file")
    try:
        return _DECODER.decode(body)
    except msgspec.DecodeError as error:
        raise UsageError(f"{url} is not a placer's page", remedy="name a placer's") from error


def show(console: Console, told: Placements, *, explain: bool = False) -> None:
    """Print *told* for people; with *explain* also why each model has what it has."""
    parts: list[RenderableType] = [
        tables.placer(told.name, told.leader, told.reason, leads=told.leads, dry=told.dry_run)
    ]
    if told.asked:
        parts.append(tables.asked(told.asked))
    if told.placed:
        parts.append(tables.placed(told.placed))
    moving = [one for one in told.replicas if one.state != "serving"]
    if moving:
        rows = [
            (one.model, one.pool, one.agent, one.state, one.reason, one.age_s) for one in moving
        ]
        parts.append(tables.moving(rows))
    faults = [f"agent {one.agent}: {one.fault}" for one in told.agents if one.fault]
    faults += [one.words() for one in told.failures]
    tables.show(console, *parts, *(tables.problem(note) for note in (*told.notes, *faults)))
    for line in told.words if explain else ():
        console.print(f"• {line}", soft_wrap=True)
