"""The engine of the present launch: its port, its process, and the questions to it."""

import secrets
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final

from opentela.core.errors import OtelaError
from opentela.core.rng import Rng
from opentela.engine.pool import EngineAddress, EngineHttp
from opentela.supervisor import command, ports
from opentela.supervisor.channels import Spawn
from opentela.supervisor.config import SupervisorConfig
from opentela.supervisor.engine_client import EngineClient
from opentela.supervisor.engines import adapter_for
from opentela.supervisor.engines.base import EngineAdapter, is_echo, option
from opentela.supervisor.events import (
    EngineEnded,
    EngineExited,
    EngineSpawned,
    EngineWrote,
    Event,
    LoadRead,
    OfferRead,
)
from opentela.supervisor.fingerprints import Fingerprints
from opentela.supervisor.output import Copier
from opentela.supervisor.process import EngineProcess
from opentela.telemetry import log as logs

log: Final = logs.get_logger()

_KEY_BYTES: Final = 24
_KILL_AT_ONCE_S: Final = 0.5
"""After SIGTERM, when we were told to go at once."""

Tell = Callable[[Event], None]


class EngineRunner:
    """Runs the command, one launch at a time, and answers for each.

    Attributes:
        http: The way of requests to the engine of the latest launch.
    """

    def __init__(
        self,
        argv: Sequence[str],
        config: SupervisorConfig,
        *,
        environ: Mapping[str, str],
        caches: Mapping[str, str],
        copier: Copier,
        rng: Rng,
        tell: Tell,
        spawn: Spawn,
    ) -> None:
        self._argv = argv
        self._config = config
        self._environ = environ
        self._caches = caches
        self._copier = copier
        self._rng = rng
        self._tell = tell
        self._spawn = spawn
        self._process: EngineProcess | None = None
        self._client: EngineClient | None = None
        self._fingerprints: Fingerprints | None = None
        self._stop_after_s: float | None = None
        self._wrote: EngineWrote | None = None
        self.http = EngineHttp(EngineAddress(config.engine.host))

    @property
    def adapter(self) -> EngineAdapter:
        """What the engine is, as far as we know."""
        if self._client is not None:
            return self._client.adapter
        return adapter_for(self._config.engine.kind, self._argv)

    @property
    def pid(self) -> int:
        """The engine's process; 0 when there is none."""
        return self._process.pid if self._process else 0

    @property
    def tail(self) -> list[str]:
        """The last lines that the engine wrote, of this launch or the one before."""
        return list(self._process.lines.tail) if self._process else []

    @property
    def dropped_bytes(self) -> int:
        """Output that nobody took in time, since our start."""
        return self._copier.dropped_bytes

    @property
    def last_line(self) -> str:
        """The last line that the engine wrote."""
        return self._process.lines.last if self._process else ""

    def launch(self, number: int) -> None:
        """Start the command; `EngineSpawned` and, sooner or later, `EngineEnded` will be told."""
        self._stop_after_s = None
        self._spawn(self._run(number))

    def stop(self, term_s: float) -> None:
        """Ask the engine to end, and make it after *term_s*."""
        self._stop_after_s = term_s
        if self._process is not None:
            self._process.stop(term_s)

    def probe(self) -> None:
        """Ask for its health."""
        self._ask(lambda client: client.probe())

    def read_offer(self) -> None:
        """Ask what it serves."""
        self._ask(self._read_offer)

    def read_load(self) -> None:
        """Ask how busy it is."""
        self._ask(_load)

    def take_output(self) -> EngineWrote | None:
        """Return what the engine wrote since this was last asked; however much, it is one event."""
        wrote, self._wrote = self._wrote, None
        return wrote

    async def end_at_once(self) -> None:
        """Leave nothing behind: whoever calls this will not wait for long."""
        if self._process is not None and not self._process.has_ended:
            self._process.stop(_KILL_AT_ONCE_S)
            await self._process.ended()

    async def _run(self, number: int) -> None:
        try:
            with self._hold_port() as port:
                ending = await self._run_on(number, port.number)
        except OtelaError as error:
            ending = EngineEnded(number, error.line())
        self._tell(ending)

    def _hold_port(self) -> ports.HeldPort:
        engine = self._config.engine
        fixed = command.fixed_port(self._argv, engine.port, self.adapter)
        return (
            ports.hold(fixed) if fixed else ports.pick(engine.port_min, engine.port_max, self._rng)
        )

    async def _run_on(self, number: int, port: int) -> EngineEnded:
        adapter = adapter_for(self._config.engine.kind, self._argv)
        key = self._key(adapter)
        address = EngineAddress(self._config.engine.host, port)
        self.http = EngineHttp(address, api_key=key)
        process = self._process = EngineProcess(
            tail_lines=self._config.engine.tail_lines,
            copier=self._copier,
            on_line=lambda line: self._on_line(number, line),
            on_exit=lambda reason: self._tell(EngineExited(number, reason)),
        )
        environ = command.environment(
            self._environ,
            adapter=adapter,
            port=port,
            key=key,
            caches=self._caches,
        )
        async with EngineClient(
            number,
            adapter=adapter,
            address=address.shown,
            key=key,
            probe_timeout_s=self._config.watch.probe_timeout_s,
            argv=self._argv,
        ) as client:
            if await process.spawn(command.with_port(self._argv, port), environ):
                self._client = client
                self._fingerprints = Fingerprints(self._argv, environ)
                log.info("engine_started", launch=number, pid=process.pid, port=port)
                self._tell(EngineSpawned(number))
            if self._stop_after_s is not None:
                process.stop(self._stop_after_s)
            ending = await process.ended()
            self._client = None
            self.http.close()
        log.info("engine_ended", launch=number, reason=ending.reason)
        return EngineEnded(number, ending.reason, is_hopeless=ending.is_hopeless)

    def _key(self, adapter: EngineAdapter) -> str:
        """Return the API key that the engine will ask for; empty for none."""
        given = option(self._argv, "--api-key") or self._environ.get(adapter.key_variable, "")
        if given or not adapter.key_variable or not self._config.engine.api_key:
            return given
        return secrets.token_urlsafe(_KEY_BYTES)

    def _on_line(self, number: int, line: bytes) -> None:
        if is_echo(line):
            return
        progress = self.adapter.read_progress(line.decode(errors="replace"))
        before = self._wrote.progress if self._wrote else None
        self._wrote = EngineWrote(number, progress or before)

    async def _read_offer(self, client: EngineClient) -> Event:
        event = await client.read_offer()
        if isinstance(event, OfferRead) and self._fingerprints is not None:
            offer = await self._fingerprints.added_to(event.offer, client.adapter)
            return OfferRead(event.launch, offer)
        return event

    def _ask(self, question: Callable[[EngineClient], Coroutine[Any, Any, Event]]) -> None:
        if self._client is not None:
            self._spawn(self._answer(question(self._client)))

    async def _answer(self, answer: Coroutine[Any, Any, Event]) -> None:
        self._tell(await answer)


async def _load(client: EngineClient) -> Event:
    return LoadRead(client.launch, await client.read_load())
