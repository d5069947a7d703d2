"""Kinds of engines, and how one is recognised: by its command, then by its answers."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from opentela.core.errors import EngineError
from opentela.supervisor.engines.base import EngineAdapter, read_models
from opentela.supervisor.engines.llamacpp import LlamaCpp
from opentela.supervisor.engines.openai import OpenAi
from opentela.supervisor.engines.sglang import SgLang
from opentela.supervisor.engines.vllm import Vllm

ADAPTERS: Final[tuple[EngineAdapter, ...]] = (Vllm(), SgLang(), LlamaCpp(), OpenAi())
"""In order of recognition; the last one takes any command."""

_BY_NAME: Final = {adapter.name: adapter for adapter in ADAPTERS}


def adapter_for(kind: str, argv: Sequence[str]) -> EngineAdapter:
    """Return the adapter of *kind*, or for `auto` the one that recognises *argv*."""
    if kind != "auto":
        return _BY_NAME[kind]
    return next(adapter for adapter in ADAPTERS if adapter.is_started_by(argv))


def recognised(documents: Mapping[str, Any], assumed: EngineAdapter) -> EngineAdapter:
    """Return the adapter of whoever wrote the list of models, or *assumed*.

    A script that starts an engine hides its command, but not its answers.
    """
    try:
        owners = [entry.owned_by for entry in read_models(documents)]
    except EngineError:
        return assumed
    return next((_BY_NAME[owner] for owner in owners if owner in _BY_NAME), assumed)
