"""Facts of the catalogues."""

from typing import Any

import pytest

from opentela.core.errors import UsageError
from opentela.placer import catalogue
from opentela.placer.simulate import memory

PUBLISHED_BILLIONS = {
    "llama-2-7b": 6.74,
    "llama-3.1-405b": 405.85,
    "mixtral-8x7b": 46.7,
    "deepseek-v3": 671.0,
    "gpt-oss-120b": 116.8,
    "apertus-70b": 70.6,
    "bloom-176b": 176.2,
    "qwen3-235b-a22b": 235.1,
}


@pytest.mark.parametrize(("name", "billions"), PUBLISHED_BILLIONS.items())
def test_shapes_give_the_published_parameter_count(name: str, billions: float) -> None:
    """A wrong column of a shape shows in the number of its parameters."""
    assert memory.parameters(catalogue.model(name)) / 1e9 == pytest.approx(billions, rel=0.005)


def test_every_row_says_where_it_is_from() -> None:
    """A number without a source cannot be checked."""
    gpus, models, engines = catalogue.gpus(), catalogue.models(), catalogue.engines()
    assert [row.id for row in gpus.values() if not row.source] == []
    assert [row.id for row in models.values() if not row.source] == []
    assert [row.id for row in engines.values() if not row.source] == []


def test_a_model_is_found_by_its_hugging_face_name() -> None:
    """That is the name under which engines serve it."""
    found = catalogue.model("meta-llama/Llama-3.1-8B-Instruct")
    assert found == catalogue.model("llama-3.1-8b")


@pytest.mark.parametrize("lookup", [catalogue.gpu, catalogue.model, catalogue.engine])
def test_an_unknown_name_is_answered_with_the_known_ones(lookup: Any) -> None:
    """The remedy stands in the message."""
    with pytest.raises(UsageError, match=r"'x9' is not known; known are: \w"):
        lookup("x9")


def test_a_name_that_is_nearly_right_is_answered_with_those_like_it() -> None:
    """People know a GPU by less than its whole name."""
    with pytest.raises(UsageError, match=r"'H200' .* mean h200-141g-sxm or h200-141g-nvl\?"):
        catalogue.gpu("H200")
