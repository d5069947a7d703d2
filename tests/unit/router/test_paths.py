"""Consumers reach what computes, and nothing by which an engine is administered."""

import pytest

from opentela.router.paths import KNOWN, forwarded


@pytest.mark.parametrize(
    "path",
    [
        b"/shutdown",
        b"/sleep",
        b"/wake_up",
        b"/flush_cache",
        b"/reset_prefix_cache",
        b"/update_weights_from_disk",
        b"/v1/load_lora_adapter",
        b"/v1/unload_lora_adapter",
        b"/collective_rpc",
        b"/start_profile",
        b"/metrics",
    ],
)
def test_what_administers_an_engine_is_not_forwarded(path: bytes) -> None:
    """Only what is listed passes."""
    assert path not in forwarded(())


def test_only_computing_is_repeated_when_it_may_have_begun() -> None:
    """A stored response would be stored twice."""
    assert KNOWN[b"/v1/chat/completions"].only_computes
    assert KNOWN[b"/v1/embeddings"].only_computes
    assert not KNOWN[b"/v1/responses"].only_computes


def test_configured_paths_are_added_and_never_taken_to_only_compute() -> None:
    """Nothing is known of them; and a known path cannot be weakened by listing it again."""
    paths = forwarded(("/v1/audio/speech", "/v1/embeddings"))
    assert not paths[b"/v1/audio/speech"].only_computes
    assert paths[b"/v1/embeddings"].only_computes
