"""Consumers reach what computes, and nothing by which an engine is administered."""

import pytest

from opentela.router.paths import KNOWN, Paths

PATHS = Paths((), ("/v1/", "/v2/"))


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
        b"/v1/Load_lora_adapter",
        b"/v1/load%5flora_adapter",
        b"/v1/x/../load_lora_adapter",
        b"/v1/./load_lora_adapter",
        b"/v1//load_lora_adapter",
        b"/v1/../flush_cache",
        b"/v1/%2e%2e/flush_cache",
        b"/v1/..%2fflush_cache",
        b"/v1/loads",
        b"/v1/is_sleeping",
        b"/v1/admin/sleep",
        b"/v1/a;b/x",
        b"/v1/",
        b"/v1/completions/",
        b"/v1" + b"/x" * 20,
        b"/collective_rpc",
        b"/start_profile",
        b"/metrics",
        b"/v1/metrics",
    ],
)
def test_what_administers_an_engine_is_not_forwarded(path: bytes) -> None:
    """Nor what an engine could take for it."""
    assert PATHS.get(path) is None
    assert PATHS.methods(path) == ()


@pytest.mark.parametrize("path", [b"/v1/files", b"/v1/files/f-1/content", b"/v1/batches"])
def test_what_all_users_of_an_engine_share_is_not_forwarded(path: bytes) -> None:
    """One would read another's."""
    assert PATHS.methods(path) == ()


@pytest.mark.parametrize("path", [b"/v1/models", b"/v1/models/a/b", b"/v1/models/m"])
def test_models_are_told_by_the_router(path: bytes) -> None:
    """No engine knows them all."""
    assert PATHS.methods(path) == ()


@pytest.mark.parametrize(
    "path", [b"/v1/whatever", b"/v1/responses/resp_1", b"/v1/audio/voices", b"/v2/embed"]
)
def test_what_else_is_of_the_api_is_forwarded(path: bytes) -> None:
    """By any method; only reading is taken to change nothing."""
    assert PATHS.methods(path) == (b"POST", b"GET", b"HEAD", b"PUT", b"PATCH", b"DELETE")
    for method, only_computes in ((b"GET", True), (b"HEAD", True), (b"POST", False)):
        found = PATHS.find(method, path)
        assert found is not None
        assert found.only_computes is only_computes
    assert PATHS.find(b"TRACE", path) is None


def test_without_prefixes_only_what_is_listed_is_forwarded() -> None:
    """For an operator who wants it so."""
    strict = Paths(("/v1/special",), ())
    assert strict.get(b"/v1/whatever") is None
    assert strict.get(b"/v1/special") is not None


@pytest.mark.parametrize("path", sorted(KNOWN))
def test_known_paths_are_posted_to(path: bytes) -> None:
    """Nothing else is forwarded of them."""
    assert PATHS.methods(path) == (b"POST",)


def test_only_computing_is_repeated_when_it_may_have_begun() -> None:
    """A stored response would be stored twice."""
    assert KNOWN[b"/v1/chat/completions"].only_computes
    assert KNOWN[b"/v1/embeddings"].only_computes
    assert not KNOWN[b"/v1/responses"].only_computes


def test_configured_paths_are_added_and_never_taken_to_only_compute() -> None:
    """Nothing is known of them; and a known path cannot be weakened by listing it again."""
    paths = Paths(("/flush_cache", "/v1/embeddings"), ())
    added, known = paths.get(b"/flush_cache"), paths.get(b"/v1/embeddings")
    assert added is not None
    assert not added.only_computes
    assert known is not None
    assert known.only_computes
