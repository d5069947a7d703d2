"""Questions to the engine over HTTP: does it live, what does it serve, how busy is it?"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final, Self

import aiohttp
import msgspec

from opentela.core.errors import EngineError
from opentela.supervisor.engines import recognised
from opentela.supervisor.engines.base import (
    HEALTH_PATH,
    METRICS_PATH,
    MODELS_PATH,
    EngineAdapter,
    EngineLoad,
)
from opentela.supervisor.events import (
    OfferRead,
    OfferUnread,
    ProbeAnswered,
    ProbeFailed,
    ProbeTimedOut,
)

ANSWER_BYTES_MAX: Final = 4 * 1024 * 1024
"""Metrics of a large engine have some 200 KB."""
READ_WITHIN_S: Final = 5.0
"""For the list of models and the metrics; the health probe has a limit of its own."""

_OK: Final = 200
_ERRORS: Final = 400
_NO_SUCH_PATH: Final = frozenset({404, 405, 501})


class EngineClient:
    """Asks one launch of an engine.

    Attributes:
        launch: Which one.
        adapter: What the engine is; corrected by its own answers.
    """

    def __init__(
        self,
        launch: int,
        *,
        adapter: EngineAdapter,
        address: str,
        key: str,
        probe_timeout_s: float,
        argv: Sequence[str] = (),
    ) -> None:
        self.adapter = adapter
        self.launch = launch
        self._argv = argv
        self._probe_timeout_s = probe_timeout_s
        self._health_path = HEALTH_PATH
        # trust_env stays off: no proxy stands between us and our own engine.
        self._session = aiohttp.ClientSession(
            f"http://{address}",
            headers={"Authorization": f"Bearer {key}"} if key else None,
            connector=aiohttp.TCPConnector(limit=4),
            auto_decompress=True,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def probe(self) -> ProbeAnswered | ProbeFailed | ProbeTimedOut:
        """Return whether it answers a health probe well, badly or not at all."""
        try:
            async with asyncio.timeout(self._probe_timeout_s):
                status, _ = await self._get(self._health_path)
                if status in _NO_SUCH_PATH and self._health_path == HEALTH_PATH:
                    # Not every engine has a health page; a list of models is as good.
                    self._health_path = MODELS_PATH
                    status, _ = await self._get(MODELS_PATH)
        except TimeoutError:
            return ProbeTimedOut(self.launch)
        except EngineError as error:
            return ProbeFailed(self.launch, str(error))
        if status >= _ERRORS:
            return ProbeFailed(self.launch, f"{self._health_path} answered {status}")
        return ProbeAnswered(self.launch)

    async def read_offer(self) -> OfferRead | OfferUnread:
        """Return what it serves, or why that could not be read."""
        try:
            async with asyncio.timeout(READ_WITHIN_S):
                documents: dict[str, Any] = {MODELS_PATH: await self._json(MODELS_PATH)}
                self.adapter = recognised(documents, self.adapter)
                for path in self.adapter.offer_paths:
                    documents[path] = await self._read_if_any(path)
            return OfferRead(self.launch, self.adapter.read_offer(documents, self._argv))
        except TimeoutError:
            return OfferUnread(self.launch, f"{MODELS_PATH} was not answered")
        except EngineError as error:
            return OfferUnread(self.launch, str(error))

    async def read_load(self) -> EngineLoad | None:
        """Return how busy it is; None when it does not say."""
        if not self.adapter.has_metrics:
            return None
        try:
            async with asyncio.timeout(READ_WITHIN_S):
                status, body = await self._get(METRICS_PATH)
        except (TimeoutError, EngineError):
            return None
        return self.adapter.read_load(body.decode(errors="replace")) if status == _OK else None

    async def _read_if_any(self, path: str) -> Any:
        try:
            if path != METRICS_PATH:
                return await self._json(path)
            status, body = await self._get(path)
            return body.decode(errors="replace") if status == _OK else None
        except EngineError:
            return None

    async def _json(self, path: str) -> Any:
        status, body = await self._get(path)
        if status != _OK:
            raise EngineError(f"{path} answered {status}")
        try:
            return msgspec.json.decode(body)
        except (msgspec.DecodeError, RecursionError) as error:
            raise EngineError(f"{path} answered no JSON: {error}") from error

    async def _get(self, path: str) -> tuple[int, bytes]:
        """Return status and body.

        Raises:
            EngineError: No connection, a broken one, or too large an answer.
        """
        if self._session.closed:
            raise EngineError("it has ended")
        try:
            async with self._session.get(path, allow_redirects=False) as answer:
                body = bytearray()
                async for chunk in answer.content.iter_any():
                    body += chunk
                    if len(body) > ANSWER_BYTES_MAX:
                        raise EngineError(f"{path} answered more than {ANSWER_BYTES_MAX} bytes")
                return answer.status, bytes(body)
        except aiohttp.ClientConnectorError as error:
            raise EngineError(f"no connection: {error.os_error.strerror}") from error
        except aiohttp.ClientError as error:
            raise EngineError(f"{path}: {str(error) or type(error).__name__}") from error
