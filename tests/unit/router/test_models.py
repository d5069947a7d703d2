"""The list of models says what OpenAI's says, and who serves them."""

import json

import msgspec
from tests.unit.router.parts import candidate

from opentela.core.record import ModelOffer, Offer
from opentela.router import models
from opentela.router.directory import Candidate, Pool


def offering(
    session: str, offer: ModelOffer, *, site: str = "alps", provider: str = "cscs"
) -> Candidate:
    """Return a candidate with an offer of its own."""
    return msgspec.structs.replace(candidate(session, site=site, provider=provider), offer=offer)


def test_an_entry_joins_what_its_sessions_say() -> None:
    """The context limit is what every one of them takes."""
    pool = Pool(
        (
            offering("a", ModelOffer(name="q/m", context_max=8192, quantisation="fp8")),
            offering("b", ModelOffer(name="q/m", context_max=4096, aliases=("m",)), site="jura"),
            offering("c", ModelOffer(name="q/m"), site="jura", provider="epfl"),
        )
    )
    assert json.loads(models.encode(models.listed({"q/m": pool}))) == {
        "object": "list",
        "data": [
            {
                "id": "q/m",
                "object": "model",
                "created": 1,
                "owned_by": "opentela",
                "max_model_len": 4096,
                "otela": {
                    "sessions": 3,
                    "sites": ["alps", "jura"],
                    "providers": ["cscs", "epfl"],
                    "aliases": ["m"],
                    "context_max": 4096,
                    "kv_tokens": 0,
                    "quantisations": ["fp8"],
                    "fingerprints": [],
                    "tiers": [],
                },
            }
        ],
    }


def test_a_single_provider_owns_the_model() -> None:
    """And a limit that nobody tells is null, not zero."""
    entry = models.described("m", Pool((candidate("a"),)))
    assert entry.owned_by == "cscs"
    assert entry.max_model_len is None
    assert entry.otela.context_max == 0


def test_the_kv_memories_of_all_sessions_count_together() -> None:
    """As far as their engines tell."""
    one, other = candidate("a"), candidate("b")
    told = msgspec.structs.replace(one, terms=Offer(kv_tokens=4096))
    pool = Pool((told, other, msgspec.structs.replace(told)))
    assert models.described("m", pool).otela.kv_tokens == 8192


def test_no_models_is_an_empty_list() -> None:
    """Not an error."""
    assert models.encode(models.listed({})) == b'{"object":"list","data":[]}'
