"""Any engine that speaks OpenAI's API; others refine it."""

from collections.abc import Mapping, Sequence
from typing import Any

from opentela.core.record import ModelOffer, Parallelism
from opentela.supervisor.engines.base import (
    EngineLoad,
    EngineOffer,
    LoadProgress,
    MetricNames,
    ModelEntry,
    ModelSource,
    option,
    read_metrics,
    read_models,
    read_percent,
)


class OpenAi:
    """An engine of which nothing more is known."""

    name: str = "openai"
    port: int = 0
    port_variables: tuple[str, ...] = ()
    key_variable: str = "OTELA_ENGINE_API_KEY"
    offer_paths: tuple[str, ...] = ()
    metrics = MetricNames()

    @property
    def has_metrics(self) -> bool:
        """Whether any of its metrics is known."""
        return any(self.metrics)

    def is_started_by(self, argv: Sequence[str]) -> bool:
        """Return whether there is a command: this is what remains when nothing else fits."""
        return bool(argv)

    def expected_models(self, argv: Sequence[str]) -> tuple[str, ...]:
        """Return what `--served-model-name` or `--model` names."""
        return tuple(filter(None, (option(argv, "--served-model-name", "--model"),)))

    def arguments(self, argv: Sequence[str]) -> tuple[str, ...]:
        """Return all words: which of them is the engine is not known."""
        return tuple(argv)

    def read_offer(self, documents: Mapping[str, Any], argv: Sequence[str] = ()) -> EngineOffer:
        """Return every model of the list."""
        entries = read_models(documents)
        return EngineOffer(
            self.name,
            tuple(self._model(entry) for entry in entries),
            self._version(documents),
            tuple(self._source(entry, entries, documents) for entry in entries),
            self._kv_tokens(documents, argv),
            self._parallelism(documents, argv),
        )

    def read_load(self, metrics: str) -> EngineLoad:
        """Return what the kind's metrics say."""
        return read_metrics(metrics, self.metrics)

    def read_progress(self, line: str) -> LoadProgress | None:
        """Return any percentage as progress."""
        share = read_percent(line)
        return LoadProgress(line.strip(), share) if share >= 0 else None

    def _model(self, entry: ModelEntry) -> ModelOffer:
        return ModelOffer(
            name=entry.id,
            aliases=tuple(alias for alias in entry.aliases if alias != entry.id),
            context_max=max(0, entry.max_model_len or 0),
            quantisation=self._quantisation(entry),
        )

    def _source(
        self, entry: ModelEntry, entries: Sequence[ModelEntry], _documents: Mapping[str, Any]
    ) -> ModelSource:
        """Return where the list says that a model lies; an adapter names its parent."""
        parent = next((one for one in entries if entry.parent and one.id == entry.parent), None)
        if parent is None:
            return ModelSource(entry.root or "")
        return ModelSource(parent.root or "", adapter=entry.root or "")

    def _quantisation(self, _entry: ModelEntry) -> str:
        return ""

    def _version(self, _documents: Mapping[str, Any]) -> str:
        return ""

    def _kv_tokens(self, _documents: Mapping[str, Any], _argv: Sequence[str]) -> int:
        return 0

    def _parallelism(self, _documents: Mapping[str, Any], _argv: Sequence[str]) -> Parallelism:
        return Parallelism()
