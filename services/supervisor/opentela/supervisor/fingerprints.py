"""Gives each model of an offer its fingerprint, without ever keeping a session from serving.

Files are read in a thread beside the loop, once for each model of a launch: what changes on disk
later is not what the engine runs. A file server that hangs costs the fingerprint, not the session.
"""

import asyncio
import contextlib
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from opentela.core.errors import in_words
from opentela.core.record import ModelOffer
from opentela.supervisor import fingerprint, weights
from opentela.supervisor.engines.base import EngineAdapter, EngineOffer, ModelSource, option
from opentela.supervisor.fingerprint import Parts
from opentela.supervisor.weights import Measured
from opentela.telemetry import log as logs

log: Final = logs.get_logger()

WITHIN_S: Final = 3.0
"""An offer waits so long for its fingerprints; a later one has them."""
MODELS_MAX: Final = 256
"""Of one launch; what an engine lists beyond is offered without fingerprint."""


class _Asked(NamedTuple):
    """One model, as its engine describes it."""

    name: str
    source: ModelSource
    engine: tuple[str, str]
    context_max: int
    quantisation: str


class Fingerprints:
    """Measures the models of one launch."""

    def __init__(self, argv: Sequence[str], environ: Mapping[str, str]) -> None:
        self._argv = argv
        self._environ = environ
        self._found: dict[_Asked, asyncio.Future[Measured]] = {}
        self._measures: dict[str, Measured] = {}

    async def added_to(self, offer: EngineOffer, adapter: EngineAdapter) -> EngineOffer:
        """Return *offer* with the fingerprints that are known, or become known in time."""
        asked = [
            _Asked(
                model.name,
                source,
                (offer.engine, offer.version),
                model.context_max,
                model.quantisation,
            )
            for model, source in zip(offer.models, offer.sources, strict=False)
        ]
        self._measure_soon([one for one in asked if one not in self._found], adapter)
        waiting = [self._found[one] for one in asked if one in self._found]
        if waiting:
            await asyncio.wait(waiting, timeout=WITHIN_S)
        models = list(offer.models)
        for index, one in enumerate(asked):
            found = self._found.get(one)
            if found is not None and found.done():
                models[index] = _completed(models[index], found.result())
        return offer._replace(models=tuple(models))

    def _measure(self, asked: _Asked, adapter: EngineAdapter) -> Measured:
        """Return fingerprint and quantisation of one model; nothing when it cannot be measured."""
        words = adapter.arguments(self._argv)
        source = asked.source
        try:
            base = self._measured(source.weights, words)
            fine = self._measured(source.adapter, words) if source.adapter else Measured()
            files = {word: weights.digest(Path(word)) for word in _files(words)}
        except OSError as error:
            log.warning("fingerprint_unknown", model=asked.name, reason=in_words(error))
            return Measured()
        if source.adapter and not fine.digest:
            base = Measured()
        parts = Parts(
            engine=asked.engine,
            context_max=asked.context_max,
            quantisation=asked.quantisation or base.quantisation,
            weights=base.digest,
            adapter=fine.digest,
            told=source.told,
            arguments=fingerprint.arguments(words, files),
        )
        return Measured(fingerprint.of(parts), base.quantisation)

    def _measure_soon(self, asked: Sequence[_Asked], adapter: EngineAdapter) -> None:
        """Measure one model after the other beside the loop, which waits for none at its end."""
        loop = asyncio.get_running_loop()
        futures = {one: loop.create_future() for one in asked[: MODELS_MAX - len(self._found)]}
        self._found |= futures

        def run() -> None:
            # The loop may be closed by the time that a slow file server has answered.
            with contextlib.suppress(RuntimeError):
                for one, future in futures.items():
                    loop.call_soon_threadsafe(_settle, future, self._measure(one, adapter))

        if futures:
            threading.Thread(target=run, name="fingerprint", daemon=True).start()

    def _measured(self, name: str, words: Sequence[str]) -> Measured:
        found = self._measures.get(name)
        if found is None:
            place = weights.locate(
                name,
                self._environ,
                revision=option(words, "--revision"),
                folder=option(words, "--download-dir"),
            )
            found = self._measures[name] = weights.measure(place) if place else Measured()
        return found


def _completed(model: ModelOffer, found: Measured) -> ModelOffer:
    return msgspec.structs.replace(
        model,
        fingerprint=found.digest,
        quantisation=model.quantisation or found.quantisation,
    )


def _files(words: Sequence[str]) -> set[str]:
    """Return the values among *words* that name a file."""
    values = {word.partition("=")[2] if word.startswith("-") else word for word in words}
    return {value for value in values if value and _is_file(value)}


def _is_file(word: str) -> bool:
    try:
        return Path(word).is_file()
    except OSError:  # too long for a name, such as a JSON document
        return False


def _settle(future: asyncio.Future[Measured], found: Measured) -> None:
    if not future.done():
        future.set_result(found)
