"""A consumer of the mesh: the OpenAI SDK, told nothing but a base URL."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from opentela.core.errors import UnavailableError

_TIMEOUT_S = 60.0
_TOKENS_MAX = 32
"""A short answer: two cores compute it, and others may use them too."""
_UNSEEN_TOKENS_MAX = 16
"""Of an answer that is counted, not shown."""


class Answer(NamedTuple):
    """What came back, from where, and at which attempt of the router."""

    text: str
    site: str
    attempts: int


class Consumer:
    """Asks one model; never tries again by itself, so that what is seen is the router's doing."""

    def __init__(self, client: Any, model: str) -> None:
        self._client = client
        self._model = model

    @classmethod
    @asynccontextmanager
    async def open(cls, api: str, model: str) -> AsyncIterator["Consumer"]:
        """Return a consumer of the router at *api*.

        Raises:
            UnavailableError: The OpenAI SDK is not installed.
        """
        try:
            import openai  # noqa: PLC0415 - slow to import, and wanted by nobody else
        except ImportError as error:
            raise UnavailableError(
                "the OpenAI SDK is not installed", remedy="run: pip install 'opentela[demo]'"
            ) from error
        async with openai.AsyncOpenAI(
            base_url=api, api_key="none-needed", max_retries=0, timeout=_TIMEOUT_S
        ) as client:
            yield cls(client, model)

    async def ask(self, question: str) -> Answer:
        """Return the answer in one piece."""
        raw = await self._client.chat.completions.with_raw_response.create(
            **self._request(question, _UNSEEN_TOKENS_MAX)
        )
        return _answer(raw.parse().choices[0].message.content or "", raw.headers)

    async def listen(
        self, question: str, heard: Callable[[str], None], began: Callable[[str], None]
    ) -> Answer:
        """Return the answer after handing each part to *heard*; *began* gets the site first."""
        raw = await self._client.chat.completions.with_raw_response.create(
            **self._request(question, _TOKENS_MAX), stream=True
        )
        began(raw.headers["x-otela-site"])
        parts: list[str] = []
        async for chunk in raw.parse():
            if chunk.choices and (text := chunk.choices[0].delta.content):
                parts.append(text)
                heard(text)
        return _answer("".join(parts), raw.headers)

    def _request(self, question: str, tokens_max: int) -> dict[str, Any]:
        return {
            "model": self._model,
            "messages": [{"role": "user", "content": question}],
            "max_tokens": tokens_max,
            "temperature": 0.0,
        }


def _answer(text: str, headers: Mapping[str, str]) -> Answer:
    return Answer(text, headers["x-otela-site"], int(headers["x-otela-attempts"]))
