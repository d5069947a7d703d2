"""An offer is what the engine lists and what the provider adds."""

import msgspec

from opentela.core.record import CLAIM_BYTES_MAX, ModelOffer, Offer, Parallelism
from opentela.supervisor.engines.base import EngineOffer
from opentela.supervisor.offer import Terms, composed, left_out, promised

TERMS = Terms(
    engine="openai",
    expected=("tiny",),
    labels={"tier": "a"},
    hardware="cpu",
    gpus=0,
    walltime_ends_at=9.0,
)


def engine(*models: ModelOffer, name: str = "vllm", version: str = "1.2") -> EngineOffer:
    return EngineOffer(name, models, version)


def test_a_loading_engine_promises_what_its_command_names() -> None:
    """Routers may hold requests for it; none is sent."""
    assert promised(TERMS) == Offer(
        models=(ModelOffer(name="tiny"),),
        engine="openai",
        hardware="cpu",
        labels={"tier": "a"},
        walltime_ends_at=9.0,
    )


def test_an_engine_that_is_started_again_promises_what_it_served() -> None:
    """Names only: what else it said of them is told anew."""
    before = (ModelOffer(name="a", aliases=("b",), fingerprint="f"), ModelOffer(name="lora"))
    terms = TERMS._replace(served=before, aliases={"chat": "a"})
    assert promised(terms).models == (
        ModelOffer(name="a", aliases=("b", "chat")),
        ModelOffer(name="lora"),
    )


def test_a_command_that_names_no_model_promises_what_aliases_name() -> None:
    """The model behind one, or the alias itself where it means the only model."""
    terms = TERMS._replace(expected=(), aliases={"chat": "a", "talk": "a"})
    assert promised(terms).models == (ModelOffer(name="a", aliases=("chat", "talk")),)
    assert promised(terms._replace(aliases={"chat": ""})).models == (ModelOffer(name="chat"),)
    assert promised(terms._replace(aliases={})).models == ()


def test_a_serving_engine_is_taken_at_its_word() -> None:
    """Name and version come from it, the rest from the provider."""
    model = ModelOffer(name="other", context_max=4096, quantisation="q4")
    offer = composed(TERMS, engine(model))
    assert offer.models == (model,)
    assert (offer.engine, offer.engine_version) == ("vllm", "1.2")
    assert (offer.hardware, offer.labels, offer.walltime_ends_at) == ("cpu", {"tier": "a"}, 9.0)


def test_what_its_memory_holds_and_how_it_uses_gpus_is_offered() -> None:
    """For those who place models and choose among sessions."""
    told = engine()._replace(kv_tokens=4096, parallelism=Parallelism(tensor=2))
    offer = composed(TERMS, told)
    assert (offer.kv_tokens, offer.parallelism) == (4096, Parallelism(tensor=2))


def test_an_engine_that_does_not_say_what_it_is_keeps_what_was_assumed() -> None:
    """Its command was recognised, its answers were not."""
    assert composed(TERMS, engine(name="")).engine == "openai"


def test_an_alias_goes_to_its_model_or_to_the_only_one() -> None:
    """Two models and an alias without a target: nobody gets it."""
    terms = TERMS._replace(aliases={"chat": "", "b-name": "b", "a": "a"})
    one = composed(terms, engine(ModelOffer(name="a", aliases=("file.gguf",)))).models
    assert [model.aliases for model in one] == [("file.gguf", "chat")]
    two = composed(terms, engine(ModelOffer(name="a"), ModelOffer(name="b"))).models
    assert [model.aliases for model in two] == [(), ("b-name",)]


def test_an_engine_that_lists_too_much_is_cut_to_what_fits_a_claim() -> None:
    """The first models are offered; the claim stays acceptable to every peer."""
    many = tuple(ModelOffer(name=f"{number:04}-" + "x" * 200) for number in range(500))
    whole = composed(TERMS, engine(*many))
    offered = whole.models
    assert left_out(whole, engine(*many)) == tuple(model.name for model in many[len(offered) :])
    assert 50 < len(offered) < 500
    assert offered == many[: len(offered)]
    assert len(msgspec.msgpack.encode(offered)) < CLAIM_BYTES_MAX
